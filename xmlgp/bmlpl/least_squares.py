"""The M-step for the weights W: weighted least squares for all topics at once, by conjugate gradients or exactly."""

import numpy as np
from scipy.sparse import csr_array

from xmlgp.bmlpl.activations import polya_gamma_row
from xmlgp.errors import NumericalError
from xmlgp.linear_algebra import sparse
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.linear_algebra.lapack import factorise_lower, solve_factorised
from xmlgp.runtime.threads import core_count, parallel_for, run_parallel

__all__ = [
    "INTERCEPT_PRECISION",
    "Design",
    "LeastSquares",
    "cg_solve",
    "log_prior",
    "normal_matrix",
    "polya_gamma_means",
    "cholesky_solve",
    "cg_sample",
    "with_intercept",
]

#: τ of the intercepts: their prior has a standard deviation of 30, so that it hardly says anything.
INTERCEPT_PRECISION = 1e-3

#: Elements that are worth a thread.
GRAIN = 1 << 16

#: Rows over which products are summed before double precision takes over.
BLOCK = 256

#: Elements of dense matrices that a core factorises at a stretch, if there is more than one matrix: an impatient second
#: signal waits for the end of the stretch, and all topics can take an hour.
TOGETHER = 1 << 22

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
    # With the column of ones there may be more elements than 32 bits can count.
    wide = np.int32 if features.nnz + N <= np.iinfo(np.int32).max else np.int64
    indptr = features.indptr.astype(wide) + np.arange(N + 1, dtype=wide)
    last = indptr[1:] - 1
    indices, data = (np.empty(features.nnz + N, array.dtype) for array in (features.indices, features.data))
    others = np.ones(len(data), bool)
    others[last] = False
    indices[others], data[others] = features.indices, features.data
    indices[last], data[last] = D, 1
    return csr_array((data, indices, indptr), shape=(N, D + 1))


class LeastSquares:
    """The quadratic function that an M-step maximises: −½ Σ_n ω_nt (w_tᵀx_n)² + κ_nt w_tᵀx_n − ½ Σ_d τ_d w_dt².

    Its arrays of N×T numbers are made once: pages of new ones would take longer to come by than to fill.

    Parameters
    ----------
    design : Design
    topic_count : int
        T.
    dtype : dtype

    Attributes
    ----------
    design : Design
    log_odds : ndarray, N×T
        ψ = X W at the present weights.
    omega : ndarray, N×T
        ω.
    residuals : ndarray, N×T
        κ − ω ψ: the gradient by ψ at the present weights.
    precisions : ndarray, D+1
        τ, the intercept's last.
    """

    def __init__(self, design, topic_count, dtype):
        self.design, self.precisions = design, None
        shape = design.rows.shape[0], topic_count
        self.log_odds, self.omega, self.residuals, self._image = (np.empty(shape, dtype) for _ in range(4))

    def set_tangent(self, weights, counts, shapes, precisions):
        """Become the function that bounds the negative binomial likelihood and touches it at some weights.

        Parameters
        ----------
        weights : ndarray, (D+1)×T
            W.
        counts : ndarray, N×T
            m.
        shapes : ndarray, T
            r.
        precisions : ndarray, D+1
            τ.
        """
        self.precisions = precisions
        polya_gamma_means(self.design.rows, weights, counts, shapes, self.log_odds, self.omega, self.residuals)

    def set_log_odds(self, weights):
        """Let the log odds be those at other weights, (D+1)×T."""
        sparse.product(self.design.rows, weights, self.log_odds)

    def project(self, direction):
        """Return X D and Ω ∘ X D, both N×T, in the place of what it returned before, and of the residuals.

        Parameters
        ----------
        direction : ndarray, (D+1)×T
            D.
        """
        rows = self.design.rows
        matrix = rows.indptr, rows.indices, rows.data

        def part(start, stop):
            _project(*matrix, direction, self.omega, self._image, self.residuals, start, stop)

        parallel_for(part, rows.shape[0], sparse.row_grain(rows, direction.shape[1]))
        return self._image, self.residuals


def polya_gamma_means(rows, weights, counts, shapes, log_odds, omega, residuals):
    """Fill in ψ, ω and κ − ω ψ, each N×T; see `activations.polya_gamma_row`.

    Parameters
    ----------
    rows : csr_array, N×(D+1)
        X with a last column of ones.
    weights : ndarray, (D+1)×T
        W.
    counts : ndarray, N×T
        m.
    shapes : ndarray, T
        r.
    log_odds, omega, residuals : ndarray, N×T
        Where they go.
    """
    matrix = rows.indptr, rows.indices, rows.data

    def part(start, stop):
        _respond(*matrix, weights, counts, shapes, log_odds, omega, residuals, start, stop)

    parallel_for(part, len(counts), sparse.row_grain(rows, len(shapes)))


@compiled
def _respond(indptr, indices, data, weights, counts, shapes, log_odds, omega, residuals, start, stop):
    for n in range(start, stop):
        sparse.row(indices, data, indptr[n], indptr[n + 1], weights, log_odds[n])
        polya_gamma_row(counts[n], log_odds[n], shapes, omega[n], residuals[n])


