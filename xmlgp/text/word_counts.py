"""The vectorizer that counts the words of a vocabulary in texts."""

from __future__ import annotations

import functools
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from xmlgp.data.features import Features
from xmlgp.runtime.errors import SettingsError
from xmlgp.text.analysis import LIMITS, Analysis
from xmlgp.text.documents import Columns
from xmlgp.text.number_rows import NumberRows

__all__ = ["WordCounts"]

#: The first entries of a description. The version increases whenever older ones could not read what is written.
FORMAT = "xmlgp vectorizer"
FORMAT_VERSION = 1

#: What a description has of the columns.
COLUMNS = ("text", "labels", "separator", "id")


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
        labels = map(repr, self.columns.labels)
        parts.append(f"text in {', '.join(map(repr, self.columns.text))}")
        return ", ".join([*parts, f"labels in {', '.join(labels)}"])


def _columns_mapping(columns: Columns) -> dict[str, Any]:
    """Return columns as JSON has them; a single column of labels is a text."""
    mapping = {name: getattr(columns, name) for name in COLUMNS}
    if len(columns.labels) == 1:
        mapping["labels"] = columns.labels[0]
    return {name: list(value) if isinstance(value, tuple) else value for name, value in mapping.items()}


def _columns_of(mapping: Mapping[str, Any]) -> Columns | None:
    """Return the columns in an untrusted mapping, or None if there are none."""
    values = {name: mapping[name] for name in COLUMNS}
    if isinstance(values["labels"], str):
        values["labels"] = [values["labels"]]
    lists = [values["text"], values["labels"]]
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
