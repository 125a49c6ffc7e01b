"""The training points nearest to a point by the inner product of sparse rows, found by an inverted list.

A posting is a row that has a word, and its value. The postings of the words of a query are added up in an array of all
rows, and the best of the rows that were reached are selected.

Source: J. Zobel, A. Moffat, Inverted files for text search engines, ACM Computing Surveys 38(2), 2006.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.linear_algebra.compiled import compiled
from xmlgp.runtime.threads import run_parallel

__all__ = ["PointIndex", "build_index", "nearest"]

#: Queries that a thread answers at a time, for which it allocates an array of all rows.
BLOCK = 64


class PointIndex(NamedTuple):
    """Sparse rows, N×D, and their postings by word: those of word d are from `starts[d]` to `starts[d + 1]`.

    `rows` are float32 with sorted indices, of unit length or empty. `starts` has D + 1 elements, `row_of` and
    `value_of` one for each posting.
    """

    rows: csr_array
    starts: NDArray[np.int64]
    row_of: NDArray[np.int32]
    value_of: NDArray[np.float32]


def build_index(rows: csr_array) -> PointIndex:
    """Return the index of sparse rows, N×D, float32 with sorted indices."""
    columns = rows.tocsc()
    starts, row_of = columns.indptr.astype(np.int64), columns.indices.astype(np.int32, copy=False)
    return PointIndex(rows, starts, row_of, columns.data)


def nearest(
    index: PointIndex, queries: csr_array, count: int, exact: bool = False
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return the rows of largest inner product with each query, B×count, and these products.

    The best are first; of equal ones, that of the lower number. After the last one of a query that shares words with
    fewer rows there are −1 and 0. Answers depend neither on the number of threads nor on the other queries.

    Parameters
    ----------
    index : PointIndex
        Of N×D rows.
    queries : scipy.sparse.csr_array, shape (B, D)
        float32, with sorted indices.
    count : int
        Rows wanted, at least 1.
    exact : bool
        Whether to leave nothing out.
    """
    B, N = queries.shape[0], index.rows.shape[0]
    found, products = np.full((B, count), -1, np.int32), np.zeros((B, count), np.float32)

    def answer(start: int) -> None:
        part = queries[start : start + BLOCK]
        end = start + part.shape[0]
        _scan(
            index[1:],
            (part.indptr, part.indices, part.data),
            np.zeros(N, np.float32),
            np.zeros(N, np.bool_),
            found[start:end],
            products[start:end],
        )

    tasks: list[Callable[[], None]] = [partial(answer, start) for start in range(0, B, BLOCK)]
    run_parallel(tasks)
    return found, products


@compiled
def _scan(
    postings: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]],
    queries: tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.float32]],
    totals: NDArray[np.float32],
    reached: NDArray[np.bool_],
    found: NDArray[np.int32],
    products: NDArray[np.float32],
) -> None:
    """Write what is nearest to each query, given totals and marks of all rows, which are zero before and after."""
    starts, row_of, value_of = postings
    indptr, indices, data = queries
    touched = np.empty(len(totals), np.int32)
    for b in range(len(found)):
        size = 0
        for e in range(indptr[b], indptr[b + 1]):
            word, value = indices[e], data[e]
            for p in range(starts[word], starts[word + 1]):
                n = row_of[p]
                totals[n] += value * value_of[p]
                if not reached[n]:
                    reached[n] = True
                    touched[size] = n
                    size += 1
        _select(totals, touched[:size], found[b], products[b])
        for i in range(size):
            totals[touched[i]] = 0
            reached[touched[i]] = False


@compiled
def _select(
    totals: NDArray[np.float32], rows: NDArray[np.int32], found: NDArray[np.int32], products: NDArray[np.float32]
) -> None:
    """Write the best of some rows and their totals, best first, of equal ones the lowest."""
    size = 0
    for n in rows:
        total = totals[n]
        if size == len(found):
            # The root of the heap is the worst.
            if _worse(products[0], found[0], total, n):
                _sift(products, found, total, n, size)
            continue
        i = size
        size += 1
        while i > 0 and _worse(total, n, products[(i - 1) // 2], found[(i - 1) // 2]):
            products[i], found[i] = products[(i - 1) // 2], found[(i - 1) // 2]
            i = (i - 1) // 2
        products[i], found[i] = total, n
    while size > 1:
        size -= 1
        total, n = products[size], found[size]
        products[size], found[size] = products[0], found[0]
        _sift(products, found, total, n, size)


@compiled
def _sift(products: NDArray[np.float32], found: NDArray[np.int32], total: float, n: int, size: int) -> None:
    """Replace the root of a heap whose root is the worst."""
    i = 0
    while 2 * i + 1 < size:
        child = 2 * i + 1
        if child + 1 < size and _worse(products[child + 1], found[child + 1], products[child], found[child]):
            child += 1
        if not _worse(products[child], found[child], total, n):
            break
        products[i], found[i] = products[child], found[child]
        i = child
    products[i], found[i] = total, n


@compiled
def _worse(total: float, n: int, other_total: float, other: int) -> bool:
    return total < other_total or (total == other_total and n > other)
