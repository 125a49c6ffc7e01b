"""Feature weighting: logarithms, inverse document frequencies, rows of unit length, and standardising."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.data.dataset import as_csr, consecutive_rows
from xmlgp.linear_algebra import sparse
from xmlgp.runtime.work import THIS_MACHINE, Work

__all__ = [
    "IDF_WEIGHTINGS",
    "Weighting",
    "count_points",
    "idf_of_counts",
    "mean_and_scale",
    "row_chunks",
    "shards_for_sums",
    "sizes_of",
    "weigh",
    "weigh_points",
    "weighted_sizes",
]

#: Values of the setting `weighting` with inverse document frequencies.
IDF_WEIGHTINGS = ("root-idf", "idf")

#: Stored elements that are processed at a time, so that temporary arrays stay in a core's cache.
CHUNK = 1 << 16

#: Stored elements of a row shard, a block of work: some tenths of a second, little memory. Where the result is a sum
#: for each feature, the least number of them for each feature: then adding the sums takes little time.
SHARD = 1 << 21
SHARE = 64


def row_chunks(matrix: csr_array, size: int) -> Iterator[slice]:
    """Yield slices of consecutive rows of a csr_array with about `size` stored elements each, and at least one row."""
    start = 0
    rows = matrix.shape[0]
    while start < rows:
        # In the type of the array, which NumPy would convert otherwise; a sum can be too large for it.
        end = min(int(matrix.indptr[start]) + size, int(matrix.indptr[-1]))
        stop = int(np.searchsorted(matrix.indptr, matrix.indptr.dtype.type(end), side="right")) - 1
        stop = min(max(stop, start + 1), rows)
        yield slice(start, stop)
        start = stop


def shards_for_sums(features: csr_array) -> list[slice]:
    """Return the row shards (list of slice) of features, N×D, whose results are sums for each feature."""
    return list(row_chunks(features, max(2 * SHARD, SHARE * features.shape[1])))


def count_points(features: csr_array, work: Work = THIS_MACHINE) -> NDArray[np.int64]:
    """Return the number of points that have each feature, D."""
    counts = np.zeros(features.shape[1], np.int64)
    for part in work.map(_count, ((rows,) for rows in shards_for_sums(features)), features):
        counts += part
    return counts


def _count(features: csr_array, rows: slice) -> NDArray[np.int64]:
    return sparse.column_sums(consecutive_rows(features, rows).indices, features.shape[1])


def idf_of_counts(N: int, counts: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return log((1 + N)/(1 + n_d)) + 1 for each feature d, which n_d of the N points have, D."""
    return (np.log((1 + N) / (1 + counts)) + 1).astype(np.float32)


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


def weigh(
    features: csr_array,
    idf: NDArray[Any] | None,
    unit: bool,
    logarithm: bool = False,
    scale: NDArray[Any] | None = None,
) -> csr_array:
    """Return weighted features, N×D, by the fields of a `Weighting`.

    They are float32, with the index arrays of `features`, and its elements if nothing changes. Scaled features are
    float64, because a large mean may be subtracted from them.
    """
    if scale is not None:
        scaled = features.data * scale[features.indices]
        return sp.csr_array((scaled, features.indices, features.indptr), shape=features.shape)
    if idf is None and not unit and not logarithm and features.dtype == np.float32:
        return features
    weighted = np.empty(features.nnz, np.float32)
    for rows in row_chunks(features, CHUNK):
        ends = features.indptr[rows.start : rows.stop + 1]
        part = slice(ends[0], ends[-1])
        # In double precision, in which weights and squares of float32 do not overflow.
        values = features.data[part].astype(np.float64)
        if logarithm:
            values = np.copysign(np.log1p(np.abs(values)), values)
        if idf is not None:
            values *= idf[features.indices[part]]
        if unit:
            row = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
            norms = np.sqrt(np.bincount(row, np.square(values), len(ends) - 1))
            norms[norms == 0] = 1
            values /= norms[row]
        weighted[part] = values
    return sp.csr_array((weighted, features.indices, features.indptr), shape=features.shape)


def weigh_points(features: csr_array, weighting: Weighting, work: Work = THIS_MACHINE) -> csr_array:
    """Return what `weigh` does for features as read, N×D, and a `Weighting` without a scale, by row shards."""
    none = features[:0]
    if weigh(none, *weighting) is none:
        return features
    weighted = work.empty((features.nnz,), np.float32)
    blocks = ((rows,) for rows in row_chunks(features, SHARD))
    end = 0
    for values in work.map(_weigh, blocks, (features, weighting)):
        weighted[end : end + len(values)] = values
        end += len(values)
    return as_csr(weighted, features.indices, features.indptr, features.shape[1])


def _weigh(shared: tuple[csr_array, Weighting], rows: slice) -> NDArray[np.float32]:
    features, weighting = shared
    values: NDArray[np.float32] = weigh(consecutive_rows(features, rows), *weighting).data
    return values


def weighted_sizes(features: csr_array, weighting: Weighting, work: Work = THIS_MACHINE) -> Iterator[tuple[float, int]]:
    """Yield what `sizes_of` returns for the weighted features of each row shard; these are not kept."""
    return work.map(_sizes, ((rows,) for rows in row_chunks(features, SHARD)), (features, weighting))


def _sizes(shared: tuple[csr_array, Weighting], rows: slice) -> tuple[float, int]:
    features, weighting = shared
    return sizes_of(weigh(consecutive_rows(features, rows), *weighting))


def sizes_of(weighted: csr_array) -> tuple[float, int]:
    """Return the largest magnitude of the elements of features (csr_array), and the most elements of a row."""
    # Without an array of magnitudes.
    peak = max(weighted.data.max(initial=0), -weighted.data.min(initial=0))
    return float(peak), int(np.diff(weighted.indptr).max(initial=0))


def mean_and_scale(features: csr_array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean of each feature over all points, zeros included, and the inverse of its standard deviation, D.

    The variance is a sum of squared deviations from the mean, so that features like 1.6e9 ± 1 keep their precision. The
    scale of a constant feature is 0, because other values of it have no known meaning.
    """
    N, D = features.shape
    # Differences from a point are exactly zero for constant features.
    start = np.zeros(D)
    first = slice(features.indptr[0], features.indptr[1])
    start[features.indices[first]] = features.data[first]
    mean = start + _sums(features, start)[0] / N
    sums, squares = _sums(features, mean)
    # Corrects the rounding of the mean.
    error = sums / N
    variance = np.maximum(squares / N - error**2, 0)
    scale = np.zeros(D)
    np.divide(1, np.sqrt(variance), out=scale, where=variance > 0)
    return mean + error, scale


def _sums(features: csr_array, shift: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the sums of x − shift and of its square over all points, for each feature."""
    N, D = features.shape
    counts, sums, squares = np.zeros((3, D))
    for rows in row_chunks(features, max(CHUNK, D)):
        part = slice(features.indptr[rows.start], features.indptr[rows.stop])
        indices = features.indices[part]
        values = features.data[part] - shift[indices]
        counts += np.bincount(indices, minlength=D)
        sums += np.bincount(indices, values, D)
        squares += np.bincount(indices, np.square(values), D)
    absent = N - counts
    return sums - absent * shift, squares + absent * np.square(shift)
