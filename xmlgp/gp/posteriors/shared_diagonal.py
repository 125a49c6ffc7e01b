"""The diagonal posterior with one Σ for all latent functions: one Cholesky factorisation a step."""

import numpy as np

from xmlgp.gp.inner_products import Products
from xmlgp.gp.log_parameters import exponential, log_within_limit, slope
from xmlgp.gp.posteriors.moments import Moments
from xmlgp.linear_algebra import dense
from xmlgp.linear_algebra.cholesky import factorise
from xmlgp.linear_algebra.dense import GRAIN
from xmlgp.runtime.threads import parallel_for, run_parallel, split_range

__all__ = ["DIAGONAL_FLOOR", "SharedDiagonal"]

#: Least value of the diagonal of Σ, for numerical stability ([S] section 2.3).
DIAGONAL_FLOOR = 1e-6

#: What a diagonal is called in messages.
DIAGONAL = "the diagonal of Σ"


class SharedDiagonal:
    """q(u_p) = N(K_Z μ_p, (K_Z⁻¹ + Σ⁻¹)⁻¹) with a diagonal Σ that all p share.

    With C = K_Z + Σ: m_i = k(x_i, Z) μ_p; s_i = k(x_i, x_i) − k(x_i, Z) C⁻¹ k(Z, x_i);
    KL_p = ½ μ_pᵀ K_Z μ_p − ½ (M − Σ_j σ_j (C⁻¹)_jj) + ½ log|C| − ½ log|Σ|.

    Parameters in the flat mapping: `posterior.mean`, μ, M×P; `posterior.log_diagonal`, the logarithm of the
    diagonal of Σ less `DIAGONAL_FLOOR`, M. Source: [S] (8), (10), (22), with Σ shared.
    """

    name = "shared-diagonal"
    #: Of the parameters.
    names = ("posterior.mean", "posterior.log_diagonal")
    #: Whether `prepare` keeps all cores busy by itself.
    shares_out = False

    def initial(self, inducing_count, factor_count, diagonal, random, dtype):
        """Return parameters to start from.

        Parameters
        ----------
        inducing_count, factor_count : int
            M and P.
        diagonal : float
            Start of every diagonal element of Σ.
        random : numpy.random.Generator
            Of μ.
        dtype : dtype
            Of the arrays.

        Raises
        ------
        NumericalError
            For a diagonal beyond the limit of `xmlgp.gp.log_parameters`.
        """
        return {
            "posterior.mean": initial_mean(inducing_count, factor_count, random, dtype),
            "posterior.log_diagonal": np.full(inducing_count, log_within_limit(diagonal, DIAGONAL), dtype),
        }

    def prepare(self, parameters, covariance):
        """Return what the moments at any points need of the parameters and K_Z, M×M."""
        diagonal = floored_diagonal(parameters)
        return parameters["posterior.mean"], diagonal, inflated(covariance, diagonal, "K_Z + Σ")

    def weights(self, prepared):
        """Return what K_BZ is multiplied by for the means, M×P: μ."""
        return prepared[0]

    def mean_of(self, weights, covariance):
        """Return the mean parameter, M×P, with which means are K_BZ times `weights`, given K_Z: μ."""
        return weights

    def moments(self, prepared, cross, points):
        """Return the moments (`Moments`) at points, given K_BZ, B×M, and diag K_B, and K_BZ C⁻¹."""
        mean, _, total = prepared
        moments = Moments(np.empty((len(points), mean.shape[1]), mean.dtype), np.empty((len(points), 1), mean.dtype))
        projected = np.empty_like(cross)

        def part(i, j):
            np.matmul(cross[i:j], mean, out=moments.mean[i:j])
            np.matmul(cross[i:j], total.inverse, out=projected[i:j])
            explained = np.einsum("bm,bm->b", projected[i:j], cross[i:j])
            np.subtract(points[i:j], explained, out=moments.variance[i:j, 0])

        parallel_for(part, len(points), GRAIN // total.inverse.size)
        return moments, projected

    def forward(self, parameters, covariances, prepared=None):
        """Return the moments (`Moments`), the sum of the KL divergences and the tape.

        Parameters
        ----------
        parameters : mapping of str to ndarray
        covariances : Products
        prepared : tuple, optional
            What `prepare` returned for these parameters and K_Z.
        """
        prepared = prepared or self.prepare(parameters, covariances.inducing)
        mean, diagonal, total = prepared
        moments, projected = self.moments(prepared, covariances.cross, covariances.points)
        prior_mean = dense.product(covariances.inducing, mean)
        trace = np.vdot(diagonal, np.diagonal(total.inverse))
        kl = 0.5 * np.vdot(mean, prior_mean) + 0.5 * mean.shape[1] * (
            trace - len(diagonal) + total.log_determinant - np.log(diagonal).sum()
        )
        return moments, kl, (mean, diagonal, covariances, total.inverse, projected, prior_mean)

    def backward(self, tape, d_moments, d_kl):
        """Return the gradients of the covariances (`Products`) and of the parameters (mapping).

        Those of the variances are zero or below, as they are of every likelihood that is log-concave.
        """
        mean, diagonal, covariances, inverse, projected, prior_mean = tape
        d_variance = d_moments.variance[:, 0]
        root = np.sqrt(-np.minimum(d_variance, 0))
        d_cross, rooted = np.empty_like(projected), np.empty_like(projected)
        d_mean = np.empty_like(mean)

        def part(i, j):
            np.matmul(d_moments.mean[i:j], mean.T, out=d_cross[i:j])
            np.multiply(projected[i:j], -2 * d_variance[i:j, None], out=rooted[i:j])
            d_cross[i:j] += rooted[i:j]
            np.multiply(projected[i:j], root[i:j, None], out=rooted[i:j])

        def part_of_mean(i, j):
            np.matmul(covariances.cross[:, i:j].T, d_moments.mean, out=d_mean[i:j])

        grain = GRAIN // max(1, mean.size)
        run_parallel([*split_range(part, len(projected), grain), *split_range(part_of_mean, len(mean), grain)])
        d_mean += d_kl * prior_mean
        # By C: the variances give Σ_i ds_i v_i v_iᵀ, the KL divergences ½ P (C⁻¹ − C⁻¹ Σ C⁻¹).
        half = 0.5 * d_kl * mean.shape[1]
        d_total, from_kl = dense.gram(rooted, np.sqrt(diagonal)[:, None] * inverse)
        from_kl -= inverse
        from_kl *= -half
        np.subtract(from_kl, d_total, out=d_total)
        d_diagonal = np.diagonal(d_total) - half / diagonal + half * np.diagonal(inverse)
        d_inducing = dense.product(0.5 * d_kl * mean, mean.T)
        d_inducing += d_total
        gradients = {"posterior.mean": d_mean, "posterior.log_diagonal": d_diagonal * slope(diagonal - DIAGONAL_FLOOR)}
        return Products(d_cross, d_inducing, d_variance), gradients

    def precondition(self, tape, gradients):
        """Replace the gradient of μ by C⁻¹ times it: a direction that K_Z's largest eigenvalues do not rule.

        The natural gradient is (K_Z⁻¹ − C⁻¹) times the gradient. C⁻¹ has the same effect on large eigenvalues, is
        at hand, and exists where K_Z is singular.
        """
        inverse = tape[3]
        return gradients | {"posterior.mean": dense.product(inverse, gradients["posterior.mean"])}


def initial_mean(inducing_count, factor_count, random, dtype):
    """Return a small random start for means, M×P: at zero the loadings would have no gradient."""
    return random.normal(0, 0.01, (inducing_count, factor_count)).astype(dtype)


def floored_diagonal(parameters):
    """Return the diagonal of Σ (M) or of each Σ_p (P×M): exp of the parameter, and `DIAGONAL_FLOOR`."""
    diagonal = exponential(parameters["posterior.log_diagonal"])
    diagonal += DIAGONAL_FLOOR
    return diagonal


def inflated(covariance, diagonal, name):
    """Return C = K_Z + Σ, factorised; `name` is for the message where that fails."""
    total = covariance.copy()
    total[np.diag_indices_from(total)] += diagonal
    return factorise(total, name)
