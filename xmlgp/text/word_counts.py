"""The vectorizer: how texts are divided into words, and the counts of those of a vocabulary."""

from __future__ import annotations

import functools
import itertools
import re
import sys
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from xmlgp.data.dataset import Features
from xmlgp.runtime.errors import SettingsError
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.documents import Columns
from xmlgp.text.number_rows import NumberRows

__all__ = ["ANALYZERS", "LONGEST", "Analysis", "WordCounts", "normalized_text"]

#: The first entries of a description. The version increases whenever older ones could not read what is written.
FORMAT = "xmlgp vectorizer"
FORMAT_VERSION = 1

#: What the words of a text are: two or more letters or digits; runs of characters; the same within words.
ANALYZERS = ("word", "char", "char-wb")

#: The longest n-gram. A text of n characters has n n-grams of each length.
LONGEST = 100

#: Runs of whitespace and control characters, which names of features cannot have.
SPACES = re.compile("[\\s\0-\x1f\x7f-\x9f]+")

#: The words of a text as scikit-learn's `CountVectorizer` has them.
WORDS = re.compile(r"\b\w\w+\b")

#: Characters without width, which nobody sees: soft hyphens, joiners, marks of direction and of byte order.
INVISIBLE = re.compile("[\xad\u034f\u061c\u180e\u200b-\u200f\u2060-\u2064\ufeff]")


class Analysis(NamedTuple):
    """How a text is divided into words, and which words are features.

    Attributes
    ----------
    analyzer : str
        One of `ANALYZERS`.
    shortest, longest : int
        Lengths of n-grams, in words or characters.
    min_count : int
        Words that occur less often in the corpus are left out.
    max_features : int, optional
        At most so many features are kept, the most frequent; those that a model has count.
    """

    analyzer: str = "word"
    shortest: int = 1
    longest: int = 1
    min_count: int = 1
    max_features: int | None = None

    def check(self) -> None:
        """Raise SettingsError if a value is not allowed."""
        if self.analyzer not in ANALYZERS:
            raise SettingsError(f"analyzer must be one of {', '.join(ANALYZERS)}")
        most = 1 if self.max_features is None else self.max_features
        for number in (self.shortest, self.longest, self.min_count, most):
            if type(number) is not int or number < 1:
                raise SettingsError(f"lengths of n-grams and limits must be positive integers, not {excerpt(number)}")
        if not self.shortest <= self.longest <= LONGEST:
            raise SettingsError(f"the lengths of n-grams must be from 1 to {LONGEST}, the shortest first")

    def finder(self) -> Callable[[str], list[str]]:
        """Return the function that finds the words in a text, mostly scikit-learn's analyser.

        For characters see `normalized_text`; whitespace and control characters within n-grams of characters are a
        space.
        """
        if self.analyzer == "word" and self.longest == 1:
            # scikit-learn takes longer to import than a text takes from a command to its answer.
            return _words_in
        from sklearn.feature_extraction.text import CountVectorizer

        options: dict[str, Any] = {"preprocessor": _plain}
        if self.analyzer == "word":
            options = {"preprocessor": str.lower, "tokenizer": _words_of, "token_pattern": None}
        finder: Callable[[str], list[str]] = CountVectorizer(
            analyzer=self.analyzer.replace("-", "_"), ngram_range=(self.shortest, self.longest), **options
        ).build_analyzer()
        return finder


