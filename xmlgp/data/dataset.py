"""A multi-label data set in memory: sparse features and sparse labels of the same points."""

import functools
import hashlib
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from xmlgp.data.blocks import Blocks, Dense, beside, dense_of, stacked, widths_of
from xmlgp.errors import SettingsError

__all__ = ["Dataset", "as_csr", "check_sizes", "consecutive_rows", "no_points", "stack", "widened"]

#: Above this many stored elements SciPy needs 64-bit indices.
INT32_MAX = np.iinfo(np.int32).max


@dataclass(frozen=True, eq=False)
class Dataset:
    """N points with D features and K labels.

    Parameters
    ----------
    features : scipy.sparse.csr_array, shape (N, D), float32
        X; float64 if read from libsvm format, because features that are standardised later may be far from zero. Column
        indices are sorted within a row, without duplicates; no element is a stored zero. `Blocks` with dense features
        of the same points, N×E.
    labels : scipy.sparse.csr_array, shape (N, K), bool
        Y, the positive labels, sorted and without duplicates as well.

    Notes
    -----
    The arrays may be read-only views of files mapped into memory: do not change them in place.
    """

    features: csr_array | Blocks
    labels: csr_array

    def __post_init__(self):
        if self.features.shape[0] != self.labels.shape[0]:
            raise ValueError(f"features of {self.features.shape[0]} points, but labels of {self.labels.shape[0]}")

    @property
    def N(self):
        """Number of points."""
        return self.features.shape[0]

    @property
    def D(self):
        """Number of features."""
        return self.features.shape[1]

    @property
    def K(self):
        """Number of labels."""
        return self.labels.shape[1]

    @property
    def shape(self):
        """N, D and K."""
        return self.N, self.D, self.K

    @functools.cached_property
    def fingerprint(self):
        """SHA-256 of the content, which does not depend on the file."""
        digest = hashlib.sha256(repr(self.shape).encode())
        for matrix in (self.features, self.labels):
            for array, dtype in ((matrix.indptr, "<i8"), (matrix.indices, "<i4")):
                digest.update(np.ascontiguousarray(array, dtype).data)
        values = self.features.data
        digest.update(np.ascontiguousarray(values, "<f8" if values.dtype == np.float64 else "<f4").data)
        if dense := dense_of(self.features):
            digest.update(repr(dense.widths).encode())
            for rows in dense.chunks():
                digest.update(dense[rows].values("<f8" if dense.dtype == np.float64 else "<f4").data)
        return digest.hexdigest()

    @property
    def facts(self):
        """N, D, K, the widths of dense blocks if there are any, and the fingerprint, as stored in a model folder."""
        widths = widths_of(self.features)
        dense = {"dense": widths} if widths else {}
        return {"N": self.N, "D": self.D, "K": self.K} | dense | {"fingerprint": self.fingerprint}

    def rows(self, selection):
        """Return a data set of some of the points, chosen by a slice, indices or booleans as in NumPy."""
        return Dataset(self.features[selection], self.labels[selection])


def as_csr(data, indices, indptr, columns):
    """Return a csr_array, N×`columns`, of existing arrays, without copying or checking them.

    `data` None means that all stored elements are True. The indices are int32 unless nnz needs 64 bits.
    """
    if len(indices) <= INT32_MAX:
        indices, indptr = (array.astype(np.int32, copy=False) for array in (indices, indptr))
    if data is None:
        data = np.ones(len(indices), dtype=bool)
    return csr_array((data, indices, indptr), shape=(len(indptr) - 1, columns), copy=False)


def widened(matrix, columns):
    """Return a csr_array with more columns, N×`columns`, and the same elements, without copying these."""
    return as_csr(matrix.data, matrix.indices, matrix.indptr, columns)


def consecutive_rows(matrix, rows):
    """Return the rows of a csr_array or `Blocks` in a slice with `start` and `stop`, without copying their elements."""
    if isinstance(matrix, Blocks):
        return Blocks(consecutive_rows(matrix.sparse, rows), matrix.dense[rows])
    indptr = matrix.indptr[rows.start : rows.stop + 1]
    part = slice(int(indptr[0]), int(indptr[-1]))
    return as_csr(matrix.data[part], matrix.indices[part], indptr - indptr[0], matrix.shape[1])


def check_sizes(dataset, D, K, path=None):
    """Raise SettingsError, with the file, if points that a model is to learn have fewer features or labels than it."""
    for count, known, noun in (dataset.D, D, "feature"), (dataset.K, K, "label"):
        if count < known:
            where = f"{path}: " if path else ""
            raise SettingsError(
                f"{where}the points have {count} {noun}{'s' * (count != 1)}, but the model was trained on {known}; "
                "points to learn from need at least as many"
            )


def no_points(D, K, widths=()):
    """Return a `Dataset` of D features, dense blocks of some widths and K labels, without points."""
    empty = np.empty(0, np.int32)
    start = np.zeros(1, np.int32)
    features = as_csr(np.empty(0, np.float32), empty, start, D)
    if widths:
        # The smallest type, so that points that follow keep theirs.
        features = beside(features, Dense(tuple(np.empty((0, width), np.float16) for width in widths)))
    return Dataset(features, as_csr(None, empty, start, K))


def stack(datasets):
    """Concatenate the points of data sets, at least one, with the same D and K."""
    return Dataset(stacked([part.features for part in datasets]), stacked([part.labels for part in datasets]))
