"""Products of dense matrices."""

import functools

import numpy as np

from xmlgp.threads import core_count, in_parts, run

__all__ = ["gram", "gram_sum", "product"]

#: Multiplications that are worth a thread: waking one takes a twentieth of the time of so many.
GRAIN = 1 << 22

#: Rows of a block of a symmetric product: large enough for BLAS's full rate, small enough to share out.
BLOCK = 256


def product(left, right, out=None):
    """Return the product of two matrices, I×J and J×L.

    Parameters
    ----------
    left : ndarray, I×J
        C-contiguous, or the transpose of what is.
    right : ndarray, J×L
        Likewise.
    out : ndarray, I×L, optional
        Where the product goes.
    """
    if out is None:
        out = np.empty((left.shape[0], right.shape[1]), np.result_type(left, right))
    rows, columns = out.shape
    inner = left.shape[1]
    if rows >= columns:
        in_parts(lambda i, j: np.matmul(left[i:j], right, out=out[i:j]), rows, GRAIN // max(1, inner * columns))
    else:
        in_parts(lambda i, j: np.matmul(left, right[:, i:j], out=out[:, i:j]), columns, GRAIN // max(1, inner * rows))
    return out


def gram(matrix):
    """Return the product of a matrix's transpose and itself, I×I.

    Parameters
    ----------
    matrix : ndarray, J×I
        C-contiguous, or the transpose of what is.
    """
    return gram_sum((matrix, matrix))


def gram_sum(*pairs):
    """Return Σ leftᵀ right over pairs of matrices, where that is symmetric, computing half of it.

    Parameters
    ----------
    *pairs : tuple of (ndarray, ndarray), each J×I, with any J
        Such as a matrix and a diagonal times it. C-contiguous, or the transposes of what is.
    """
    first = pairs[0][0]
    size = first.shape[1]
    out = np.empty((size, size), first.dtype)
    count = max(1, -(-size // BLOCK))
    # Two cores share three blocks of two rows well, with the larger one first.
    bounds = np.linspace(0, size, count + 1).astype(int).tolist()
    blocks = [slice(*bound) for bound in zip(bounds, bounds[1:], strict=False)]
    places = [(rows, columns) for i, rows in enumerate(blocks) for columns in blocks[: i + 1]]
    places.sort(key=lambda place: place[0] == place[1])
    tasks = [functools.partial(_block, pairs, out, *place) for place in places]
    if core_count() == 1 or sum(left.size for left, _ in pairs) * size < GRAIN:
        for task in tasks:
            task()
    else:
        run(tasks)
    return out


def _block(pairs, out, rows, columns):
    target = out[rows, columns]
    for position, (left, right) in enumerate(pairs):
        if left is right and rows == columns:
            part = np.matmul(left[:, rows].T, left[:, rows])  # of which NumPy computes half
        else:
            part = np.matmul(left[:, rows].T, right[:, columns])
        if position:
            target += part
        else:
            target[:] = part
    if rows != columns:
        out[columns, rows] = target.T
