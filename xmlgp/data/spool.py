"""Points in a temporary file, a block at a time, so that memory does not grow with their number."""

from __future__ import annotations

import contextlib
import tempfile
import weakref
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.data.dataset import Dataset, as_csr, no_points, stack
from xmlgp.data.features import Dense, Features

__all__ = ["IN_MEMORY", "Numbering", "Spool"]

#: A spool of more bytes than this goes to a file; a smaller one stays in memory.
IN_MEMORY = 1 << 24


class Numbering(NamedTuple):
    """New numbers for the columns of a matrix: column i becomes `columns[i]` of `size` columns.

    It is left out if `columns[i]` is −1. If `columns` is None, all columns keep their numbers.
    """

    columns: NDArray[np.int32] | None
    size: int


class _Block(NamedTuple):
    """How many points, stored features and labels a block has."""

    points: int
    features: int
    labels: int


class Spool:
    """Points in a temporary file, which is deleted when this object or the process ends.

    Later blocks may have more columns than earlier ones. Dense features are one matrix, in single precision.
    """

    def __init__(self) -> None:
        self.N = 0
        self._blocks: list[_Block] = []
        self._file = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 it stays open as long as this object
        weakref.finalize(self, self._file.close)
        # Dense features have a file of their own, from which they are mapped into memory.
        self._dense: BinaryIO | None = None
        self._width = 0

    def add(self, points: Dataset) -> None:
        """Append points."""
        X = points.features.sparse
        Y = points.labels
        lengths = [np.diff(matrix.indptr).astype(np.int32) for matrix in (X, Y)]
        with _temporary_folder_named():
            for array in (*lengths, X.indices, X.data, Y.indices):
                self._file.write(array.tobytes())
        self._blocks.append(_Block(points.N, X.nnz, Y.nnz))
        self.N += points.N
        if points.features.dense:
            self._add_dense(points.features.dense.values())

    def _add_dense(self, values: NDArray[np.float32]) -> None:
        with _temporary_folder_named():
            if self._dense is None:
                self._width = values.shape[1]
                self._dense = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115 as above
                weakref.finalize(self, self._dense.close)
            self._dense.write(values.tobytes())

    def dense(self) -> Dense | None:
        """Return the dense features of all points, or None."""
        if self._dense is None:
            return None
        with _temporary_folder_named():
            self._dense.flush()
        shape = self.N, self._width
        return Dense((np.memmap(self._dense, np.float32, "r", shape=shape) if self.N else np.empty(shape, np.float32),))

    def blocks(self, features: Numbering, labels: Numbering) -> Iterator[Dataset]:
        """Yield the points in the blocks that were added, with features and labels renumbered."""
        first = 0
        dense = self.dense()
        for points in self._sparse_blocks(features, labels):
            rows = slice(first, first + points.N)
            yield points if dense is None else Dataset(points.features.beside(dense[rows]), points.labels)
            first = rows.stop

    def dataset(self, features: Numbering, labels: Numbering) -> Dataset:
        """Return all points as one `Dataset`, with features and labels renumbered; dense features stay in the file."""
        points = stack([no_points(features.size, labels.size), *self._sparse_blocks(features, labels)])
        dense = self.dense()
        return points if dense is None else Dataset(points.features.beside(dense), points.labels)

    def _sparse_blocks(self, features: Numbering, labels: Numbering) -> Iterator[Dataset]:
        self._file.seek(0)
        for block in self._blocks:
            lengths = self._integers(block.points)
            label_lengths = self._integers(block.points)
            columns = self._integers(block.features)
            values = np.frombuffer(self._file.read(4 * block.features), np.float32)
            X = _renumbered(columns, values, lengths, features)
            Y = _renumbered(self._integers(block.labels), None, label_lengths, labels)
            yield Dataset(Features(X), Y)

    def _integers(self, size: int) -> NDArray[np.int32]:
        return np.frombuffer(self._file.read(4 * size), np.int32)


def _renumbered(
    indices: NDArray[np.int32], data: NDArray[np.float32] | None, lengths: NDArray[np.int32], numbering: Numbering
) -> csr_array:
    """Return a csr_array of rows of these lengths, with columns renumbered; without `data` it is of bool."""
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    if numbering.columns is None:
        return as_csr(data, indices, indptr, numbering.size)
    indices = numbering.columns[indices]
    kept = indices >= 0
    ends = np.concatenate([[0], np.cumsum(kept)])[indptr]
    matrix = as_csr(None if data is None else data[kept], indices[kept], ends, numbering.size)
    matrix.sort_indices()
    return matrix


@contextlib.contextmanager
def _temporary_folder_named() -> Iterator[None]:
    """Make errors about temporary files, which have no name, say which folder is full."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename or not tempfile.tempdir:
            raise
        raise OSError(error.errno, error.strerror, tempfile.tempdir) from error
