"""Solution of large positive definite systems on all cores, by a blocked Cholesky factorisation.

LAPACK's factorisation uses as many cores as BLAS has threads, which is one here (see `xmlgp.runtime.threads`). This
one is left-looking: each block column subtracts the contribution of all earlier columns in a single matrix product, so
every block is written once. The blocks, and so the results, do not depend on the number of cores.

Source: G. H. Golub, C. F. Van Loan, Matrix Computations, 4th edition 2013, section 4.2.
"""

import functools

import numpy as np
from scipy.linalg import get_lapack_funcs

from xmlgp.linear_algebra.lapack import factorise_lower
from xmlgp.runtime.progress import silent
from xmlgp.runtime.threads import run_parallel

__all__ = ["solve_positive"]

#: Rows and columns of a block. Sizes from 256 to 1024 take about the same time; small blocks balance the cores best.
BLOCK = 256

#: Right-hand sides that one task solves for.
COLUMNS = 64


def solve_positive(matrix, right, progress=silent):
    """Replace the right-hand sides B by A⁻¹ B, in place.

    Parameters
    ----------
    matrix : ndarray, N×N
        A. Only the lower triangle is read; it is overwritten with intermediate results.
    right : ndarray, N×P
        B, of the same dtype.
    progress : callable
        See `xmlgp.runtime.progress`.

    Returns
    -------
    bool
        Whether A has a Cholesky factor. If not, B is unchanged.
    """
    size = len(matrix)
    blocks = [slice(start, min(start + BLOCK, size)) for start in range(0, size, BLOCK)]
    inverses = []
    with progress("factorisation", total=len(blocks), unit="block") as bar:
        for i, pivot in enumerate(blocks):
            below = blocks[i + 1 :]
            diagonal = functools.partial(_factorise_diagonal, matrix, pivot, inverses)
            run_parallel([diagonal, *(functools.partial(_subtract, matrix, rows, pivot) for rows in below)])
            if len(inverses) == i:
                return False
            run_parallel(functools.partial(_divide, matrix, rows, pivot, inverses[i]) for rows in below)
            bar.update()
    starts = range(0, right.shape[1], COLUMNS)
    run_parallel(functools.partial(_substitute, matrix, right[:, j : j + COLUMNS], blocks, inverses) for j in starts)
    return True


def _subtract(matrix, rows, pivot):
    """Subtract the contribution of the columns of L to the left of a block."""
    matrix[rows, pivot] -= matrix[rows, : pivot.start] @ matrix[pivot, : pivot.start].T


def _factorise_diagonal(matrix, pivot, inverses):
    """Factorise a diagonal block and append the inverse of its factor, or nothing if it has none."""
    left = matrix[pivot, : pivot.start]
    block = np.tril(matrix[pivot, pivot])
    block -= left @ left.T
    if factorise_lower(block):
        inverses.append(get_lapack_funcs("trtri", (block,))(np.tril(block), lower=1)[0])


def _divide(matrix, rows, pivot, inverse):
    """Replace a block below the diagonal by that of L."""
    matrix[rows, pivot] = matrix[rows, pivot] @ inverse.T


def _substitute(matrix, right, blocks, inverses):
    """Replace right-hand sides B by L⁻ᵀ L⁻¹ B."""
    solution = np.ascontiguousarray(right)
    for pivot, inverse in zip(blocks, inverses, strict=True):
        solution[pivot] = inverse @ (solution[pivot] - matrix[pivot, : pivot.start] @ solution[: pivot.start])
    for pivot, inverse in zip(reversed(blocks), reversed(inverses), strict=True):
        solution[pivot] = inverse.T @ (solution[pivot] - matrix[pivot.stop :, pivot].T @ solution[pivot.stop :])
    right[:] = solution
