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

__all__ = ["BlockedCholesky"]

#: Rows and columns of a block. Sizes from 256 to 1024 take about the same time; small blocks balance the cores best.
BLOCK = 256

#: Right-hand sides that one task solves for.
COLUMNS = 64


class BlockedCholesky:
    """The Cholesky factor L of a positive definite matrix A, which also solves systems of a leading part of A.

    Parameters
    ----------
    matrix : ndarray, N×N
        A. Only the lower triangle is read; it is overwritten with L.
    leading : int, optional
        Size of a leading part, from 1 to N: the same rows of L are its factor.
    progress : callable
        See `xmlgp.runtime.progress`.

    Raises
    ------
    LinAlgError
        If A has no such factor.
    """

    def __init__(self, matrix, leading=None, progress=silent):
        size, self._matrix, self._inverses = len(matrix), matrix, []
        ranges = (0, leading or size), (leading or size, size)
        self._blocks = [
            slice(start, min(start + BLOCK, end)) for first, end in ranges for start in range(first, end, BLOCK)
        ]
        with progress("factorisation", total=len(self._blocks), unit="block") as bar:
            for i, pivot in enumerate(self._blocks):
                below = self._blocks[i + 1 :]
                diagonal = functools.partial(_factorise_diagonal, matrix, pivot, self._inverses)
                run_parallel([diagonal, *(functools.partial(_subtract, matrix, rows, pivot) for rows in below)])
                if len(self._inverses) == i:
                    raise np.linalg.LinAlgError(f"row {pivot.start} or one of the next {BLOCK} has no positive pivot")
                run_parallel(functools.partial(_divide, matrix, rows, pivot, self._inverses[i]) for rows in below)
                bar.update()

    def solve(self, right):
        """Replace right-hand sides B by A⁻¹ B in place, where A may be the leading part.

        Parameters
        ----------
        right : ndarray, N×P or leading×P
            B, of the dtype of A.
        """
        blocks = [rows for rows in self._blocks if rows.stop <= len(right)]
        solve = functools.partial(_substitute, self._matrix[: len(right)], blocks=blocks, inverses=self._inverses)
        run_parallel(functools.partial(solve, right[:, j : j + COLUMNS]) for j in range(0, right.shape[1], COLUMNS))


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
    inverses = inverses[: len(blocks)]
    for pivot, inverse in zip(blocks, inverses, strict=True):
        solution[pivot] = inverse @ (solution[pivot] - matrix[pivot, : pivot.start] @ solution[: pivot.start])
    for pivot, inverse in zip(reversed(blocks), reversed(inverses), strict=True):
        solution[pivot] = inverse.T @ (solution[pivot] - matrix[pivot.stop :, pivot].T @ solution[pivot.stop :])
    right[:] = solution
