"""Solution of large positive definite systems on all cores, by preconditioned block conjugate gradients.

All P right-hand sides are solved for in one Krylov space. For a few hundred of them, a few products of the N×N matrix
with N×P directions are enough; a Cholesky factorisation has as many operations as N/6P such products. The
preconditioner is a Nyström approximation of the matrix by some of its rows. Products are computed in blocks that do not
depend on the number of cores, so the results do not either.

Sources: D. P. O'Leary, The block conjugate gradient algorithm and related methods, Linear Algebra and its Applications
29, 1980, section 3; Z. Frangella, J. A. Tropp, M. Udell, Randomized Nyström preconditioning, SIAM Journal on Matrix
Analysis and Applications 44, 2023, section 1.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from xmlgp.runtime.progress import Progress, silent
from xmlgp.runtime.threads import run_parallel

__all__ = ["Solution", "solve"]

#: Residuals are reduced to this share of the right-hand sides, in Frobenius norm.
TOLERANCE = 0.2

#: The most iterations. Systems whose diagonal is at most three times their smallest eigenvalue take four to six.
ITERATIONS = 50

#: The number of rows that the Nyström approximation is made of. At N = 17,871, 300 rows take one or two iterations more
#: than 500, and 1000 rows save at most one.
LANDMARKS = 500

#: The number of rows of a product that one task computes.
ROWS = 256

#: Directions shorter than this share of the longest one are left out, because they are rounding errors.
SHORTEST = 1e-5


class Solution(NamedTuple):
    """An approximate solution X of A X = B, and its residual B − A X, both N×P."""

    values: NDArray[np.floating]
    residual: NDArray[np.floating]

    def extended(self, matrix: NDArray[np.floating], right: NDArray[np.floating]) -> Solution:
        """Return the solution for more points, with zeros for those after the first ones, given their A and B."""
        count = len(self.values)
        values = np.zeros_like(right)
        values[:count] = self.values
        residual = right.copy()
        residual[:count] = self.residual
        residual[count:] -= _product(matrix[count:, :count], self.values)
        return Solution(values, residual)


def solve(
    matrix: NDArray[np.floating],
    right: NDArray[np.floating],
    start: Solution | None = None,
    progress: Progress = silent,
    tolerance: float | None = None,
) -> Solution:
    """Return an approximate `Solution` X of A X = B, N×P, with ‖B − A X‖ ≤ `tolerance` ‖B‖.

    The tolerance is `TOLERANCE` by default. A is N×N and positive definite; B has its dtype. Iterations begin at
    `start`, or at zero. If A is not finite or not positive definite, or needs more than `ITERATIONS` iterations, raise
    LinAlgError.
    """
    solution = np.zeros_like(right) if start is None else start.values.copy()
    residual = right.copy() if start is None else start.residual.copy()
    target = (TOLERANCE if tolerance is None else tolerance) * np.linalg.norm(right)
    initial_norm = np.linalg.norm(residual)
    if initial_norm <= target:
        return Solution(solution, residual)
    precondition = _preconditioner(matrix)
    directions = _orthonormal(precondition(residual))
    fraction_done = 0.0
    with progress("regression", total=1, unit=None) as bar:
        for _ in range(ITERATIONS):
            images = _product(matrix, directions)
            energy_factor = cho_factor(_product(directions.T, images).astype(float), lower=True)
            steps = _solve_by_factor(energy_factor, _product(directions.T, residual))
            solution += _product(directions, steps)
            residual -= _product(images, steps)
            norm = np.linalg.norm(residual)
            if norm <= target:
                bar.update(1 - fraction_done)
                return Solution(solution, residual)
            # Each iteration reduces the residual by about the same factor, so its logarithm shows the progress.
            fraction = max(fraction_done, np.log(norm / initial_norm) / np.log(target / initial_norm))
            bar.update(fraction - fraction_done)
            fraction_done = fraction
            conjugate = precondition(residual)
            conjugate -= _product(directions, _solve_by_factor(energy_factor, _product(images.T, conjugate)))
            directions = _orthonormal(conjugate)
    raise np.linalg.LinAlgError(f"the residual is {norm / target:.3g} times too large after {ITERATIONS} iterations")


def _preconditioner(matrix: NDArray[np.floating]) -> Callable[[NDArray[np.floating]], NDArray[np.floating]]:
    """Return the function R ↦ (U Uᵀ + d I)⁻¹ R, where A ≈ U Uᵀ + d I.

    U Uᵀ = A_:L A_LL⁻¹ A_L: is the Nyström approximation by the rows L, and the noise d is the mean of the diagonal of
    A − U Uᵀ. By the Woodbury identity, (U Uᵀ + d I)⁻¹ R = (R − U (Uᵀ U + d I)⁻¹ Uᵀ R) / d.
    """
    size = len(matrix)
    rows = np.sort(np.random.default_rng(0).choice(size, min(LANDMARKS, size // 2), replace=False))
    columns = np.ascontiguousarray(matrix[rows].T)
    if not np.isfinite(columns).all():
        raise np.linalg.LinAlgError("the matrix is not finite")
    factor = np.linalg.cholesky(columns[rows].astype(float))
    root = _product(columns, solve_triangular(factor, np.eye(len(rows)), lower=True).T.astype(matrix.dtype))
    noise = matrix.diagonal().mean(dtype=float) - np.square(root).sum(dtype=float) / size
    # NaN fails this comparison too.
    if not 0 < noise < np.inf:
        raise np.linalg.LinAlgError("the matrix is not positive definite, or not finite")
    inner_factor = cho_factor(_product(root.T, root).astype(float) + noise * np.eye(len(rows)), lower=True)

    def precondition(block: NDArray[np.floating]) -> NDArray[np.floating]:
        solved: NDArray[np.floating] = block - _product(root, _solve_by_factor(inner_factor, _product(root.T, block)))
        solved /= matrix.dtype.type(noise)
        return solved

    return precondition


def _solve_by_factor(factor: tuple[NDArray[np.float64], bool], right: NDArray[np.floating]) -> NDArray[np.floating]:
    """Solve a system by its Cholesky factor in double precision; the result has the dtype of the right-hand sides."""
    solution: NDArray[np.floating] = cho_solve(factor, right.astype(float)).astype(right.dtype)
    return solution


def _orthonormal(block: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return a nearly orthonormal basis of the space of the columns, without directions that are rounding errors."""
    double = block.astype(float)
    # In a Gram matrix of single precision, rounding errors look like directions of a thousandth of the longest length.
    squared_lengths, vectors = np.linalg.eigh(_product(double.T, double))
    kept = squared_lengths > SHORTEST**2 * squared_lengths[-1]
    return _product(block, (vectors[:, kept] / np.sqrt(squared_lengths[kept])).astype(block.dtype))


def _product(left: NDArray[np.floating], right: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return left @ right, in blocks of rows that, unlike those of `dense.product`, do not depend on the cores."""
    right = np.ascontiguousarray(right)
    out = np.empty((len(left), right.shape[1]), right.dtype)

    def multiply(start: int) -> None:
        np.matmul(left[start : start + ROWS], right, out=out[start : start + ROWS])

    run_parallel(functools.partial(multiply, start) for start in range(0, len(left), ROWS))
    return out
