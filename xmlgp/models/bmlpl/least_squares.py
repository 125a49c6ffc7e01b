"""The M-step for the weights W: weighted least squares for all topics, by conjugate gradients or Cholesky factors.

For topic t it solves S_t w_t = Xᵀ κ_t with S_t = Xᵀ Ω_t X + Γ⁻¹ ([B] (18)), or samples from N(S_t⁻¹ b_t, S_t⁻¹) for a
given b_t. X has a last column of ones for the intercepts. κ = (m − r)/2 for counts m and shapes r, and Ω_t is the
diagonal matrix of the Pólya–Gamma means ω_nt. Γ is the diagonal prior covariance of w_t, with the precisions τ.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from xmlgp.linear_algebra import sparse
from xmlgp.linear_algebra.cholesky import solve_with_factor, try_cholesky
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.models.bmlpl.activations import polya_gamma_means
from xmlgp.runtime.blocks import row_blocks
from xmlgp.runtime.errors import NumericalError
from xmlgp.runtime.threads import core_count, run_parallel

__all__ = [
    "INTERCEPT_PRECISION",
    "Design",
    "LeastSquares",
    "cg_sample",
    "cg_solve",
    "cholesky_solve",
    "log_prior",
    "with_intercept",
]

#: τ of the intercepts: a weak prior with a standard deviation of 30.
INTERCEPT_PRECISION = 1e-3

#: Rows per partial sum; the partial sums are added in double precision.
BLOCK = 256

#: Elements of dense matrices that a core factorises between two checks for an interrupt. Without these checks a second
#: Ctrl-C would wait for all topics, up to an hour.
ELEMENTS_AT_ONCE = 1 << 22

#: Relative residual at which `cg_sample` stops.
TOLERANCE = 1e-4


class Design:
    """Features with a last column of ones: `rows`, N×(D+1), `columns`, their transpose, and `squares` of `columns`."""

    def __init__(self, features: csr_array) -> None:
        self.rows = with_intercept(features)
        self.rows.sort_indices()
        self.columns = self.rows.T.tocsr()
        self.squares = self.columns.power(2)


def with_intercept(features: csr_array) -> csr_array:
    """Return features with a last column of ones, N×(D+1)."""
    ones = csr_array(np.ones((features.shape[0], 1), features.dtype))
    return hstack([features, ones], format="csr")


class LeastSquares:
    """The quadratic function that an M-step maximises: Σ_n [κ_nt w_tᵀx_n − ½ ω_nt (w_tᵀx_n)²] − ½ Σ_d τ_d w_dt².

    At the current weights, `log_odds` is ψ = X W, `omega` is ω, and `residuals` is κ − ω ψ, the gradient by ψ, all N×T.
    These arrays are allocated once, because allocating them in every step takes longer than filling them. `precisions`
    is τ, D+1, with that of the intercept last.
    """

    def __init__(self, design: Design, topic_count: int, dtype: np.dtype[np.floating]) -> None:
        shape = design.rows.shape[0], topic_count
        self.design = design
        self.log_odds = np.empty(shape, dtype)
        self.omega: NDArray[np.floating] = np.empty(shape, dtype)
        self.residuals = np.empty(shape, dtype)
        self.precisions = np.empty(design.rows.shape[1], dtype)
        self._image = np.empty(shape, dtype)

    def set_tangent(
        self,
        weights: NDArray[np.floating],
        counts: NDArray[np.floating],
        shapes: NDArray[np.floating],
        precisions: NDArray[np.floating],
    ) -> None:
        """Set τ, ψ, ω and the residuals of the lower bound on the log likelihood that is tight at W, (D+1)×T.

        The counts m are N×T, the shapes r have T elements and the `precisions` τ have D+1 elements.
        """
        self.precisions = precisions
        self.set_log_odds(weights)
        polya_gamma_means(counts, self.log_odds, shapes, self.omega, self.residuals)

    def set_log_odds(self, weights: NDArray[np.floating]) -> None:
        """Set the log odds to those at the weights, (D+1)×T."""
        sparse.product(self.design.rows, weights, self.log_odds)

    def multiply(self, direction: NDArray[np.floating]) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """Return X P and ω ∘ X P, both N×T, for directions P, (D+1)×T.

        The results are views of arrays that the next call overwrites; the second is `residuals`.
        """
        sparse.product(self.design.rows, direction, self._image)
        return self._image, np.multiply(self.omega, self._image, out=self.residuals)


def cg_solve(system: LeastSquares, weights: NDArray[np.floating], steps: int) -> None:
    """Take conjugate gradient steps on S_t w_t = Xᵀ κ_t from the current weights, for all topics; update the log odds.

    The diagonals of S_t are the preconditioner. No step decreases the quadratic function. The matrices S_t are not
    formed: a step multiplies X and Xᵀ with matrices of T columns. The weights and the log odds change in place; the
    residuals are overwritten. Source: [B] (18).
    """
    gradient = sparse.product(system.design.columns, system.residuals)
    gradient -= system.precisions[:, None] * weights
    for direction, image, lengths in _conjugate_directions(system, gradient, steps):
        weights += lengths * direction
        system.log_odds += lengths * image


def cg_sample(
    system: LeastSquares, random: np.random.Generator, steps: int, b: NDArray[np.floating] | float = 0
) -> NDArray[np.floating]:
    """Return a sample from N(S_t⁻¹ b_t, S_t⁻¹) for each topic, (D+1)×T, given b, (D+1)×T.

    It solves S_t w_t = b_t + Xᵀ Ω_t^½ ε + Γ^(−½) ε′ for standard normal ε, ε′ by conjugate gradients; the covariance of
    the last two terms is S_t. With b = 0 the squares are unbiased estimates of the variances of the weights. It takes
    fewer `steps` if the relative residual falls below `TOLERANCE`, and overwrites the residuals of the system. Source:
    G. Papandreou, A. Yuille, Gaussian sampling by local perturbations, NIPS 2010.
    """
    dtype = system.omega.dtype
    shape = (len(system.precisions), system.omega.shape[1])
    noise = random.standard_normal(system.omega.shape, dtype)
    noise *= np.sqrt(system.omega)
    total = sparse.product(system.design.columns, noise) + b
    total += np.sqrt(system.precisions[:, None]) * random.standard_normal(shape, dtype)
    sample = np.zeros(shape, dtype)
    for direction, _, lengths in _conjugate_directions(system, total, steps, TOLERANCE):
        sample += lengths * direction
    return sample


def _conjugate_directions(
    system: LeastSquares, gradient: NDArray[np.floating], steps: int, tolerance: float = 0
) -> Iterator[tuple[NDArray[np.floating], NDArray[np.floating], NDArray[np.floating]]]:
    """Yield conjugate directions, (D+1)×T, their images under X, N×T, and step lengths, T.

    It stops after `steps`, or when the preconditioned residuals of all topics have fallen to `tolerance` times their
    initial norm. The gradient changes in place.
    """
    precisions = system.precisions[:, None]
    diagonal = sparse.product(system.design.squares, system.omega)
    diagonal += precisions
    scaled = gradient / diagonal
    direction = scaled.copy()
    squared_norm = _column_products(gradient, scaled)
    target = tolerance**2 * squared_norm
    for step in range(steps):
        image, weighted = system.multiply(direction)
        curved_direction = sparse.product(system.design.columns, weighted)
        curved_direction += precisions * direction
        curvature = _column_products(direction, curved_direction)
        # The direction of a topic that has converged is zero, and so is its curvature.
        lengths = np.divide(squared_norm, curvature, out=np.zeros_like(squared_norm), where=curvature > 0).astype(
            gradient.dtype
        )
        yield direction, image, lengths
        if step + 1 == steps:
            return
        gradient -= lengths * curved_direction
        np.divide(gradient, diagonal, out=scaled)
        previous = squared_norm
        squared_norm = _column_products(gradient, scaled)
        if (squared_norm <= target).all():
            return
        direction *= np.divide(squared_norm, previous, out=np.zeros_like(squared_norm), where=previous > 0).astype(
            gradient.dtype
        )
        direction += scaled


def _column_products(left: NDArray[np.floating], right: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the inner products of corresponding columns, T, with partial sums added in double precision."""
    total = np.zeros(left.shape[1])
    for rows in row_blocks(len(left), BLOCK):
        total += np.einsum("dt,dt->t", left[rows], right[rows])
    return total


