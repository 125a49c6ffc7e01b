"""The full posterior of [L] section 4.1: a mean and a Cholesky factor for each latent function."""

from functools import partial
from operator import itemgetter

import numpy as np

from xmlgp.gp.divergence import divergence_from_prior
from xmlgp.gp.inner_products import Products
from xmlgp.gp.log_parameters import exponential, log_within_limit, within
from xmlgp.gp.posteriors.moments import Moments
from xmlgp.gp.posteriors.shared_diagonal import DIAGONAL, floored_diagonal, initial_mean
from xmlgp.linear_algebra.cholesky import factorise
from xmlgp.runtime.threads import parallel_for, run_parallel

__all__ = ["JITTER", "Cholesky", "jitter_backward", "jittered"]

#: Added to the diagonal of K_Z, as a multiple of its mean, so that its inverse exists in single precision.
JITTER = {np.dtype(np.float32): 1e-4, np.dtype(np.float64): 1e-8}


class Cholesky:
    """q(u_p) = N(m_p, L_p L_pᵀ) with a lower triangular L_p for each p.

    With Q = K_BZ K_Z⁻¹: mean Q m_p; variance k(x_i, x_i) − (Q K_ZB)_ii + Σ_j (Q L_p)_ij²;
    KL_p = ½ [m_pᵀ K_Z⁻¹ m_p + tr(K_Z⁻¹ L_p L_pᵀ) + log|K_Z| − log|L_p L_pᵀ| − M].

    Parameters in the flat mapping: `posterior.mean`, m, M×P; `posterior.factor`, P×M×M, the lower triangles
    of L_p with the logarithms of their diagonals. Source: [L] (9), (10), (13).
    """

    name = "cholesky"
    #: Of the parameters.
    names = ("posterior.mean", "posterior.factor")
    #: Whether `prepare` keeps all cores busy by itself.
    shares_out = False

    def initial(self, inducing_count, factor_count, diagonal, random, dtype):
        """Return parameters to start from: L_p = √diagonal I, see `SharedDiagonal.initial`."""
        factor = np.zeros((factor_count, inducing_count, inducing_count), dtype)
        factor[:, range(inducing_count), range(inducing_count)] = 0.5 * log_within_limit(diagonal, DIAGONAL)
        return {
            "posterior.mean": initial_mean(inducing_count, factor_count, random, dtype),
            "posterior.factor": factor,
        }

    def prepare(self, parameters, covariance):
        """Return what the moments at any points need of the parameters and K_Z, M×M."""
        return parameters["posterior.mean"], _lower(parameters["posterior.factor"]), _factorised_prior(covariance)

    def weights(self, prepared):
        """Return what K_BZ is multiplied by for the means, M×P: K_Z⁻¹ m."""
        mean, _, prior = prepared
        return prior.inverse @ mean

    def mean_of(self, weights, covariance):
        """Return the mean parameter, M×P, with which means are K_BZ times `weights`, given K_Z: m."""
        return jittered(covariance) @ weights

    def moments(self, prepared, cross, points):
        """Return the moments (`Moments`) at points, given K_BZ, B×M, and diag K_B; Q; and each Q L_p."""
        mean, factors, prior = prepared
        projected = cross @ prior.inverse
        unexplained = points - np.einsum("bm,bm->b", projected, cross)
        variance = np.empty((len(points), len(factors)), mean.dtype)
        half_projections = [None] * len(factors)

        def project(p):
            half_projections[p] = half = projected @ factors[p]
            variance[:, p] = unexplained + np.einsum("bm,bm->b", half, half)

        run_parallel(partial(project, p) for p in range(len(factors)))
        return Moments(projected @ mean, variance), (projected, half_projections)

    def forward(self, parameters, covariances, prepared=None):
        """Return the moments (`Moments`), the sum of the KL divergences and the tape; see `SharedDiagonal`."""
        prepared = prepared or self.prepare(parameters, covariances.inducing)
        mean, factors, prior = prepared
        moments, (projected, half_projections) = self.moments(prepared, covariances.cross, covariances.points)
        inducing_count, factor_count = mean.shape
        whitened_mean = prior.inverse @ mean
        whitened_factors = [None] * len(factors)

        def whiten(p):
            whitened_factors[p] = prior.inverse @ factors[p]

        run_parallel(partial(whiten, p) for p in range(len(factors)))
        trace, log_determinants = 0.0, 0.0
        for factor, whitened in zip(factors, whitened_factors, strict=True):
            trace += np.vdot(factor, whitened)
            log_determinants += 2 * np.log(np.diagonal(factor)).sum()
        kl = divergence_from_prior(
            np.vdot(mean, whitened_mean),
            trace,
            factor_count * prior.log_determinant - log_determinants,
            factor_count * inducing_count,
        )
        tape = (mean, factors, covariances, prior.inverse, projected, half_projections, whitened_mean, whitened_factors)
        return moments, kl, tape

    def backward(self, tape, d_moments, d_kl):
        """Return the gradients of the covariances (`Products`) and of the parameters (mapping)."""
        mean, factors, covariances, inverse, projected, half_projections, whitened_mean, whitened_factors = tape
        d_points = d_moments.variance.sum(axis=1)
        d_cross = -d_points[:, None] * projected
        d_projected = d_moments.mean @ mean.T - d_points[:, None] * covariances.cross
        d_factors = np.empty_like(factors)
        # K_Z⁻¹ (Σ_p m_p m_pᵀ + L_p L_pᵀ) K_Z⁻¹, for the derivative of the KL divergences by K_Z.
        second_moment = whitened_mean @ whitened_mean.T
        sums = []

        def some(first, last):
            projected_sum, moment_sum = np.zeros_like(d_projected), np.zeros_like(second_moment)
            for p in range(first, last):
                d_half = 2 * d_moments.variance[:, p, None] * half_projections[p]
                projected_sum += d_half @ factors[p].T
                d_factors[p] = projected.T @ d_half + d_kl * whitened_factors[p]
                moment_sum += whitened_factors[p] @ whitened_factors[p].T
            sums.append((first, projected_sum, moment_sum))

        parallel_for(some, len(factors), 1)
        # In an order that does not depend on which thread was faster.
        for _, projected_sum, moment_sum in sorted(sums, key=itemgetter(0)):
            d_projected += projected_sum
            second_moment += moment_sum
        # The diagonals are logarithms: d log L = L dL, and the KL divergence holds −log L itself.
        index = range(len(inverse))
        diagonals = factors[:, index, index]
        d_factors[:, index, index] = (d_factors[:, index, index] * diagonals - d_kl) * within(diagonals)
        d_projected_prior = d_projected @ inverse
        d_cross += d_projected_prior
        d_inducing = -projected.T @ d_projected_prior
        d_inducing += 0.5 * d_kl * (len(factors) * inverse - second_moment)
        jitter_backward(d_inducing)
        gradients = {
            "posterior.mean": projected.T @ d_moments.mean + d_kl * whitened_mean,
            "posterior.factor": np.tril(d_factors),
        }
        return Products(d_cross, d_inducing, d_points), gradients

    def precondition(self, tape, gradients):
        """Replace the gradient of the means by K_Z times it: the natural gradient where q(u) is the prior."""
        covariances = tape[2]
        return gradients | {"posterior.mean": covariances.inducing @ gradients["posterior.mean"]}

    def equal_to_prior(self, covariance, factor_count):
        """Return the parameters whose q(u_p) is the prior, given K_Z, M×M."""
        factor = _factorised_prior(covariance).factor
        np.fill_diagonal(factor, np.log(np.diagonal(factor)))
        mean = np.zeros((len(covariance), factor_count), covariance.dtype)
        return {"posterior.mean": mean, "posterior.factor": np.tile(factor, (factor_count, 1, 1))}

    def equal_to_diagonal(self, parameters, covariance):
        """Return the parameters whose q(u_p) equals that of the diagonal posterior.

        Parameters
        ----------
        parameters : mapping
            `posterior.mean` and `posterior.log_diagonal` of `Diagonal` or `SharedDiagonal`.
        covariance : ndarray, M×M
            K_Z.
        """
        mean = parameters["posterior.mean"]
        diagonals = np.broadcast_to(floored_diagonal(parameters), mean.T.shape)
        covariance = jittered(covariance)
        factors = np.empty((mean.shape[1], *covariance.shape), mean.dtype)
        for factor, diagonal in zip(factors, diagonals, strict=True):
            total = factorise(covariance + np.diag(diagonal), "K_Z + Σ")
            posterior = covariance - covariance @ total.inverse @ covariance
            factor[:] = factorise((posterior + posterior.T) / 2, "the covariance of q(u)").factor
            np.fill_diagonal(factor, np.log(np.diagonal(factor)))
        return {"posterior.mean": covariance @ mean, "posterior.factor": factors}


def _jitter(matrix):
    return matrix.dtype.type(JITTER[matrix.dtype])


def jittered(covariance):
    """Return K_Z with its `JITTER` on the diagonal.

    Parameters
    ----------
    covariance : ndarray, M×M
        K_Z.
    """
    total = covariance.copy()
    # Inducing inputs without features have no covariance; their mean diagonal counts as one.
    scale = np.trace(covariance) / len(covariance) or covariance.dtype.type(1)
    total[np.diag_indices_from(total)] += _jitter(covariance) * scale
    return total


def jitter_backward(d_jittered):
    """Turn the gradient of K_Z with its jitter, a multiple of its trace, into that of K_Z, M×M, in place."""
    d_jittered[np.diag_indices_from(d_jittered)] += _jitter(d_jittered) * np.trace(d_jittered) / len(d_jittered)


def _factorised_prior(covariance):
    return factorise(jittered(covariance), "K_Z")


def _lower(raw):
    factors = np.tril(raw)
    index = range(raw.shape[1])
    factors[:, index, index] = exponential(raw[:, index, index])
    return factors
