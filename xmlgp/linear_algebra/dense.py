"""Products of dense matrices on all cores."""

import functools
import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from xmlgp.runtime.threads import core_count, run_parallel, split_range

__all__ = ["all_finite", "gram", "grams", "product", "product_by_rows"]

#: The least number of multiplications that is worth a thread: waking one takes a twentieth of their time.
GRAIN = 1 << 22

#: For products of so many elements, or of more multiplications, OpenBLAS uses its kernels for large matrices. It has
#: other kernels below about 1,500 elements and a million multiplications.
LARGE_PRODUCT = 2048
LARGE_WORK = 1 << 21

#: Rows and columns of a block of a symmetric product: large enough for the full rate of BLAS, small enough to balance
#: the cores.
BLOCK = 256


def product(
    left: NDArray[np.floating], right: NDArray[np.floating], out: NDArray[np.floating] | None = None, rounds: int = 1
) -> NDArray[np.floating]:
    """Return the product of two matrices, I×J and J×L, each C-contiguous or the transpose of a C-contiguous array.

    The result is written to `out`, I×L, if there is one. `rounds` is the number of tasks per core (see
    `threads.split_range`).
    """
    if out is None:
        out = np.empty((left.shape[0], right.shape[1]), np.result_type(left, right))
    rows, columns = out.shape
    inner = left.shape[1]
    # The longer side of the result is split.
    if rows >= columns:
        fewest_rows = GRAIN // max(1, inner * columns)
        tasks = split_range(lambda i, j: np.matmul(left[i:j], right, out=out[i:j]), rows, fewest_rows, rounds)
    else:
        fewest_columns = GRAIN // max(1, inner * rows)
        tasks = split_range(
            lambda i, j: np.matmul(left, right[:, i:j], out=out[:, i:j]), columns, fewest_columns, rounds
        )
    run_parallel(tasks)
    return out


def product_by_rows(
    left: NDArray[np.floating], right: NDArray[np.floating], out: NDArray[np.floating] | None = None
) -> NDArray[np.floating]:
    """Return the product of two matrices, I×J and J×L; each row is the same to the last digit, however many there are.

    BLAS sums vectors and small matrices in another order than large ones. A single row is therefore doubled; a small
    `left` is padded with rows of zeros, and `right` is put into Fortran order, for which BLAS has no special kernel at
    so many rows. The result is written to `out`, I×L, if there is one.
    """
    count, inner = left.shape
    columns = right.shape[1]
    if out is None:
        out = np.empty((count, columns), np.result_type(left, right))
    if not 0 < count * inner * columns <= LARGE_WORK:
        if count == 1:
            out[:] = np.matmul(np.repeat(left, 2, axis=0), right)[:1]
        else:
            np.matmul(left, right, out=out)
    else:
        padded = np.zeros((max(2, count, -(-LARGE_PRODUCT // columns)), inner), left.dtype)
        padded[:count] = left
        out[:] = np.matmul(padded, np.asfortranarray(right))[:count]
    return out


def gram(matrix: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return the Gram matrix Xᵀ X, I×I, of a matrix X, J×I; see `grams`."""
    return grams([matrix])[0]


def grams(matrices: Sequence[NDArray[np.floating]]) -> list[NDArray[np.floating]]:
    """Return the Gram matrices Xᵀ X, I×I, of some matrices X, J×I.

    One triangle of blocks is computed and mirrored. The memory order of matrices is as for `product`.
    """
    results = [np.empty((matrix.shape[1],) * 2, matrix.dtype) for matrix in matrices]
    tasks = []
    for matrix, out in zip(matrices, results, strict=True):
        size = len(out)
        # With a matrix for each core, one task per matrix is fastest: NumPy computes half of a symmetric product.
        block_count = 1 if len(matrices) >= core_count() or matrix.size * size < GRAIN else -(-size // BLOCK)
        bounds = np.linspace(0, size, block_count + 1).astype(int).tolist()
        blocks = list(itertools.starmap(slice, itertools.pairwise(bounds)))
        pairs = [(rows, columns) for i, rows in enumerate(blocks) for columns in blocks[: i + 1]]
        # The larger tasks first: a block on the diagonal takes half the time.
        pairs.sort(key=lambda pair: pair[0] == pair[1])
        tasks += [functools.partial(_fill_gram_block, matrix, out, *pair) for pair in pairs]
    run_parallel(tasks)
    return results


def _fill_gram_block(matrix: NDArray[np.floating], out: NDArray[np.floating], rows: slice, columns: slice) -> None:
    """Compute one block of a Gram matrix, and mirror it unless it is on the diagonal."""
    left = matrix[:, rows]
    if rows == columns:
        # NumPy recognises the symmetric product and computes half of it.
        np.matmul(left.T, left, out=out[rows, columns])
    else:
        np.matmul(left.T, matrix[:, columns], out=out[rows, columns])
        out[columns, rows] = out[rows, columns].T


def all_finite(array: NDArray[np.floating]) -> bool:
    """Return whether all elements are finite, judged by their sum; finite elements whose sum overflows count as not."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(np.add.reduce(array, axis=None)))