def cholesky_solve(
    system: LeastSquares,
    counts_less_shapes: NDArray[np.floating],
    weights: NDArray[np.floating],
    random: np.random.Generator | None = None,
) -> None:
    """Write the weights S_t⁻¹ Xᵀ κ_t, which maximise the quadratic function, or samples from N(S_t⁻¹ Xᵀ κ_t, S_t⁻¹).

    `counts_less_shapes` is 2κ = m − r, N×T. Samples, which need `random`, add L_t⁻ᵀ ε with S_t = L_t L_tᵀ and standard
    normal ε ([B] (15)). Each S_t is a dense matrix, (D+1)×(D+1), and each core has one at a time. ψ and the residuals
    of the system are not used. NumericalError is raised if an S_t has no Cholesky factor.
    """
    design = system.design
    b = sparse.product(design.columns, counts_less_shapes).astype(np.float64)
    b *= 0.5
    noise = np.zeros(b.shape[::-1]) if random is None else random.standard_normal(b.shape[::-1])
    rows = sparse.arrays_of(design.rows)
    columns = sparse.arrays_of(design.columns)

    def solve_topic(t: int) -> None:
        matrix = np.zeros((len(weights), len(weights)))
        _fill_normal_matrix(rows, columns, system.omega[:, t], system.precisions, matrix)
        factor = try_cholesky(matrix)
        if factor is None:
            raise NumericalError(f"the normal equations of topic {t} have no Cholesky factor")
        weights[:, t] = solve_with_factor(factor, b[:, t], noise[t])

    T = b.shape[1]
    topics_per_check = core_count() * max(1, ELEMENTS_AT_ONCE // len(weights) ** 2)
    for start in range(0, T, topics_per_check):
        run_parallel(partial(solve_topic, t) for t in range(start, min(start + topics_per_check, T)))


@compiled
def _fill_normal_matrix(
    rows: tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.floating]],
    columns: tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.floating]],
    omega: NDArray[np.floating],
    precisions: NDArray[np.floating],
    matrix: NDArray[np.float64],
) -> None:
    """Add the lower triangle of S = Xᵀ Ω X + Γ⁻¹ of a topic to `matrix`, (D+1)×(D+1), which is zero."""
    row_ptr, features, values = rows
    column_ptr, points, column_values = columns
    for d in range(len(matrix)):
        # The loop fills one row of the matrix at a time, so that it stays in the cache.
        row = matrix[d]
        for e in range(column_ptr[d], column_ptr[d + 1]):
            n = points[e]
            scale = float(column_values[e]) * omega[n]
            for j in range(row_ptr[n], row_ptr[n + 1]):
                if features[j] > d:
                    break
                row[features[j]] += scale * values[j]
        row[d] += precisions[d]


def log_prior(weights: NDArray[np.floating], precisions: NDArray[np.floating]) -> float:
    """Return Σ_t log N(w_t | 0, Γ), up to a constant that does not depend on W or τ."""
    squares = np.einsum("dt,dt->d", weights, weights).astype(np.float64)
    precisions = precisions.astype(np.float64)
    return float(0.5 * (weights.shape[1] * np.log(precisions).sum() - precisions @ squares))
