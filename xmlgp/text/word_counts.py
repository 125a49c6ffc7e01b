"""The vectorizer that counts the words of a vocabulary in texts."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.data.dataset import as_csr
from xmlgp.data.features import Features
from xmlgp.runtime.errors import SettingsError
from xmlgp.text.analysis import LIMITS, Analysis
from xmlgp.text.characters import words_of
from xmlgp.text.documents import Columns

__all__ = ["WordCounts", "counts"]

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
    def _counter(self) -> Any:
        """The `CountVectorizer` of the words."""
        return self.analysis.counter(self._numbers)

    def features(self, texts: Iterable[str]) -> Features:
        """Return how often each word of the vocabulary occurs in each text, B×D."""
        if self.analysis.analyzer == "word" and self.analysis.longest == 1:
            # scikit-learn takes longer to import than a text takes from a command to its answer.
            number_of = self._numbers.get
            found = [[number_of(word, -1) for word in words_of(text.lower())] for text in texts]
            numbers = np.fromiter(itertools.chain.from_iterable(found), np.int32)
            return Features(counts(numbers, np.fromiter(map(len, found), np.int64), self.D))
        if not self.words:
            return Features(csr_array((len(list(texts)), 0), dtype=np.float32))
        return Features(_as_features(self._counter.transform(texts)))

    def extended(self, texts: Iterable[str]) -> tuple[WordCounts, Features]:
        """Return the vectorizer with the new words of texts that its `Analysis` keeps, and the counts of all its words.

        New words are sorted and follow the others.
        """
        counter = self.analysis.counter()
        number = 0

        def counted() -> Iterable[str]:
            nonlocal number
            for text in texts:
                yield text
                number += 1

        try:
            matrix = counter.fit_transform(counted())
        except ValueError as error:
            if "empty vocabulary" not in str(error):
                raise
            return self, Features(csr_array((number, self.D), dtype=np.float32))
        words = counter.get_feature_names_out().tolist()
        columns = np.array([self._numbers.get(word, -1) for word in words], np.int32)
        occurrences = np.asarray(matrix.sum(axis=0)).ravel()
        new = np.flatnonzero((columns < 0) & (occurrences >= self.analysis.min_count))
        most = self.analysis.max_features
        if most is not None:
            # The sort is stable, so of equally frequent words the first in order are kept.
            frequent = np.argsort(-occurrences[new], kind="stable")[: max(0, most - self.D)]
            new = new[np.sort(frequent)]
        columns[new] = np.arange(self.D, self.D + len(new))
        more = [words[column] for column in new.tolist()]
        kept = [*self.words, *more]
        chosen = columns >= 0
        matrix = _as_features(matrix[:, np.flatnonzero(chosen)] if not chosen.all() else matrix)
        features = as_csr(matrix.data, columns[chosen][matrix.indices], matrix.indptr, len(kept))
        features.sort_indices()
        if not more:
            return self, Features(features)
        extended = WordCounts(self.analysis, kept, self.columns)
        # Numbering all words anew takes longer than counting those of a text.
        extended._numbers = self._numbers | dict(zip(more, range(self.D, len(kept)), strict=True))
        return extended, Features(features)

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


def _as_features(matrix: Any) -> csr_array:
    """Return counts as `Features` have them."""
    matrix.sort_indices()
    return as_csr(matrix.data.astype(np.float32), matrix.indices, matrix.indptr, matrix.shape[1])


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
