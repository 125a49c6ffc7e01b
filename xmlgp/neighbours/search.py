"""The training points nearest to a point by the inner product of sparse rows, found by an inverted list.

A posting is a row that has a word, and the value there. The postings of the words of a query are added up in 16-bit
integers, one for each row, of which several times as many fit into a CPU cache as of single-precision numbers. Rows
whose total may be among the largest, given how far rounding can move a total, are compared by their exact products. So
nothing is left out. Of many rows without negative values, words that add little are not added up; what they could add
counts as a rounding error. A frequent word has a column of all rows instead of postings, which is added by vector
instructions.

Source: J. Zobel, A. Moffat, Inverted files for text search engines, ACM Computing Surveys 38(2), 2006; the bound of
rounding errors is that of W. Hoeffding, Journal of the American Statistical Association 58, 1963.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.linear_algebra.array_groups import Array, at_least, csr_pattern, indices_below
from xmlgp.linear_algebra.compiled import compiled, compiled_part
from xmlgp.linear_algebra.sparse import arrays_of, first_not_below
from xmlgp.runtime.blocks import row_blocks
from xmlgp.runtime.threads import run_parallel

__all__ = ["POSTINGS", "PointIndex", "build_index", "nearest", "read_only"]

#: A word has a column if more than one in so many rows have it: a byte for each row, less than these postings take. The
#: same rows are best for the products of nearest rows, with 20 and with 69 words a row.
FREQUENT = 8

#: The largest code of a value in a posting, 16 bits, and in a column, 8 bits.
POSTING_CODES = 32767
COLUMN_CODES = 127

#: Queries that a thread answers at a time, for which it allocates its arrays.
QUERIES = 64

#: Rows whose totals are computed at a time, a power of two: they stay in a core's cache. With 2^16, a million rows take
#: a tenth longer, because each word is entered more often.
BLOCK = 1 << 17

#: Rows whose largest total is computed first. With 16, that takes 30 µs of 169,000 rows, with 64 it takes 10.
GROUP = 64

#: The largest total without rounding errors, and with them.
LARGEST = 30000
LARGEST_TOTAL = 32767

#: Totals of a bucket of the histogram are equal but for so many low bits.
BUCKET_BITS = 3
BUCKETS = 1 << (15 - BUCKET_BITS)

#: Words are left out if together they add at most this share of the least total that is wanted. With 490,000 rows and
#: queries of 77 words, that takes a third to a half off the time, and 0.1 a quarter.
LEFT_OUT = 0.3

#: Bits of the fraction of a weight, by which codes are multiplied.
FRACTION = 24

#: The number of a word times this, modulo 2³², decides how its products are rounded: at random, so that the errors of
#: equal products do not add up. Source: D. E. Knuth, The Art of Computer Programming 3, section 6.4.
HASH = 0x9E3779B1

#: The sum of independent numbers from ranges w differs from its mean by this times √Σw² with a probability below 1e-9.
HOEFFDING = 3.3

#: `highest`, `starts`, `row_of`, `code_of`, `column_of`, `columns` of a `PointIndex`.
Words: TypeAlias = tuple[
    NDArray[np.float32], NDArray[np.int64], NDArray[np.int32], NDArray[np.int16], NDArray[np.int32], NDArray[np.int8]
]

#: `indptr`, `indices`, `data` of a csr_array.
Rows: TypeAlias = tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.float32]]

Arrays = TypeVar("Arrays", Words, Rows)

#: A query as a dense vector, of zeros before and after, and the shares and places of its words; totals of a block of
#: rows, the largest of each group, the histogram of totals, candidates, and their totals.
Scratch: TypeAlias = tuple[
    NDArray[np.float32],
    NDArray[np.float32],
    NDArray[np.int64],
    NDArray[np.int16],
    NDArray[np.int16],
    NDArray[np.int32],
    NDArray[np.int32],
    NDArray[np.int16],
]

#: The arrays of a `PointIndex` but its rows, N×D, in a model: p postings, f words with columns.
POSTINGS = {
    "highest": Array("D", np.float32, at_least(0)),
    **csr_pattern("D N", "p", "starts", "row_of"),
    "code_of": Array("p", np.int16),
    "column_of": Array("D", np.int32, indices_below("f", -1)),
    "columns": Array("f N", np.int8),
}


class PointIndex(NamedTuple):
    """Sparse rows, N×D, and the values of each word: codes that are to the largest code as values are to `highest`, D.

    The postings of word d are from `starts[d]` to `starts[d + 1]`: their rows in `row_of`, ascending, and `code_of`. If
    `column_of[d]` is not −1, the codes of all rows are in this row of `columns`, f×N, instead.
    """

    rows: csr_array
    highest: NDArray[np.float32]
    starts: NDArray[np.int64]
    row_of: NDArray[np.int32]
    code_of: NDArray[np.int16]
    column_of: NDArray[np.int32]
    columns: NDArray[np.int8]


def build_index(rows: csr_array) -> PointIndex:
    """Return the index of sparse rows, N×D, float32 and canonical, of unit length or without elements."""
    N, D = rows.shape
    by_word = rows.tocsc()
    counts = np.diff(by_word.indptr)
    highest = np.zeros(D, np.float32)
    present = np.flatnonzero(counts)
    highest[present] = np.maximum.reduceat(abs(by_word.data), by_word.indptr[present]) if len(present) else 0
    # In place: the data of the transpose are a copy.
    shares = np.divide(by_word.data, np.repeat(np.maximum(highest, np.finfo(np.float32).tiny), counts), by_word.data)
    frequent = np.flatnonzero(FREQUENT * counts > N)
    column_of = np.full(D, -1, np.int32)
    column_of[frequent] = np.arange(len(frequent))
    columns = np.zeros((len(frequent), N), np.int8)
    for column, word in zip(columns, frequent, strict=True):
        part = slice(by_word.indptr[word], by_word.indptr[word + 1])
        # 0 is a row without the word.
        codes = np.maximum(1, np.rint(COLUMN_CODES * abs(shares[part])))
        column[by_word.indices[part]] = np.copysign(codes, shares[part])
    counts[frequent] = 0
    starts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    listed = np.repeat(column_of < 0, np.diff(by_word.indptr))
    row_of = by_word.indices[listed].astype(np.int32, copy=False)
    code_of = np.rint(POSTING_CODES * shares[listed]).astype(np.int16)
    return PointIndex(rows, highest, starts, row_of, code_of, column_of, columns)


def nearest(index: PointIndex, queries: csr_array, count: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
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
    """
    B = queries.shape[0]
    found, products = np.full((B, count), -1, np.int32), np.zeros((B, count), np.float32)
    words, rows = read_only(index[1:]), read_only(arrays_of(index.rows))
    # Few rows have one block, in which no totals are known before.
    left_out = LEFT_OUT * (len(rows[0]) > 2 * BLOCK and rows[2].min(initial=0) >= 0)

    def answer(block: slice) -> None:
        part = queries[block]
        # Machine code that makes arrays takes longer to compile, and to load.
        longest = np.diff(part.indptr).max()
        scratch = (
            np.zeros(part.shape[1], np.float32),
            np.empty(longest, np.float32),
            np.empty(longest, np.int64),
            np.empty(BLOCK, np.int16),
            np.empty(BLOCK // GROUP, np.int16),
            np.empty(BUCKETS, np.int32),
            np.empty(len(rows[0]), np.int32),
            np.empty(len(rows[0]), np.int16),
        )
        _search(words, rows, arrays_of(part), left_out, scratch, found[block], products[block])

    run_parallel(partial(answer, block) for block in row_blocks(B, QUERIES))
    return found, products


def read_only(arrays: Arrays) -> Arrays:
    """Return views of the type of arrays of a model folder, so that loops have one version of machine code."""
    return cast(Arrays, tuple(np.broadcast_to(array, array.shape) for array in arrays))


@compiled
def _search(
    words: Words,
    rows: Rows,
    queries: Rows,
    left_out: float,
    scratch: Scratch,
    found: NDArray[np.int32],
    products: NDArray[np.float32],
) -> None:
    """Write the answers to queries."""
    # Assignments of arrays, sorting and the indexing by arrays would take seconds to compile.
    query = scratch[0]
    for b in range(len(found)):
        part = slice(queries[0][b], queries[0][b + 1])
        indices = queries[1][part]
        values = queries[2][part]
        candidates = _candidates(words, indices, values, found.shape[1], left_out, scratch)
        _write_best(rows, candidates, query, found[b], products[b])
        for e in range(len(indices)):
            query[indices[e]] = 0


@compiled_part
def _candidates(
    words: Words,
    indices: NDArray[np.integer],
    values: NDArray[np.float32],
    count: int,
    left_out: float,
    scratch: Scratch,
) -> NDArray[np.int32]:
    """Return rows among which are those with the `count` largest products of the rows that share words with a query."""
    column_of, columns = words[4:]
    _, shares, places, totals, maxima, histogram, candidates, candidate_totals = scratch
    N = columns.shape[1]
    bound = _fill_in(words, indices, values, scratch)
    if bound == 0:
        return candidates[:0]
    slack = _scale(indices, shares, np.float32(LARGEST / bound), column_of)
    if LARGEST + slack > LARGEST_TOTAL:
        return _rows_with_words(words, indices, candidates, candidate_totals)
    histogram[:] = 0
    size, light = 0, 0.0
    for first in range(0, N, BLOCK):
        width = min(BLOCK, N - first)
        groups = (width + GROUP - 1) // GROUP
        _add_words(totals[: groups * GROUP], words, indices, shares, places, first, light)
        _write_maxima(totals, maxima[:groups])
        _count(maxima[:groups], histogram)
        largest = _nth_largest(histogram, count)
        least = max(1, largest - slack)
        for g in range(groups):
            if maxima[g] >= least:
                for i in range(np.uint32(g * GROUP), np.uint32(min((g + 1) * GROUP, width))):
                    # Without a branch, which would be mispredicted.
                    candidates[size], candidate_totals[size] = first + i, totals[i]
                    size += totals[i] >= least
        if first == 0:
            light, missing = _light_words(shares[: len(indices)], left_out * max(0, largest - 2 * slack))
            slack += missing
    histogram[:] = 0
    _count(candidate_totals[:size], histogram)
    least = _nth_largest(histogram, count) - slack
    if least < 1:
        return _rows_with_words(words, indices, candidates, candidate_totals)
    kept = 0
    for i in range(size):
        candidates[kept] = candidates[i]
        kept += candidate_totals[i] >= least
    return candidates[:kept]


@compiled_part
def _fill_in(words: Words, indices: NDArray[np.integer], values: NDArray[np.float32], scratch: Scratch) -> float:
    """Fill in a query, the largest share of each word, and where its postings start; return a bound of products.

    It bounds those with rows of unit length. It is at least twice the share of each column, so that weights of columns
    have 16 bits.
    """
    highest, starts, _, _, column_of, _ = words
    query, shares, places = scratch[:3]
    total, square, least = 0.0, 0.0, 0.0
    for e in range(len(indices)):
        query[indices[e]] = values[e]
        shares[e] = values[e] * highest[indices[e]]
        places[e] = starts[indices[e]]
        total += abs(shares[e])
        square += values[e] * values[e]
        if column_of[indices[e]] >= 0:
            least = max(least, 2 * abs(shares[e]))
    return max(least, min(total, math.sqrt(square)))


@compiled_part
def _scale(
    indices: NDArray[np.integer], shares: NDArray[np.float32], scale: float, column_of: NDArray[np.int32]
) -> int:
    """Scale the largest share of each word; return by how much the difference of two totals can be wrong."""
    total, postings = 0.0, 0
    for e in range(len(indices)):
        shares[e] *= scale
        # The ranges of what rounding adds, of the weight of a column and of codes, are summed: where all values of a
        # row are equal, so are all its errors. Those of the totals of postings alone are independent.
        in_column = column_of[indices[e]] >= 0
        total += 1.5 + abs(shares[e]) / (COLUMN_CODES / 2) if in_column else abs(shares[e]) / POSTING_CODES
        postings += not in_column
    return int(total + min(postings, 2 * HOEFFDING * math.sqrt(postings))) + 1


@compiled_part
def _light_words(shares: NDArray[np.float32], most: float) -> tuple[float, int]:
    """Return a share such that words of smaller positive ones add at most `most` to a total, and what they can add."""
    light, total = most, most + 1
    while total > most:
        light *= 0.8
        total = 0.0
        for share in shares:
            total += share * (0 < share < light)
    return light, math.ceil(total)


@compiled_part
def _add_words(
    totals: NDArray[np.int16],
    words: Words,
    indices: NDArray[np.integer],
    shares: NDArray[np.float32],
    places: NDArray[np.int64],
    first: int,
    light: float,
) -> None:
    """Write the totals of the rows from `first` on, without words of positive shares below `light`.

    Postings are added from `places` on, which move on.
    """
    _, starts, _, _, column_of, columns = words
    totals[:] = 0
    for e in range(len(indices)):
        column = column_of[indices[e]]
        if 0 < shares[e] < light:
            continue
        if column >= 0:
            _add_column(totals, columns[column, first : first + len(totals)], shares[e])
        else:
            offset = np.int64(
                (np.uint64(indices[e]) * np.uint64(HASH) & np.uint64(0xFFFFFFFF)) >> np.uint64(32 - FRACTION)
            )
            places[e] = _add_postings(totals, words, places[e], starts[indices[e] + 1], first, shares[e], offset)


@compiled_part
def _add_postings(
    totals: NDArray[np.int16], words: Words, place: int, stop: int, first: int, share: float, offset: int
) -> int:
    """Add the postings from `place` on whose rows are in a block, and return the place of the next one.

    Fractions are rounded up if the `offset` takes them to 1.
    """
    row_of, code_of = words[2:4]
    stop = first_not_below(row_of, first + BLOCK, place, stop)
    weight = np.int64(np.rint(share * (float(1 << FRACTION) / POSTING_CODES)))
    # Unsigned integers, for which Numba does not check whether they count from the end. The mask keeps rows that are
    # not in order within the block.
    for p in range(np.uint64(place), np.uint64(stop)):
        row = np.uint32(row_of[p]) & np.uint32(BLOCK - 1)
        totals[row] += np.int16((weight * code_of[p] + offset) >> FRACTION)
    return stop


@compiled_part
def _add_column(totals: NDArray[np.int16], codes: NDArray[np.int8], share: float) -> None:
    weight = np.int16(np.rint(share * (256 / COLUMN_CODES)))
    for i in range(len(codes)):
        # The high half of a product of 16-bit integers is one instruction.
        totals[i] += np.int16((np.int32(np.int16(np.int16(codes[i]) * np.int16(256))) * np.int32(weight)) >> 16)


@compiled_part
def _write_maxima(totals: NDArray[np.int16], maxima: NDArray[np.int16]) -> None:
    """Write the largest total of each group."""
    for g in range(len(maxima)):
        group = totals[g * GROUP : (g + 1) * GROUP]
        largest = np.int16(-32768)
        for i in range(len(group)):
            largest = max(largest, group[i])
        maxima[g] = largest


@compiled_part
def _count(totals: NDArray[np.int16], histogram: NDArray[np.int32]) -> None:
    for total in totals:
        histogram[np.uint32(max(total, 0) >> BUCKET_BITS)] += 1


@compiled_part
def _nth_largest(histogram: NDArray[np.int32], n: int) -> int:
    """Return the lower end of the bucket of the n-th largest total, 0 if there are fewer."""
    bucket = BUCKETS
    while n > 0 and bucket > 0:
        bucket -= 1
        n -= histogram[bucket]
    return bucket << BUCKET_BITS


@compiled_part
def _rows_with_words(
    words: Words, indices: NDArray[np.integer], rows: NDArray[np.int32], present: NDArray[np.int16]
) -> NDArray[np.int32]:
    """Return the rows that have any of some words."""
    _, starts, row_of, _, column_of, columns = words
    N = columns.shape[1]
    present[:] = 0
    for word in indices:
        if column_of[word] >= 0:
            for n in range(N):
                present[n] |= columns[column_of[word], n] != 0
        for p in range(starts[word], starts[word + 1]):
            present[row_of[p]] = 1
    size = 0
    for n in range(N):
        rows[size] = n
        size += present[n]
    return rows[:size]


@compiled_part
def _write_best(
    rows: Rows,
    chosen: NDArray[np.int32],
    query: NDArray[np.float32],
    found: NDArray[np.int32],
    products: NDArray[np.float32],
) -> None:
    """Write those of the chosen rows whose inner products with a query, a dense vector of D numbers, are largest."""
    indptr, indices, data = rows
    count = 0
    for n in chosen:
        product = np.float32(0)
        for e in range(np.uint64(indptr[n]), np.uint64(indptr[n + 1])):
            product += data[e] * query[np.uint32(indices[e])]
        if count < len(found):
            count += 1
        elif not product > products[count - 1]:
            continue
        place = count - 1
        while place > 0 and product > products[place - 1]:
            found[place] = found[place - 1]
            products[place] = products[place - 1]
            place -= 1
        found[place] = n
        products[place] = product
