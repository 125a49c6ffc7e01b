"""Texts as rows of features: how often each word of the vocabulary occurs."""

from array import array

import numpy as np

from xmlgp.data.dataset import as_csr
from xmlgp.errors import SettingsError
from xmlgp.text.analysis import Analysis
from xmlgp.text.documents import Columns

__all__ = ["Vectorizer", "counts"]

#: The first entries of a mapping. The version increases whenever older ones could not read what is written.
FORMAT, FORMAT_VERSION = "xmlgp vectorizer", 1

#: What a mapping has of the columns.
COLUMNS = ("text", "labels", "separator", "id")


class _Numbers(dict):
    """The numbers of words; that of a word that is not in the vocabulary is −1."""

    def __missing__(self, word):
        return -1


class Vectorizer:
    """Counts the D words of a vocabulary in texts.

    `numbers` maps each word to its number, and others to −1. `columns` are those of the training corpus (`Columns`),
    which are the default for others.
    """

    def __init__(self, analysis, words, columns=None):
        self.analysis, self.words, self.columns = analysis, words, columns or Columns()
        self.numbers = _Numbers(zip(words, range(len(words)), strict=True))

    def features(self, texts):
        """Return how often each word of the vocabulary occurs in each text, B×D (csr_array of float32)."""
        analyse = self.analysis.function()
        found, ends = array("i"), [0]
        for text in texts:
            found.extend(map(self.numbers.__getitem__, analyse(text)))
            ends.append(len(found))
        return counts(np.frombuffer(found, np.int32), np.diff(ends), len(self.words))

    def mapping(self):
        """Return what `from_mapping` needs besides the words, as JSON has it."""
        return {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "analyzer": self.analysis.analyzer,
            "ngrams": [self.analysis.shortest, self.analysis.longest],
            "columns": {name: getattr(self.columns, name) for name in COLUMNS} | {"text": list(self.columns.text)},
        }

    @classmethod
    def from_mapping(cls, mapping, words):
        """Return the vectorizer that an untrusted mapping describes, or None if it describes none."""
        try:
            analysis = Analysis(mapping["analyzer"], *mapping["ngrams"])
            analysis.check()
            columns = Columns(*(mapping["columns"][name] for name in COLUMNS))
        except (LookupError, TypeError, SettingsError):
            return None
        known = mapping.get("format") == FORMAT and mapping.get("format_version") == FORMAT_VERSION
        if not known or not isinstance(columns.text, list) or not columns.text or len(set(words)) < len(words):
            return None
        names = [*columns.text, columns.labels]
        names += [name for name in (columns.separator, columns.id) if name is not None]
        # The description of a model holds printable text only.
        if not all(isinstance(name, str) and name.isprintable() for name in names):
            return None
        return cls(analysis, words, columns._replace(text=tuple(columns.text)))


def counts(numbers, lengths, columns):
    """Return how often each number occurs in each of the consecutive texts of these lengths, B×D in float32."""
    # Negative numbers do not count. Sorting takes most of the time, and half as long with 32 bits.
    known = numbers >= 0
    dtype = np.int32 if len(lengths) * columns <= np.iinfo(np.int32).max else np.int64
    places = np.repeat(np.arange(len(lengths), dtype=dtype) * dtype(columns), lengths)[known] + numbers[known]
    places.sort()
    first = np.flatnonzero(np.diff(places, prepend=dtype(-1)))
    rows, indices = np.divmod(places[first], dtype(max(1, columns)))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(lengths)))])
    return as_csr(np.diff(first, append=len(places)).astype(np.float32), indices, indptr, columns)
