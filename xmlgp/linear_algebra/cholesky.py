"""Large systems of linear equations with a positive definite matrix, by a Cholesky factorisation in blocks.

LAPACK's takes as many cores as BLAS has threads, which is one here (see `xmlgp.runtime.threads`). This one goes by
columns of blocks: all that earlier columns contribute to one is a single product, at BLAS's full rate, and what is
written is written once. Blocks do not depend on the number of cores, so neither do results.
"""

import functools

import numpy as np
from scipy.linalg import get_lapack_funcs

from xmlgp.linear_algebra.native import factorise_lower
from xmlgp.runtime.progress import silent
from xmlgp.runtime.threads import run_parallel

__all__ = ["solve_positive"]

#: Rows and columns of a block: of 256 to 1024 all take about the same time, and the least can be shared out best.
BLOCK = 256

#: Right-hand sides that are solved for together.
COLUMNS = 64


def solve_positive(matrix, right, progress=silent):
    """Replace the right-hand sides B by A⁻¹ B; return whether A has a Cholesky factor, without which B stays.

    Parameters
    ----------
    matrix : ndarray, N×N
        A, of which the lower triangle is read; its place is taken by intermediate results.
    right : ndarray, N×P
        B, of the same dtype.
    progress : callable
        See `xmlgp.runtime.progress`.
    """
    size = len(matrix)
    blocks = [slice(start, min(start + BLOCK, size)) for start in range(0, size, BLOCK)]
    inverses = []
    with progress("factorisation", total=len(blocks), unit="block") as bar:
        for i, own in enumerate(blocks):
            below = blocks[i + 1 :]
            diagonal = functools.partial(_invert_diagonal, matrix, own, inverses)
            run_parallel([diagonal, *(functools.partial(_subtract, matrix, rows, own) for rows in below)])
            if len(inverses) == i:
                return False
            run_parallel(functools.partial(_divide, matrix, rows, own, inverses[i]) for rows in below)
            bar.update()
    starts = range(0, right.shape[1], COLUMNS)
    run_parallel(functools.partial(_substitute, matrix, right[:, j : j + COLUMNS], blocks, inverses) for j in starts)
    return True


def _subtract(matrix, rows, own):
    """Subtract from a block what the columns to the left of it, already those of L, contribute."""
    matrix[rows, own] -= matrix[rows, : own.start] @ matrix[own, : own.start].T


def _invert_diagonal(matrix, own, inverses):
    """Append the inverse of a diagonal block of L: nothing else of that block is needed any more."""
    left = matrix[own, : own.start]
    block = np.tril(matrix[own, own])
    block -= left @ left.T
    if factorise_lower(block):
        inverses.append(get_lapack_funcs("trtri", (block,))(np.tril(block), lower=1)[0])


def _divide(matrix, rows, own, inverse):
    matrix[rows, own] = matrix[rows, own] @ inverse.T


def _substitute(matrix, right, blocks, inverses):
    """Replace some right-hand sides by L⁻ᵀ L⁻¹ times them."""
    found = np.ascontiguousarray(right)
    for own, inverse in zip(blocks, inverses, strict=True):
        found[own] = inverse @ (found[own] - matrix[own, : own.start] @ found[: own.start])
    for own, inverse in zip(reversed(blocks), reversed(inverses), strict=True):
        found[own] = inverse.T @ (found[own] - matrix[own.stop :, own].T @ found[own.stop :])
    right[:] = found
