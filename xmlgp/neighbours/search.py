"""The training points nearest to a point by the inner product of sparse rows, found by an inverted list.

The inverted list of a word has the rows with the word and their values. For each query the lists of its words are added
up into one total for each row, and the rows of the largest totals are compared by their products, which are summed in
the order of a row's words: equal rows have equal products, whatever rounding does to their totals.

Source: J. Zobel, A. Moffat, Inverted files for text search engines, ACM Computing Surveys 38(2), 2006.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array

from xmlgp.linear_algebra.compiled import compiled
from xmlgp.runtime.threads import run_parallel

__all__ = ["Compressed", "PointIndex", "all_products", "build_index", "chosen_products", "nearest", "read_only"]

#: Queries that a thread answers at a time, for which it allocates its arrays.
QUERIES = 64

#: Totals that are compared with the least one together.
CHUNK = 64

#: How far rounding may move a total of rows and queries of unit length.
ROUNDING = np.float32(1e-5)

#: `indptr`, `indices` and `data` of a csr_array or csc_array.
Compressed: TypeAlias = tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.float32]]


class PointIndex(NamedTuple):
    """Sparse rows, N×D, and the same by word: the inverted lists."""

    rows: csr_array
    lists: csc_array


def build_index(rows: csr_array) -> PointIndex:
    """Return the index of sparse rows, N×D, float32 and canonical, of unit length or without elements."""
    return PointIndex(rows, rows.tocsc())


def nearest(index: PointIndex, queries: csr_array, count: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return the rows of largest positive inner product with each query, B×count, and these products.

    The best are first; of equal ones, that of the lower number. After the last one of a query that has positive
    products with fewer rows there are −1 and 0. Answers depend neither on the number of threads nor on the other
    queries.

    Parameters
    ----------
    index : PointIndex
        Of N×D rows.
    queries : scipy.sparse.csr_array, shape (B, D)
        float32, with sorted indices.
    count : int
        Rows wanted, at least 1.
    """
    B = queries.shape[0]
    found, products = np.full((B, count), -1, np.int32), np.zeros((B, count), np.float32)

    def answer(part: slice) -> None:
        _search(read_only(index.lists), read_only(index.rows), read_only(queries[part]), found[part], products[part])

    run_parallel(functools.partial(answer, slice(start, start + QUERIES)) for start in range(0, B, QUERIES))
    return found, products


def all_products(index: PointIndex, queries: csr_array) -> NDArray[np.float32]:
    """Return the inner products of all rows with each query, B×N."""
    products = np.empty((queries.shape[0], index.rows.shape[0]), np.float32)
    _write_all_products(read_only(index.lists), read_only(queries), products)
    return products


def chosen_products(index: PointIndex, queries: csr_array, chosen: NDArray[np.int32]) -> NDArray[np.float32]:
    """Return the inner products of each query with the rows that are chosen for it, both B×n."""
    products = np.empty(chosen.shape, np.float32)
    query = np.zeros(queries.shape[1], np.float32)
    _write_chosen_products(read_only(index.rows), read_only(queries), chosen, products, query)
    return products


def read_only(matrix: csr_array | csc_array) -> Compressed:
    """Return views of the type of arrays of a model folder, so that loops have one version of machine code."""
    views = matrix.indptr.view(), matrix.indices.view(), matrix.data.view()
    for view in views:
        view.flags.writeable = False
    return views


@compiled
def _search(
    lists: Compressed, rows: Compressed, queries: Compressed, found: NDArray[np.int32], products: NDArray[np.float32]
) -> None:
    """Write the answers to queries."""
    count = found.shape[1]
    indptr, indices, data = queries
    totals = np.empty(len(rows[0]) - 1, np.float32)
    scratch = np.empty(len(totals), np.int32)
    query = np.zeros(len(lists[0]) - 1, np.float32)
    for b in range(len(found)):
        words = indices[indptr[b] : indptr[b + 1]]
        values = data[indptr[b] : indptr[b + 1]]
        _write_products(lists, words, values, totals)
        candidates = _candidates(totals, count, scratch)
        query[words] = values
        exact = _products(rows, candidates, query)
        query[words] = 0
        # A stable sort: of equal products the row of lower number is first.
        order = np.argsort(-exact, kind="mergesort")[:count]
        found[b, : len(order)] = candidates[order]
        products[b, : len(order)] = exact[order]


@compiled
def _candidates(totals: NDArray[np.float32], count: int, rows: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return rows of positive totals among which the `count` largest products are, ascending, as a part of `rows`."""
    least = np.float32(0)
    size = 0
    full = 4 * count
    for start in range(0, len(totals), CHUNK):
        stop = min(start + CHUNK, len(totals))
        # A sum of comparisons uses vector instructions; most chunks have no total above the least one.
        above = 0
        for n in range(start, stop):
            above += totals[n] > least
        if above == 0:
            continue
        for n in range(start, stop):
            rows[size] = n
            size += totals[n] > least
        if size >= full:
            least, size = _keep_largest(totals, rows[:size], count, least)
            full = 2 * size + 2 * count
    return rows[: _keep_largest(totals, rows[:size], count, least)[1]]


@compiled
def _keep_largest(totals: NDArray[np.float32], rows: NDArray[np.int32], count: int, least: float) -> tuple[float, int]:
    """Move the rows that may be among the `count` largest to the front; return a bound below them, and their number."""
    if len(rows) <= count:
        return least, len(rows)
    of_rows = totals[rows]
    bound = np.partition(of_rows, len(rows) - count)[len(rows) - count] - ROUNDING
    least = max(least, bound)
    kept = rows[of_rows > least]
    rows[: len(kept)] = kept
    return least, len(kept)


@compiled
def _write_products(
    lists: Compressed, indices: NDArray[np.integer], values: NDArray[np.float32], totals: NDArray[np.float32]
) -> None:
    """Write the inner products of all rows with a query."""
    starts, row_of, data = lists
    totals[:] = 0
    for e in range(len(indices)):
        # Unsigned integers, for which Numba does not check whether they count from the end.
        for p in range(np.uint64(starts[indices[e]]), np.uint64(starts[indices[e] + 1])):
            totals[np.uint32(row_of[p])] += values[e] * data[p]


@compiled
def _products(rows: Compressed, chosen: NDArray[np.int32], query: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the inner products of chosen rows and a query, a dense vector of D numbers."""
    indptr, indices, data = rows
    products = np.empty(len(chosen), np.float32)
    for i in range(len(chosen)):
        product = np.float32(0)
        for e in range(np.uint64(indptr[chosen[i]]), np.uint64(indptr[chosen[i] + 1])):
            product += data[e] * query[np.uint32(indices[e])]
        products[i] = product
    return products


@compiled
def _write_all_products(lists: Compressed, queries: Compressed, products: NDArray[np.float32]) -> None:
    indptr, indices, data = queries
    for b in range(len(products)):
        words = slice(indptr[b], indptr[b + 1])
        _write_products(lists, indices[words], data[words], products[b])


@compiled
def _write_chosen_products(
    rows: Compressed, queries: Compressed, chosen: NDArray[np.int32], products: NDArray[np.float32], query: NDArray[Any]
) -> None:
    """Write the products of queries, given a vector of D zeros."""
    indptr, indices, data = queries
    for b in range(len(products)):
        words = indices[indptr[b] : indptr[b + 1]]
        query[words] = data[indptr[b] : indptr[b + 1]]
        products[b] = _products(rows, chosen[b], query)
        query[words] = 0
