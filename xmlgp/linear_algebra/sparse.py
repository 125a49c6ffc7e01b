"""Products of a sparse and a dense matrix on all cores, sums and selection of columns, and rows that are equal."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.linear_algebra.compiled import compiled, compiled_part
from xmlgp.runtime.threads import parallel_for

__all__ = [
    "arrays_of",
    "column_sums",
    "first_not_below",
    "present_columns",
    "product",
    "row",
    "row_grain",
    "rows_replaced",
]

#: Least number of multiplications per thread.
GRAIN = 1 << 17

#: Stored elements that are summed at a time.
CHUNK = 1 << 16


def column_sums(
    indices: NDArray[np.integer], column_count: int, values: Callable[[slice], NDArray[np.floating]] | None = None
) -> NDArray[Any]:
    """Return the number of stored elements of each column of a matrix in CSR format, given their columns.

    With a function that returns the values of a slice of the stored elements, return the sum of their values.
    """
    sums = np.zeros(column_count, np.int64 if values is None else np.float64)
    # In chunks, because bincount copies indices to 64 bits, and values to double precision.
    step = max(CHUNK, column_count)
    for start in range(0, len(indices), step):
        chunk = slice(start, start + step)
        sums += np.bincount(indices[chunk], None if values is None else values(chunk), column_count)
    return sums


def present_columns(matrix: csr_array) -> tuple[NDArray[np.int32], csr_array]:
    """Return the columns of a csr_array that have elements, ascending, and the array with these columns alone."""
    # Marks take no sorting, which is most of the time of `np.unique`.
    position = np.zeros(matrix.shape[1], np.int32)
    position[matrix.indices] = 1
    present = np.flatnonzero(position)
    position[present] = np.arange(len(present))
    reduced = csr_array((matrix.data, position[matrix.indices], matrix.indptr), shape=(matrix.shape[0], len(present)))
    return present.astype(matrix.indices.dtype, copy=False), reduced


def rows_replaced(matrix: csr_array, more: csr_array) -> NDArray[np.int64]:
    """Return which rows of a matrix, N×D, and of B more below it stay where more rows replace equal ones.

    A row takes the place of the first one that is equal and not replaced yet, or else follows at the end. Other equal
    rows of the matrix leave. Rows without elements are equal to none. Both are canonical, of the same dtype.
    """
    waiting: dict[bytes, list[int]] = {}
    for place, content in enumerate(_contents(more), matrix.shape[0]):
        waiting.setdefault(content, []).append(place)
    empty = waiting.pop(b"", [])
    order = []
    for place, content in enumerate(_contents(matrix)):
        if content not in waiting:
            order.append(place)
        elif places := waiting[content]:
            order.append(places.pop(0))
    left = sorted(itertools.chain(empty, *waiting.values()))
    return np.array(order + left, np.int64)


def _contents(matrix: csr_array) -> Iterator[bytes]:
    """Yield the columns and values of each row, as bytes; none if the row has no elements."""
    columns = matrix.indices.astype(np.int32, copy=False)
    for start, stop in itertools.pairwise(matrix.indptr.tolist()):
        yield columns[start:stop].tobytes() + matrix.data[start:stop].tobytes()


def product(
    left: csr_array, right: NDArray[np.floating], out: NDArray[np.floating] | None = None
) -> NDArray[np.floating]:
    """Return the product, I×L, of a sparse matrix, I×J (csr_array), and a C-contiguous one of the same dtype, J×L.

    SciPy's product uses one core and runs at about half of that core's rate. For a product with the transpose pass
    `left.T.tocsr()`. The product may be written to `out`.
    """
    if left.shape[1] != right.shape[0]:
        raise ValueError(f"a product of shapes {left.shape} and {right.shape}")
    if out is None:
        out = np.empty((left.shape[0], right.shape[1]), right.dtype)
    grain = row_grain(len(out), left.nnz, right.shape[1])
    parallel_for(lambda start, stop: _rows(*arrays_of(left), right, out, start, stop), len(out), grain)
    return out


def arrays_of(matrix: csr_array) -> tuple[NDArray[np.integer], NDArray[np.integer], NDArray[Any]]:
    """Return `indptr`, `indices` and `data`, because compiled functions cannot take a csr_array."""
    return matrix.indptr, matrix.indices, matrix.data


def row_grain(rows: int, stored: int, width: int) -> int:
    """Return the least number of rows per thread in the product of a sparse matrix and one of `width` columns."""
    return max(1, rows * GRAIN // max(1, stored * width))


@compiled_part
def row(
    indices: NDArray[np.integer],
    data: NDArray[np.floating],
    e: int,
    end: int,
    right: NDArray[np.floating],
    total: NDArray[np.floating],
) -> None:
    """Write Σ data[j] right[indices[j]] over e ≤ j < end to `total`: one row of a product, for compiled functions.

    The row is still in the CPU cache if the caller uses it at once.
    """
    width = right.shape[1]
    total[:] = 0
    # Four rows at a time, so that `total` is read and written a quarter as often.
    while e + 4 <= end:
        d0 = data[e]
        d1 = data[e + 1]
        d2 = data[e + 2]
        d3 = data[e + 3]
        r0 = right[indices[e]]
        r1 = right[indices[e + 1]]
        r2 = right[indices[e + 2]]
        r3 = right[indices[e + 3]]
        for j in range(width):
            total[j] += d0 * r0[j] + d1 * r1[j] + d2 * r2[j] + d3 * r3[j]
        e += 4
    while e < end:
        d = data[e]
        r = right[indices[e]]
        for j in range(width):
            total[j] += d * r[j]
        e += 1


@compiled_part
def first_not_below(values: NDArray[np.integer], value: int, start: int, stop: int) -> int:
    """Return the first e from `start` on with values[e] ≥ value, or `stop`; values ascend. For compiled functions.

    NumPy's function brings all its linear algebra with it when machine code that calls it is loaded.
    """
    while start < stop:
        middle = (start + stop) // 2
        if values[middle] < value:
            start = middle + 1
        else:
            stop = middle
    return start


@compiled
def _rows(
    indptr: NDArray[np.integer],
    indices: NDArray[np.integer],
    data: NDArray[np.floating],
    right: NDArray[np.floating],
    out: NDArray[np.floating],
    start: int,
    stop: int,
) -> None:
    for i in range(start, stop):
        row(indices, data, indptr[i], indptr[i + 1], right, out[i])
