"""Feature weighting: logarithms, inverse document frequencies, rows of unit length, and standardising."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.data.dataset import as_csr
from xmlgp.linear_algebra import sparse
from xmlgp.runtime.blocks import row_blocks
from xmlgp.runtime.executor import LOCAL_EXECUTOR, Executor

__all__ = [
    "IDF_WEIGHTINGS",
    "Weighting",
    "count_points",
    "inverse_frequencies",
    "largest_magnitude",
    "mean_and_scale",
    "row_chunks",
    "weigh",
]

#: Values of the setting `weighting` with inverse document frequencies.
IDF_WEIGHTINGS = ("root-idf", "idf")

#: Stored elements that are processed at a time, so that temporary arrays stay in a core's cache.
CHUNK = 1 << 16


def row_chunks(matrix: csr_array, size: int) -> list[slice]:
    """Return slices of consecutive rows of a csr_array that have `size` stored elements on average."""
    N = matrix.shape[0]
    return row_blocks(N, max(1, N * size // max(1, int(matrix.nnz))))


def largest_magnitude(features: csr_array) -> float:
    """Return the largest magnitude of the elements of a csr_array."""
    # Without an array of magnitudes.
    return float(max(features.data.max(initial=0), -features.data.min(initial=0)))


class Weighting(NamedTuple):
    """A feature weighting: all that `weigh` does with features.

    x is replaced by sign(x) log(1 + |x|), because the tenth occurrence of a word says less than the first
    (`logarithm`), multiplied by the weight of its feature (`idf`, D), and rows are scaled to `unit` length, except rows
    of zeros. Or instead, each feature is multiplied by the inverse of its standard deviation (`scale`, D). Subtracting
    the mean, so that absent features do not stay absent, is left to `xmlgp.features.inputs`.
    """

    idf: np.ndarray | None
    unit: bool
    logarithm: bool = False
    scale: np.ndarray | None = None

    @classmethod
    def named(
        cls, name: str, idf: NDArray[np.float32] | None = None, scale: NDArray[np.float64] | None = None
    ) -> Weighting:
        """Return the `Weighting` of a value of the setting `weighting`, with the idf or scale that it needs."""
        return cls(idf, name not in ("none", "standard"), name == "root-idf", scale)


def count_points(features: csr_array) -> NDArray[np.int64]:
    """Return the number of points that have each feature, D."""
    return sparse.column_sums(features.indices, features.shape[1])


def inverse_frequencies(name: str, N: int, counts: NDArray[np.int64]) -> NDArray[np.float32] | None:
    """Return the idf, D, of a value of the setting `weighting`, for N points of which `counts`, D, have each feature.

    It is log((1 + N)/(1 + n_d)) + 1, and None for weightings without it.
    """
    if name not in IDF_WEIGHTINGS:
        return None
    idf: NDArray[np.float32] = (np.log((1 + N) / (1 + counts)) + 1).astype(np.float32)
    # The square root, so that inner products weight each feature by its inverse document frequency once.
    return np.sqrt(idf) if name == "root-idf" else idf


def weigh(features: csr_array, weighting: Weighting, executor: Executor = LOCAL_EXECUTOR) -> csr_array:
    """Return weighted features, N×D.

    They are float32, with the index arrays of `features`, and its elements if nothing changes. Scaled features are
    float64, because a large mean may be subtracted from them. Those for a cluster are in a file that its workers see.
    """
    idf, unit, logarithm, scale = weighting
    indptr, indices, data = features.indptr, features.indices, features.data
    D = features.shape[1]
    if scale is not None:
        return as_csr(data * scale[indices], indices, indptr, D)
    if idf is None and not unit and not logarithm:
        return features.astype(np.float32, copy=False)
    weighted = executor.empty(data.shape, np.float32)
    for rows in row_chunks(features, CHUNK):
        ends = indptr[rows.start : rows.stop + 1]
        part = slice(ends[0], ends[-1])
        # In double precision, in which weights and squares of float32 do not overflow.
        values = data[part].astype(np.float64)
        if logarithm:
            values = np.copysign(np.log1p(np.abs(values)), values)
        if idf is not None:
            values *= idf[indices[part]]
        if unit:
            row = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
            norms = np.sqrt(np.bincount(row, np.square(values), len(ends) - 1))
            norms[norms == 0] = 1
            values /= norms[row]
        weighted[part] = values
    return as_csr(weighted, indices, indptr, D)


def mean_and_scale(features: csr_array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean of each feature over all points, zeros included, and the inverse of its standard deviation, D.

    The scale of a constant feature is 0, because other values of it have no known meaning.
    """
    from sklearn.utils.sparsefuncs import mean_variance_axis, min_max_axis

    values = features.astype(np.float64)
    mean, variance = mean_variance_axis(values, axis=0)
    least, largest = min_max_axis(values, axis=0)
    scale = np.zeros_like(mean)
    np.divide(1, np.sqrt(variance), out=scale, where=(least < largest) & (variance > 0))
    return mean, scale
