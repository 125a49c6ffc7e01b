"""The vectorizer that counts the words of a vocabulary, and the vocabulary while it grows."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.data.dataset import as_csr
from xmlgp.data.features import Features
from xmlgp.errors import SettingsError
from xmlgp.text.analysis import LIMITS, Analysis
from xmlgp.text.documents import Columns

__all__ = ["GrowingVocabulary", "WordCounts", "counts"]

#: The first entries of a description. The version increases whenever older ones could not read what is written.
FORMAT = "xmlgp vectorizer"
FORMAT_VERSION = 1

#: What a description has of the columns, and what it has if that is not the default.
COLUMNS = ("text", "labels", "separator", "id")
MORE_COLUMNS = ("flags", "header")


class _Numbers(dict[str, int]):
    """The numbers of words; that of a word that is not in the vocabulary is −1."""

    def __missing__(self, word: str) -> int:
        return -1


class WordCounts:
    """Counts the D words of a vocabulary in texts.

    `numbers` maps each word to its number, and others to −1. `columns` are those of the training corpus, which are the
    default for other corpora.
    """

    def __init__(self, analysis: Analysis, words: list[str], columns: Columns | None = None) -> None:
        self.analysis = analysis
        self.words = words
        self.columns = columns or Columns()
        self.numbers = _Numbers(zip(words, range(len(words)), strict=True))

    @property
    def D(self) -> int:
        """Number of words."""
        return len(self.words)

    @property
    def finds_words(self) -> bool:
        """Whether the analysis finds any words."""
        return self.analysis.analyzer != "none"

    def features(self, texts: Sequence[str]) -> Features:
        """Return how often each word of the vocabulary occurs in each text, B×D."""
        numbers, lengths = _numbered(texts, self.analysis, self.numbers)
        return Features(counts(numbers, lengths, self.D))

    def description(self) -> dict[str, Any]:
        """Return what a folder keeps beside the words."""
        return {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "analyzer": self.analysis.analyzer,
            "ngrams": [self.analysis.shortest, self.analysis.longest],
            "columns": _columns_mapping(self.columns),
            **self.analysis.limits(),
        }

    @classmethod
    def from_description(cls, description: Mapping[str, Any], words: list[str]) -> WordCounts | None:
        """Return the vectorizer that an untrusted description is of, or None if it is of none."""
        try:
            shortest, longest = description["ngrams"]
            limits = {name: description[name] for name in LIMITS if name in description}
            analysis = Analysis(description["analyzer"], shortest, longest, **limits)
            if "stop_words" in limits:
                analysis = analysis._replace(stop_words=tuple(analysis.stop_words))
            analysis.check()
            columns = _columns_of(description["columns"])
        except (LookupError, TypeError, ValueError, SettingsError):
            return None
        version = description.get("format"), description.get("format_version")
        if version != (FORMAT, FORMAT_VERSION) or columns is None or len(set(words)) < len(words):
            return None
        return cls(analysis, words, columns)

    def describe(self) -> str:
        """Return the analysis and the columns in words."""
        analysis = self.analysis
        lengths = "-".join(map(str, dict.fromkeys((analysis.shortest, analysis.longest))))
        limits = {
            "min_count": f"min count {analysis.min_count}",
            "max_features": f"max features {analysis.max_features}",
            "stop_words": f"{len(analysis.stop_words)} stop words",
        }
        parts = [analysis.analyzer, f"n-grams {lengths}", *(limits[name] for name in analysis.limits())]
        labels = [*map(repr, self.columns.labels), *(f"columns {pattern!r}" for pattern in self.columns.flags)]
        parts.append(f"text in {', '.join(map(repr, self.columns.text))}")
        return ", ".join([*parts, f"labels in {', '.join(labels)}"])


class GrowingVocabulary:
    """The words of a `WordCounts` and, in the order of their first occurrence, those of documents that follow."""

    def __init__(self, vectorizer: WordCounts) -> None:
        self._vectorizer = vectorizer
        self._numbers = defaultdict(count(vectorizer.D).__next__, vectorizer.numbers)
        self._occurrences = np.zeros(vectorizer.D, np.int64)

    def features(self, texts: Sequence[str]) -> Features:
        """Return the counts of all words so far, which later calls may be more."""
        numbers, lengths = _numbered(texts, self._vectorizer.analysis, self._numbers)
        earlier = self._occurrences
        self._occurrences = np.bincount(numbers, minlength=len(self._numbers))
        self._occurrences[: len(earlier)] += earlier
        return Features(counts(numbers, lengths, len(self._numbers)))

    def ordered(self) -> tuple[WordCounts, NDArray[np.int32]]:
        """Return the vectorizer with the new words that its `Analysis` keeps, sorted, and its number of each word.

        The number of words that are left out is −1.
        """
        analysis = self._vectorizer.analysis
        words = list(self._numbers)
        D = self._vectorizer.D
        frequent = np.flatnonzero(self._occurrences >= analysis.min_count)
        new = sorted(frequent[frequent >= D].tolist(), key=words.__getitem__)
        most = len(new) if analysis.max_features is None else max(0, analysis.max_features - D)
        if len(new) > most:
            # The sort is stable, so of equally frequent words the first in order are kept.
            by_frequency = np.argsort(-self._occurrences[new], kind="stable")[:most]
            new = [new[i] for i in np.sort(by_frequency).tolist()]
        order = [*range(D), *new]
        columns = np.full(len(words), -1, np.int32)
        columns[order] = np.arange(len(order))
        kept = [words[number] for number in order]
        return WordCounts(analysis, kept, self._vectorizer.columns), columns


def _numbered(
    texts: Sequence[str], analysis: Analysis, numbers: Mapping[str, int]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the numbers of the words of texts, text after text, and how many words each has."""
    analyse = analysis.function()
    word_number = numbers.__getitem__
    # Arrays of Python are extended as fast as lists, and become those of NumPy without a copy.
    result = array("i")
    ends = [0]
    for text in texts:
        result.extend(map(word_number, analyse(text)))
        ends.append(len(result))
    return np.frombuffer(result, np.int32), np.diff(ends)


