"""The M-step for the weights W: weighted least squares for all topics at once, by conjugate gradients or exactly."""

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from xmlgp.errors import NumericalError
from xmlgp.linear_algebra import sparse
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.linear_algebra.native import factorise_lower, solve_factorised
from xmlgp.threads import run

__all__ = [
    "INTERCEPT_PRECISION",
    "Design",
    "System",
    "climb",
    "log_prior",
    "normal_matrix",
    "solve",
    "spread",
    "with_intercept",
]

#: τ of the intercepts: their prior has a standard deviation of 30, so that it hardly says anything.
INTERCEPT_PRECISION = 1e-3


#: Residuals of draws relative to what they were at first, at which they are precise enough.
CONVERGED = 1e-4


class Design:
    """The features of points with an intercept, in both orders.

    Parameters
    ----------
    features : csr_array, N×D
        As weighted.

    Attributes
    ----------
    rows : csr_array, N×(D+1)
        X with a last column of ones; indices ascend within a row.
    columns : csr_array, (D+1)×N
        Its transpose.
    squares : csr_array, (D+1)×N
        Its transpose, squared element by element.
    """

    def __init__(self, features):
        self.rows = with_intercept(features)
        self.rows.sort_indices()
        self.columns = self.rows.T.tocsr()
        squared = np.square(self.columns.data)
        self.squares = csr_array((squared, self.columns.indices, self.columns.indptr), shape=self.columns.shape)


def with_intercept(features):
    """Return features with a last column of ones, N×(D+1)."""
    N, D = features.shape
    indptr = features.indptr + np.arange(N + 1, dtype=features.indptr.dtype)
    last = indptr[1:] - 1
    indices, data = (np.empty(features.nnz + N, array.dtype) for array in (features.indices, features.data))
    others = np.ones(len(data), bool)
    others[last] = False
    indices[others], data[others] = features.indices, features.data
    indices[last], data[last] = D, 1
    return csr_array((data, indices, indptr), shape=(N, D + 1))


class System(NamedTuple):
    """The quadratic function that an M-step maximises: −½ Σ_n ω_nt (w_tᵀx_n)² + κ_nt w_tᵀx_n − ½ Σ_d τ_d w_dt².

    Attributes
    ----------
    design : Design
    omega : ndarray, N×T
        ω.
    residuals : ndarray, N×T
        κ − ω ψ at the present weights.
    precisions : ndarray, D+1
        τ, the intercept's last.
    """

    design: Design
    omega: np.ndarray
    residuals: np.ndarray
    precisions: np.ndarray


def climb(system, weights, log_odds, steps):
    """Move the weights of all topics by some conjugate gradient steps from where they are; log odds go with them.

    They solve (Xᵀ Ω_t X + Γ⁻¹) w_t = Xᵀ κ_t ([B] (18)), preconditioned by the diagonals of these matrices. No step
    lowers the quadratic function, and only products of X and Xᵀ with matrices of T columns are taken.

    Parameters
    ----------
    system : System
    weights : ndarray, (D+1)×T
        W, changed in place.
    log_odds : ndarray, N×T
        ψ = X W, changed in place.
    steps : int
    """
    gradient = sparse.product(system.design.columns, system.residuals)
    gradient -= system.precisions[:, None] * weights
    for direction, image, lengths in _directions(system, gradient, steps):
        direction *= lengths
        weights += direction
        image *= lengths
        log_odds += image


def spread(system, random, steps, right=0):
    """Return a draw from N(S_t⁻¹ b_t, S_t⁻¹), S_t = Xᵀ Ω_t X + Γ⁻¹, for each topic, (D+1)×T.

    It solves S_t w_t = b_t + Xᵀ Ω_t^½ ε + Γ^(−½) ε′ by conjugate gradients: the covariance of what is added to b_t is
    S_t itself. Squares of draws with b = 0 estimate variances of weights without bias.

    Parameters
    ----------
    system : System
    random : numpy.random.Generator
    steps : int
        Of conjugate gradients, at most; fewer where residuals are a ten thousandth of what they were.
    right : ndarray, (D+1)×T, optional
        b.
    """
    dtype, shape = system.omega.dtype, (len(system.precisions), system.omega.shape[1])
    noise = random.standard_normal(system.omega.shape, dtype)
    noise *= np.sqrt(system.omega)
    right = sparse.product(system.design.columns, noise) + right
    right += np.sqrt(system.precisions)[:, None] * random.standard_normal(shape, dtype)
    draw = np.zeros(shape, dtype)
    for direction, _, lengths in _directions(system, right, steps, CONVERGED):
        direction *= lengths
        draw += direction
    return draw