def cg_solve(system, weights, steps):
    """Move the weights of all topics by some conjugate gradient steps from where they are; log odds go with them.

    They solve (Xᵀ Ω_t X + Γ⁻¹) w_t = Xᵀ κ_t ([B] (18)), preconditioned by the diagonals of these matrices. No step
    lowers the quadratic function, and only products of X and Xᵀ with matrices of T columns are taken.

    Parameters
    ----------
    system : LeastSquares
        Its log odds are those at the new weights then, and its residuals are gone.
    weights : ndarray, (D+1)×T
        W, changed in place.
    steps : int
    """
    gradient = sparse.product(system.design.columns, system.residuals)
    gradient -= system.precisions[:, None] * weights
    for direction, image, lengths in _directions(system, gradient, steps):
        _go(weights, direction, lengths)
        _go(system.log_odds, image, lengths)


def cg_sample(system, random, steps, right=0):
    """Return a draw from N(S_t⁻¹ b_t, S_t⁻¹), S_t = Xᵀ Ω_t X + Γ⁻¹, for each topic, (D+1)×T.

    It solves S_t w_t = b_t + Xᵀ Ω_t^½ ε + Γ^(−½) ε′ by conjugate gradients: the covariance of what is added to b_t is
    S_t itself. Squares of draws with b = 0 estimate variances of weights without bias.

    Parameters
    ----------
    system : LeastSquares
        Its residuals are gone then.
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
        _go(draw, direction, lengths)
    return draw


def _directions(system, gradient, steps, converged=0):
    """Yield conjugate directions, (D+1)×T, their images under X, N×T, and how far to go, T.

    It ends before `steps` of them where the preconditioned residuals of all topics are at most `converged` times as
    large as they were. The gradient is changed in place.
    """
    precisions = system.precisions[:, None]
    diagonal = sparse.product(system.design.squares, system.omega)
    diagonal += precisions
    scaled = gradient / diagonal
    direction = scaled.copy()
    size = _inner(gradient, scaled)
    enough = converged**2 * size
    for step in range(steps):
        image, weighted = system.project(direction)
        curved = sparse.product(system.design.columns, weighted)
        curved += precisions * direction
        curvature = _inner(direction, curved)
        # Where it has converged there is nothing left to go.
        lengths = np.divide(size, curvature, out=np.zeros_like(size), where=curvature > 0).astype(gradient.dtype)
        yield direction, image, lengths
        if step + 1 == steps:
            return
        _go(gradient, curved, -lengths)
        np.divide(gradient, diagonal, out=scaled)
        before, size = size, _inner(gradient, scaled)
        if (size <= enough).all():
            return
        direction *= np.divide(size, before, out=np.zeros_like(size), where=before > 0).astype(gradient.dtype)
        direction += scaled


@compiled
def _project(indptr, indices, data, direction, omega, image, weighted, start, stop):
    for n in range(start, stop):
        sparse.row(indices, data, indptr[n], indptr[n + 1], direction, image[n])
        own, weights, product = image[n], omega[n], weighted[n]
        for t in range(len(own)):
            product[t] = weights[t] * own[t]


def _go(values, direction, lengths):
    """Add to each column of values its multiple of the direction's, in place."""
    parallel_for(
        lambda start, stop: _go_rows(values, direction, lengths, start, stop), len(values), GRAIN // len(lengths)
    )


@compiled
def _go_rows(values, direction, lengths, start, stop):
    for i in range(start, stop):
        for t in range(len(lengths)):
            values[i, t] += lengths[t] * direction[i, t]


def _inner(left, right):
    """Return the inner products of columns, T, in double precision as far as sums go."""
    return sum(np.einsum("dt,dt->t", left[rows], right[rows]).astype(np.float64) for rows in _blocks(len(left)))


def _blocks(count):
    """Return slices of rows over which sums lose little in single precision."""
    return [slice(start, start + BLOCK) for start in range(0, count, BLOCK)]


def cholesky_solve(system, counts_less_shapes, weights, random=None):
    """Fill in the weights that maximise the quadratic function, or a draw from the Gaussian that it is the exponent of.

    w_t = S_t⁻¹ Xᵀ κ_t with S_t = Xᵀ Ω_t X + Γ⁻¹; the draw adds L_t⁻ᵀ ε with S_t = L_t L_tᵀ ([B] (15)). Each S_t is a
    dense matrix of (D+1)² numbers, of which there is one for each core at a time.

    Parameters
    ----------
    system : LeastSquares
        Its log odds and residuals are not needed.
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

    T = right.shape[1]
    together = core_count() * max(1, TOGETHER // len(weights) ** 2)
    for start in range(0, T, together):
        run_parallel([lambda t=t: topic(t) for t in range(start, min(start + together, T))])


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
    squares = np.einsum("dt,dt->d", weights, weights).astype(np.float64)
    precisions = precisions.astype(np.float64)
    return float(0.5 * (weights.shape[1] * np.log(precisions).sum() - precisions @ squares))
