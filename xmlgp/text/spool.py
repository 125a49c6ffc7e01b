"""The numbers of words and labels of documents, kept in a temporary file between two passes over a corpus."""

import tempfile
import weakref
from typing import NamedTuple

import numpy as np

__all__ = ["Numbered", "Spool"]

#: Bytes that are kept in memory.
IN_MEMORY = 1 << 24


class Numbered(NamedTuple):
    """Consecutive documents whose words and labels are numbers, which are int32.

    Attributes
    ----------
    lengths, label_counts : ndarray, B
        How many words and labels each document has.
    words, labels : ndarray
        Of all documents, one after another.
    """

    lengths: np.ndarray
    label_counts: np.ndarray
    words: np.ndarray
    labels: np.ndarray


class Spool:
    """Blocks of `Numbered` documents, in memory if they are few, otherwise in a file that ends with the process."""

    def __init__(self):
        self._file = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 it stays open as long as the spool
        weakref.finalize(self, self._file.close)
        self._sizes = []

    def add(self, block):
        """Append a block."""
        for part in block:
            self._file.write(part.tobytes())
        self._sizes.append([len(part) for part in block])

    def __iter__(self):
        self._file.seek(0)
        for sizes in self._sizes:
            yield Numbered(*(np.frombuffer(self._file.read(4 * size), np.int32) for size in sizes))

    @property
    def documents(self):
        """The number of documents."""
        return sum(sizes[0] for sizes in self._sizes)
