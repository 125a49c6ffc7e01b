"""The diagonal posterior with one Σ for all latent functions: one Cholesky factorisation per step."""

import numpy as np

from xmlgp.gp.divergences import shared_diagonal_kl
from xmlgp.gp.inner_products import Covariances
from xmlgp.gp.log_parameters import bounded_exp, bounded_exp_derivative, checked_log
from xmlgp.gp.posteriors.moments import Moments
from xmlgp.linear_algebra import dense
from xmlgp.linear_algebra.cholesky import factorise
from xmlgp.linear_algebra.dense import GRAIN
from xmlgp.runtime.threads import parallel_for, run_parallel, split_range

__all__ = ["DIAGONAL_FLOOR", "SharedDiagonal"]

#: Least value of the diagonal of Σ, for numerical stability ([S] section 2.3).
DIAGONAL_FLOOR = 1e-6

#: Name of the initial diagonal in error messages.
DIAGONAL_NAME = "the diagonal of Σ"

#: Standard deviation of the initial means. At zero the loadings would have no gradient.
INITIAL_MEAN_STD = 0.01


class SharedDiagonal:
    """q(u_p) = N(K_Z μ_p, (K_Z⁻¹ + Σ⁻¹)⁻¹) with a diagonal Σ that all p share.

    With C = K_Z + Σ: m_ip = k(x_i, Z) μ_p; s_i = k(x_i, x_i) − k(x_i, Z) C⁻¹ k(Z, x_i); the divergence is that of
    `shared_diagonal_kl`.

    Parameters in the flat mapping: `posterior.mean`, μ, M×P; `posterior.log_diagonal`, the logarithm of the diagonal of
    Σ less `DIAGONAL_FLOOR`, M. Source: [S] (8), (10), (22), with a shared Σ.
    """

    name = "shared-diagonal"
    parameter_names = ("posterior.mean", "posterior.log_diagonal")
    #: Whether `prepare` uses all cores.
    prepare_is_parallel = False

    def initial(self, inducing_count, factor_count, diagonal, random, dtype):
        """Return initial parameters by name.

        Parameters
        ----------
        inducing_count, factor_count : int
            M and P.
        diagonal : float
            Initial value of every diagonal element of Σ.
        random : numpy.random.Generator
            For the means.
        dtype : dtype
            Of the arrays.

        Raises
        ------
        NumericalError
            If the diagonal is outside the limits of `xmlgp.gp.log_parameters`.
        """
        return {
            "posterior.mean": initial_mean(inducing_count, factor_count, random, dtype),
            "posterior.log_diagonal": np.full(inducing_count, checked_log(diagonal, DIAGONAL_NAME), dtype),
        }

    def prepare(self, parameters, K_Z):
        """Return the quantities that moments at any points need: μ, diag Σ and the factorised C.

        Parameters
        ----------
        parameters : mapping of str to ndarray
        K_Z : ndarray, M×M

        Raises
        ------
        NumericalError
            If C cannot be factorised.
        """
        diagonal = sigma_diagonal(parameters)
        return parameters["posterior.mean"], diagonal, factorise_sum(K_Z, diagonal, "K_Z + Σ")

    def alpha(self, prepared):
        """Return α, M×P, with which the mean at points is K_BZ α: μ."""
        return prepared[0]

    def mean_from_alpha(self, alpha, K_Z):
        """Return the `posterior.mean`, M×P, that has the given α: μ = α."""
        return alpha

    def moments(self, prepared, K_BZ, K_diag):
        """Return the moments at points and K_BZ C⁻¹, B×M.

        Parameters
        ----------
        prepared : tuple
            From `prepare`.
        K_BZ : ndarray, B×M
        K_diag : ndarray, B
        """
        mean, _, C = prepared
        moments = Moments(np.empty((len(K_diag), mean.shape[1]), mean.dtype), np.empty((len(K_diag), 1), mean.dtype))
        projected = np.empty_like(K_BZ)

        def fill(i, j):
            np.matmul(K_BZ[i:j], mean, out=moments.mean[i:j])
            np.matmul(K_BZ[i:j], C.inverse, out=projected[i:j])
            explained = np.einsum("bm,bm->b", projected[i:j], K_BZ[i:j])
            np.subtract(K_diag[i:j], explained, out=moments.variance[i:j, 0])

        parallel_for(fill, len(K_diag), GRAIN // C.inverse.size)
        return moments, projected

    def forward(self, parameters, covariances, prepared=None):
        """Return the moments at the points of a minibatch, the sum of the KL divergences, and the tape.

        Parameters
        ----------
        parameters : mapping of str to ndarray
        covariances : Covariances
        prepared : tuple, optional
            The result of `prepare` for these parameters and K_Z.

        Returns
        -------
        moments : Moments
        kl : float
        tape : tuple
        """
        prepared = prepared or self.prepare(parameters, covariances.K_Z)
        mean, diagonal, C = prepared
        moments, projected = self.moments(prepared, covariances.K_BZ, covariances.K_diag)
        K_mean = dense.product(covariances.K_Z, mean)
        kl = shared_diagonal_kl(mean, K_mean, diagonal, C)
        return moments, kl, (mean, diagonal, covariances, C.inverse, projected, K_mean)

    def backward(self, tape, d_moments, d_kl):
        """Return the gradients with respect to the covariances and the parameters.

        Parameters
        ----------
        tape : tuple
        d_moments : Moments
            The gradients with respect to the variances must not be positive; those of a log-concave likelihood are not.
        d_kl : float

        Returns
        -------
        d_covariances : Covariances
        gradients : dict of str to ndarray
        """
        mean, diagonal, covariances, inverse, projected, K_mean = tape
        d_variance = d_moments.variance[:, 0]
        root = np.sqrt(-np.minimum(d_variance, 0))
        d_K_BZ, scaled = np.empty_like(projected), np.empty_like(projected)
        d_mean = np.empty_like(mean)

        def by_points(i, j):
            np.matmul(d_moments.mean[i:j], mean.T, out=d_K_BZ[i:j])
            np.multiply(projected[i:j], -2 * d_variance[i:j, None], out=scaled[i:j])
            d_K_BZ[i:j] += scaled[i:j]
            np.multiply(projected[i:j], root[i:j, None], out=scaled[i:j])

        def by_mean(i, j):
            np.matmul(covariances.K_BZ[:, i:j].T, d_moments.mean, out=d_mean[i:j])

        grain = GRAIN // max(1, mean.size)
        run_parallel([*split_range(by_points, len(projected), grain), *split_range(by_mean, len(mean), grain)])
        d_mean += d_kl * K_mean
        # The gradient with respect to C is Σ_i ds_i v_i v_iᵀ from the variances, and ½ P (C⁻¹ − C⁻¹ Σ C⁻¹) from the
        # divergences.
        half = 0.5 * d_kl * mean.shape[1]
        d_C, from_kl = dense.gram(scaled, np.sqrt(diagonal)[:, None] * inverse)
        from_kl -= inverse
        from_kl *= -half
        np.subtract(from_kl, d_C, out=d_C)
        d_diagonal = np.diagonal(d_C) - half / diagonal + half * np.diagonal(inverse)
        d_K_Z = dense.product(0.5 * d_kl * mean, mean.T)
        d_K_Z += d_C
        gradients = {
            "posterior.mean": d_mean,
            "posterior.log_diagonal": d_diagonal * bounded_exp_derivative(diagonal - DIAGONAL_FLOOR),
        }
        return Covariances(d_K_BZ, d_K_Z, d_variance), gradients

    def precondition(self, tape, gradients):
        """Multiply the gradient with respect to μ by C⁻¹, so that the largest eigenvalues of K_Z do not dominate it.

        The natural gradient is (K_Z⁻¹ − C⁻¹) times the gradient. C⁻¹ has the same effect on large eigenvalues, is
        already computed, and exists for singular K_Z.
        """
        inverse = tape[3]
        return gradients | {"posterior.mean": dense.product(inverse, gradients["posterior.mean"])}


def initial_mean(inducing_count, factor_count, random, dtype):
    """Return small random means, M×P."""
    return random.normal(0, INITIAL_MEAN_STD, (inducing_count, factor_count)).astype(dtype)


def sigma_diagonal(parameters):
    """Return the diagonal of Σ, M, or of each Σ_p, P×M: exp(log_diagonal) + `DIAGONAL_FLOOR`."""
    diagonal = bounded_exp(parameters["posterior.log_diagonal"])
    diagonal += DIAGONAL_FLOOR
    return diagonal


def factorise_sum(K_Z, diagonal, name):
    """Return C = K_Z + diag(diagonal), factorised; `name` is that of C in the error message."""
    total = K_Z.copy()
    total[np.diag_indices_from(total)] += diagonal
    return factorise(total, name)