class WordCounts:
    """Counts the D words of a vocabulary in texts.

    `columns` are those of the training corpus, which are the default for other corpora.
    """

    def __init__(self, analysis: Analysis, words: list[str], columns: Columns | None = None) -> None:
        self.analysis = analysis
        self.words = words
        self.columns = columns or Columns()

    @property
    def D(self) -> int:
        """Number of words."""
        return len(self.words)

    @functools.cached_property
    def _numbers(self) -> dict[str, int]:
        """The numbers of the words."""
        return dict(zip(self.words, range(self.D), strict=True))

    @functools.cached_property
    def _words_in(self) -> Callable[[str], list[str]]:
        """Returns the words in a text."""
        return self.analysis.finder()

    def features(self, texts: Iterable[str]) -> Features:
        """Return how often each word of the vocabulary occurs in each text, B×D."""
        rows = NumberRows()
        number_of = self._numbers.get
        for text in texts:
            rows.add(map(number_of, self._words_in(text), itertools.repeat(-1)))
        return Features(rows.counts(self.D))

    def extended(self, texts: Iterable[str]) -> tuple[WordCounts, Features]:
        """Return the vectorizer with the new words of texts that its `Analysis` keeps, and the counts of all its words.

        New words are sorted and follow the others.
        """
        numbers: defaultdict[str, int] = defaultdict(None, self._numbers)
        numbers.default_factory = numbers.__len__
        rows = NumberRows()
        for text in texts:
            rows.add(map(numbers.__getitem__, self._words_in(text)))
        occurrences = rows.occurrences(len(numbers)).tolist()
        found = itertools.islice(numbers.items(), self.D, None)
        new = sorted(word for word, number in found if occurrences[number] >= self.analysis.min_count)
        if self.analysis.max_features is not None:
            # The sort is stable, so of equally frequent words the first in order are kept.
            new.sort(key=lambda word: occurrences[numbers[word]], reverse=True)
            new = sorted(new[: max(0, self.analysis.max_features - self.D)])
        words = self.words + new
        positions = np.full(len(numbers), -1, np.int32)
        positions[: self.D] = np.arange(self.D)
        positions[[numbers[word] for word in new]] = np.arange(self.D, len(words))
        vectorizer = WordCounts(self.analysis, words, self.columns) if new else self
        return vectorizer, Features(rows.counts(len(words), positions))

    def description(self) -> dict[str, Any]:
        """Return what a folder keeps beside the words."""
        columns: dict[str, Any] = self.columns._asdict() | {"text": list(self.columns.text)}
        labels = list(self.columns.labels)
        columns["labels"] = labels if len(labels) > 1 else labels[0]
        limits = {"min_count": self.analysis.min_count, "max_features": self.analysis.max_features}
        defaults = Analysis()._asdict()
        return {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "analyzer": self.analysis.analyzer,
            "ngrams": [self.analysis.shortest, self.analysis.longest],
            "columns": columns,
            **{name: limit for name, limit in limits.items() if limit != defaults[name]},
        }

    @classmethod
    def from_description(cls, description: Mapping[str, Any], words: list[str]) -> WordCounts | None:
        """Return the vectorizer that an untrusted description is of, or None if it is of none."""
        try:
            columns = description["columns"]
            shortest, longest = description["ngrams"]
            labels = columns["labels"]
            vectorizer = cls(
                Analysis(
                    description["analyzer"],
                    shortest,
                    longest,
                    description.get("min_count", 1),
                    description.get("max_features"),
                ),
                words,
                Columns(
                    tuple(columns["text"]),
                    (labels,) if isinstance(labels, str) else tuple(labels),
                    columns["separator"],
                    columns["id"],
                ),
            )
            vectorizer.analysis.check()
            is_same = vectorizer.description() == description
        except (LookupError, TypeError, ValueError, SettingsError):
            return None
        names = [name for value in vectorizer.columns if value is not None for name in value]
        # The description of a model holds printable text only.
        are_names = all(isinstance(name, str) and name.isprintable() for name in names)
        return vectorizer if is_same and are_names and columns["text"] and len(set(words)) == len(words) else None


def _plain(text: str) -> str:
    """Return a text in lower case, in one form of each character, with plain spaces."""
    return SPACES.sub(" ", normalized_text(text)).lower()


def _words_in(text: str) -> list[str]:
    return _words_of(text.lower())


def normalized_text(text: str) -> str:
    """Return text in Unicode's form NFC, without invisible characters."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", INVISIBLE.sub("", text))


def _words_of(text: str) -> list[str]:
    """Return the words of a text: runs of two or more letters or digits, with the accents and vowel signs on them."""
    if text.isascii():
        return WORDS.findall(text)
    text = normalized_text(text)
    if any(map(_is_mark, set(text))):
        return _words_with_marks().findall(text)
    return WORDS.findall(text)


@functools.lru_cache(maxsize=1 << 12)
def _is_mark(character: str) -> bool:
    """Return whether a character is a mark on the one before; some texts have such marks even in the form NFC."""
    return unicodedata.category(character).startswith("M")


@functools.cache
def _words_with_marks() -> re.Pattern[str]:
    """Return `WORDS` for texts with marks, which are not letters."""
    marks = "".join(filter(_is_mark.__wrapped__, map(chr, range(sys.maxunicode + 1))))
    return re.compile(rf"\w[\w{marks}]+")
