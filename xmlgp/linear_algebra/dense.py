"""Products of dense matrices on all cores."""

import functools
import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from xmlgp.runtime.threads import core_count, run_parallel, split_range

__all__ = ["all_finite", "gram", "grams", "product", "product_by_rows"]

#: Least number of multiplications per thread: waking a thread takes a twentieth of their time.
GRAIN = 1 << 22

#: Products of so many elements, and those of more multiplications, are large to BLAS: OpenBLAS has other kernels below
#: about 1,500 elements and a million multiplications.
LARGE_PRODUCT = 2048
LARGE_WORK = 1 << 21

#: Rows of a block of a symmetric product: large enough for the full rate of BLAS, small enough to balance the cores.
BLOCK = 256


def product(
    left: NDArray[np.floating], right: NDArray[np.floating], out: NDArray[np.floating] | None = None, rounds: int = 1
) -> NDArray[np.floating]:
    """Return the product of two matrices, I×J and J×L, each C-contiguous or the transpose of a C-contiguous array.

    The product may be written to `out`, I×L; `rounds` is the number of tasks per core (see `threads.split_range`).
    """
    if out is None:
        out = np.empty((left.shape[0], right.shape[1]), np.result_type(left, right))
    rows, columns = out.shape
    inner = left.shape[1]
    if rows >= columns:
        tasks = split_range(
            lambda i, j: np.matmul(left[i:j], right, out=out[i:j]), rows, GRAIN // max(1, inner * columns), rounds
        )
    else:
        grain = GRAIN // max(1, inner * rows)
        tasks = split_range(lambda i, j: np.matmul(left, right[:, i:j], out=out[:, i:j]), columns, grain, rounds)
    run_parallel(tasks)
    return out


def product_by_rows(
    left: NDArray[np.floating], right: NDArray[np.floating], out: NDArray[np.floating] | None = None
) -> NDArray[np.floating]:
    """Return the product of two matrices, I×J and J×L, whose rows do not depend on the other rows, to the last digit.

    BLAS adds up vectors and small matrices in another order than large ones. Those are avoided: rows of zeros are added
    if there are few, and the other matrix is in the order that has no such kernel for more rows. The product may be
    written to `out`, I×L.
    """
    count, inner = left.shape
    columns = right.shape[1]
    if out is None:
        out = np.empty((count, columns), np.result_type(left, right))
    if not 0 < count * inner * columns <= LARGE_WORK:
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

    One triangle is computed and mirrored. Matrices are as in `product`.
    """
    outs = [np.empty((matrix.shape[1],) * 2, matrix.dtype) for matrix in matrices]
    tasks = []
    for matrix, out in zip(matrices, outs, strict=True):
        size = len(out)
        # With a matrix for each core, one task a matrix is fastest: NumPy computes half of a symmetric product.
        count = 1 if len(matrices) >= core_count() or matrix.size * size < GRAIN else -(-size // BLOCK)
        bounds = np.linspace(0, size, count + 1).astype(int).tolist()
        blocks = list(itertools.starmap(slice, itertools.pairwise(bounds)))
        pairs = [(rows, columns) for i, rows in enumerate(blocks) for columns in blocks[: i + 1]]
        pairs.sort(key=lambda pair: pair[0] == pair[1])  # the larger tasks first
        tasks += [functools.partial(_fill_gram_block, matrix, out, *pair) for pair in pairs]
    run_parallel(tasks)
    return outs


def _fill_gram_block(matrix: NDArray[np.floating], out: NDArray[np.floating], rows: slice, columns: slice) -> None:
    left = matrix[:, rows]
    if rows == columns:
        # NumPy recognises the symmetric product and computes half of it.
        np.matmul(left.T, left, out=out[rows, columns])
    else:
        np.matmul(left.T, matrix[:, columns], out=out[rows, columns])
        out[columns, rows] = out[rows, columns].T


def all_finite(array: NDArray[np.floating]) -> bool:
    """Return whether all elements are finite. A sum that overflows counts as not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(np.add.reduce(array, axis=None)))
