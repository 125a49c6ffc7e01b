"""Products of dense matrices on all cores."""

import numpy as np
from numpy.typing import NDArray

from xmlgp.runtime.threads import run_parallel, split_range

__all__ = ["all_finite", "gram", "product", "product_by_rows"]

#: The least number of multiplications that is worth a thread: waking one takes a twentieth of their time.
GRAIN = 1 << 22

#: For products of so many elements, or of more multiplications, OpenBLAS uses its kernels for large matrices. It has
#: other kernels below about 1,500 elements and a million multiplications.
LARGE_PRODUCT = 2048
LARGE_WORK = 1 << 21


def product(left: NDArray[np.floating], right: NDArray[np.floating], rounds: int = 1) -> NDArray[np.floating]:
    """Return the product of two matrices, I×J and J×L, each C-contiguous or the transpose of a C-contiguous array.

    `rounds` is the number of tasks per core (see `threads.split_range`).
    """
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


def product_by_rows(left: NDArray[np.floating], right: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return the product of two matrices, I×J and J×L; each row is the same to the last digit, however many there are.

    BLAS sums vectors and small matrices in another order than large ones. A single row is therefore doubled; a small
    `left` is padded with rows of zeros, and `right` is put into Fortran order, for which BLAS has no special kernel at
    so many rows.
    """
    count, inner = left.shape
    columns = right.shape[1]
    if 0 < count * inner * columns <= LARGE_WORK:
        padded = np.zeros((max(2, count, -(-LARGE_PRODUCT // columns)), inner), left.dtype)
        padded[:count] = left
        left, right = padded, np.asfortranarray(right)
    elif count == 1:
        left = np.repeat(left, 2, axis=0)
    rows: NDArray[np.floating] = np.matmul(left, right)[:count]
    return rows


def gram(matrix: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return the Gram matrix Xᵀ X, I×I, of a matrix X, J×I, whose memory order is as for `product`."""
    grain = GRAIN // max(1, matrix.shape[1] ** 2)
    # NumPy recognises a symmetric product and computes half of it.
    parts = split_range(lambda i, j: matrix[i:j].T @ matrix[i:j], len(matrix), grain)
    total: NDArray[np.floating] = np.add.reduce(run_parallel(parts))
    return total


def all_finite(array: NDArray[np.floating]) -> bool:
    """Return whether all elements are finite, judged by their sum; finite elements whose sum overflows count as not."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(np.add.reduce(array, axis=None)))