def _directions(system, gradient, steps, converged=0):
    """Yield conjugate directions, (D+1)×T, their images under X, N×T, and how far to go, T; all may be changed.

    It ends before `steps` of them where the preconditioned residuals of all topics are at most `converged` times as
    large as they were.
    """
    precisions = system.precisions[:, None]
    diagonal = sparse.product(system.design.squares, system.omega)
    diagonal += precisions
    scaled = gradient / diagonal
    direction = scaled.copy()
    size = _inner(gradient, scaled)
    enough = converged**2 * size
    for step in range(steps):
        image = sparse.product(system.design.rows, direction)
        curved = sparse.product(system.design.columns, system.omega * image)
        curved += precisions * direction
        curvature = _inner(direction, curved)
        # Where it has converged there is nothing left to go.
        lengths = np.divide(size, curvature, out=np.zeros_like(size), where=curvature > 0).astype(gradient.dtype)
        following = direction.copy() if step + 1 < steps else None
        yield direction, image, lengths
        if following is None:
            return
        curved *= lengths
        gradient -= curved
        np.divide(gradient, diagonal, out=scaled)
        before, size = size, _inner(gradient, scaled)
        if (size <= enough).all():
            return
        following *= np.divide(size, before, out=np.zeros_like(size), where=before > 0).astype(gradient.dtype)
        following += scaled
        direction = following


def _inner(left, right):
    """Return the inner products of columns, T, in double precision as far as sums go."""
    return np.einsum("dt,dt->t", left, right, dtype=np.float64, casting="unsafe")


def solve(system, counts_less_shapes, weights, random=None):
    """Fill in the weights that maximise the quadratic function, or a draw from the Gaussian that it is the exponent of.

    w_t = S_t⁻¹ Xᵀ κ_t with S_t = Xᵀ Ω_t X + Γ⁻¹; the draw adds L_t⁻ᵀ ε with S_t = L_t L_tᵀ ([B] (15)). Each S_t is a
    dense matrix of (D+1)² numbers, of which there is one for each core at a time.

    Parameters
    ----------
    system : System
        Its residuals are not needed.
    counts_less_shapes : ndarray, N×T
        2κ = m − r.
    weights : ndarray, (D+1)×T
        Where they go.
    random : numpy.random.Generator, optional
        Of the draw; None for the maximum.

    Raises
    ------
    NumericalError
        Where a matrix has no Cholesky factor.
    """
    design = system.design
    right = sparse.product(design.columns, counts_less_shapes).astype(np.float64)
    right *= 0.5
    noise = None if random is None else random.standard_normal(right.shape[::-1])

    def topic(t):
        matrix = normal_matrix(design, system.omega[:, t], system.precisions)
        if not factorise_lower(matrix):
            raise NumericalError(f"the normal equations of topic {t} have no Cholesky factor")
        weights[:, t] = solve_factorised(matrix, right[:, t], None if noise is None else noise[t])

    run([lambda t=t: topic(t) for t in range(right.shape[1])])


def normal_matrix(design, omega, precisions):
    """Return S = Xᵀ Ω X + Γ⁻¹ of a topic, (D+1)×(D+1), in double precision; only its lower triangle is filled in.

    Parameters
    ----------
    design : Design
    omega : ndarray, N
        Diagonal of Ω.
    precisions : ndarray, D+1
        Diagonal of Γ⁻¹.
    """
    size = len(precisions)
    matrix = np.zeros((size, size))
    rows, columns = design.rows, design.columns
    _accumulate(
        rows.indptr, rows.indices, rows.data, columns.indptr, columns.indices, columns.data, omega, precisions, matrix
    )
    return matrix


@compiled
def _accumulate(row_ptr, features, values, column_ptr, points, column_values, omega, precisions, matrix):
    for d in range(len(matrix)):
        # One row of the matrix at a time, which stays in the cache.
        own = matrix[d]
        for e in range(column_ptr[d], column_ptr[d + 1]):
            n = points[e]
            scale = float(column_values[e]) * omega[n]
            for j in range(row_ptr[n], row_ptr[n + 1]):
                if features[j] > d:
                    break
                own[features[j]] += scale * values[j]
        own[d] += precisions[d]


def log_prior(weights, precisions):
    """Return Σ_t log N(w_t | 0, Γ), without constants that depend on neither W nor τ.

    Parameters
    ----------
    weights : ndarray, (D+1)×T
    precisions : ndarray, D+1
        τ, the diagonal of Γ⁻¹.
    """
    squares = np.einsum("dt,dt->d", weights, weights, dtype=np.float64, casting="unsafe")
    precisions = precisions.astype(np.float64)
    return float(0.5 * (weights.shape[1] * np.log(precisions).sum() - precisions @ squares))
