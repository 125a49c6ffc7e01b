"""Products of dense matrices."""

import functools

import numpy as np

from xmlgp.runtime.threads import core_count, run_parallel, split_range

__all__ = ["all_finite", "gram", "product"]

#: Multiplications that are worth a thread: waking one takes a twentieth of the time of so many.
GRAIN = 1 << 22

#: Rows of a block of a symmetric product: large enough for BLAS's full rate, small enough to share out.
BLOCK = 256


def product(left, right, out=None, rounds=1):
    """Return the product of two matrices, I×J and J×L.

    Parameters
    ----------
    left : ndarray, I×J
        C-contiguous, or the transpose of what is.
    right : ndarray, J×L
        Likewise.
    out : ndarray, I×L, optional
        Where the product goes.
    rounds : int
        See `threads.split_range`.
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


def gram(*matrices):
    """Return the products of matrices' transposes and themselves, each I×I, computing half of each.

    Parameters
    ----------
    *matrices : ndarray, each J×I
        C-contiguous, or the transposes of what is.

    Returns
    -------
    ndarray or list of ndarray
        A list where there are several.
    """
    outs = [np.empty((matrix.shape[1],) * 2, matrix.dtype) for matrix in matrices]
    tasks = []
    for matrix, out in zip(matrices, outs, strict=True):
        size = len(out)
        # In one piece where there is another for the other core: the blocks beside the diagonal cost as much as half.
        count = 1 if len(matrices) >= core_count() or matrix.size * size < GRAIN else -(-size // BLOCK)
        bounds = np.linspace(0, size, count + 1).astype(int).tolist()
        blocks = [slice(*bound) for bound in zip(bounds, bounds[1:], strict=False)]
        places = [(rows, columns) for i, rows in enumerate(blocks) for columns in blocks[: i + 1]]
        places.sort(key=lambda place: place[0] == place[1])  # the larger tasks first
        tasks += [functools.partial(_block, matrix, out, *place) for place in places]
    if sum(matrix.size * len(out) for matrix, out in zip(matrices, outs, strict=True)) < GRAIN:
        for task in tasks:
            task()
    else:
        run_parallel(tasks)
    return outs if len(outs) > 1 else outs[0]


def _block(matrix, out, rows, columns):
    left = matrix[:, rows]
    if rows == columns:
        # NumPy sees that both are the same and computes half.
        np.matmul(left.T, left, out=out[rows, columns])
    else:
        np.matmul(left.T, matrix[:, columns], out=out[rows, columns])
        out[columns, rows] = out[rows, columns].T


def all_finite(array):
    """Return whether all numbers are finite, by their sum: one so large that it is not would be as wrong as they."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(np.add.reduce(array, axis=None)))