def counts(numbers: NDArray[np.integer], lengths: NDArray[np.integer], columns: int) -> csr_array:
    """Return how often each number occurs in each of the consecutive texts of these lengths, B×D in float32.

    Negative numbers do not count.
    """
    # Sorting takes most of the time, and half as long with 32 bits.
    counted = numbers >= 0
    dtype = np.int32 if len(lengths) * columns <= np.iinfo(np.int32).max else np.int64
    elements = np.repeat(np.arange(len(lengths), dtype=dtype) * dtype(columns), lengths)[counted] + numbers[counted]
    elements.sort()
    first = np.flatnonzero(np.diff(elements, prepend=dtype(-1)))
    rows, indices = np.divmod(elements[first], dtype(max(1, columns)))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(lengths)))])
    return as_csr(np.diff(first, append=len(elements)).astype(np.float32), indices, indptr, columns)


def _columns_mapping(columns: Columns) -> dict[str, Any]:
    """Return columns as JSON has them; a single column of labels is a text."""
    mapping = {name: getattr(columns, name) for name in COLUMNS}
    mapping |= {name: getattr(columns, name) for name in MORE_COLUMNS if getattr(columns, name)}
    if len(columns.labels) == 1:
        mapping["labels"] = columns.labels[0]
    return {name: list(value) if isinstance(value, tuple) else value for name, value in mapping.items()}


def _columns_of(mapping: Mapping[str, Any]) -> Columns | None:
    """Return the columns in an untrusted mapping, or None if there are none."""
    values = {name: mapping[name] for name in COLUMNS}
    values |= {name: mapping[name] for name in MORE_COLUMNS if name in mapping}
    if isinstance(values["labels"], str):
        values["labels"] = [values["labels"]]
    lists = [values[name] for name in ("text", "labels", *MORE_COLUMNS) if name in values]
    texts = [values[name] for name in ("separator", "id") if values[name] is not None]
    if not values["text"] or not all(isinstance(value, list) for value in lists):
        return None
    # The description of a model holds printable text only.
    names = [*texts, *(name for value in lists for name in value)]
    if not all(isinstance(name, str) and name.isprintable() for name in names):
        return None
    columns: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
    }
    return Columns(**columns)
