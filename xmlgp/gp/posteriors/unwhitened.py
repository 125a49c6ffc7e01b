"""The full posterior of [L] section 4.1 in the parameters of the paper, which are not whitened."""

from functools import partial
from operator import itemgetter

import numpy as np

from xmlgp.gp.divergences import cholesky_kl
from xmlgp.gp.inner_products import Covariances
from xmlgp.gp.log_parameters import bounded_exp, checked_log, is_inside
from xmlgp.gp.posteriors.jitter import add_jitter, jitter_backward
from xmlgp.gp.posteriors.moments import Moments
from xmlgp.gp.posteriors.shared_diagonal import DIAGONAL_NAME, initial_mean
from xmlgp.linear_algebra.cholesky import factorise
from xmlgp.runtime.threads import parallel_for, run_parallel

__all__ = ["Unwhitened"]


class Unwhitened:
    """q(u_p) = N(m_p, L_p L_pᵀ) with a lower triangular L_p for each p.

    GPC uses it, whose K_Z has noise on its diagonal, and MLGPF for models that were trained before `Cholesky` was
    whitened. Where K_Z is nearly singular, gradients with the factor K_Z⁻¹ make training diverge.

    With Q = K_BZ K_Z⁻¹: m_ip = (Q m_p)_i; s_ip = k(x_i, x_i) − (Q K_ZB)_ii + Σ_j (Q L_p)_ij²; the divergence is that of
    `cholesky_kl`. K_Z has jitter on its diagonal.

    Parameters in the flat mapping: `posterior.mean`, m, M×P; `posterior.factor`, P×M×M, the lower triangles of L_p with
    the logarithms of their diagonals. Source: [L] (9), (10), (13). The methods are those of `SharedDiagonal`.
    """

    name = "unwhitened"
    parameter_names = ("posterior.mean", "posterior.factor")
    #: Whether `prepare` uses all cores.
    prepare_is_parallel = False

    def initial(self, inducing_count, factor_count, diagonal, random, dtype):
        """Return initial parameters by name, with L_p = √diagonal I; see `SharedDiagonal.initial`."""
        factor = np.zeros((factor_count, inducing_count, inducing_count), dtype)
        factor[:, range(inducing_count), range(inducing_count)] = 0.5 * checked_log(diagonal, DIAGONAL_NAME)
        return {"posterior.mean": initial_mean(inducing_count, factor_count, random, dtype), "posterior.factor": factor}

    def prepare(self, parameters, K_Z):
        """Return the quantities that moments at any points need: m, each L_p and the factorised K_Z."""
        return parameters["posterior.mean"], _lower_factors(parameters["posterior.factor"]), _factorise_prior(K_Z)

    def alpha(self, prepared):
        """Return α, M×P, with which the mean at points is K_BZ α: K_Z⁻¹ m."""
        mean, _, prior = prepared
        return prior.inverse @ mean

    def mean_from_alpha(self, alpha, K_Z):
        """Return the `posterior.mean`, M×P, that has the given α: m = K_Z α."""
        return add_jitter(K_Z) @ alpha

    def moments(self, prepared, K_BZ, K_diag):
        """Return the moments at points, and Q and each Q L_p; see `SharedDiagonal.moments`."""
        mean, factors, prior = prepared
        projected = K_BZ @ prior.inverse
        conditional = K_diag - np.einsum("bm,bm->b", projected, K_BZ)
        variance = np.empty((len(K_diag), len(factors)), mean.dtype)
        projected_factors = [None] * len(factors)

        def project(p):
            projected_factors[p] = projected_factor = projected @ factors[p]
            variance[:, p] = conditional + np.einsum("bm,bm->b", projected_factor, projected_factor)

        run_parallel(partial(project, p) for p in range(len(factors)))
        return Moments(projected @ mean, variance), (projected, projected_factors)

    def forward(self, parameters, covariances, prepared=None):
        """Return the moments, the sum of the KL divergences, and the tape; see `SharedDiagonal.forward`."""
        prepared = prepared or self.prepare(parameters, covariances.K_Z)
        mean, factors, prior = prepared
        moments, (projected, projected_factors) = self.moments(prepared, covariances.K_BZ, covariances.K_diag)
        solved_mean = prior.inverse @ mean
        solved_factors = [None] * len(factors)

        def solve(p):
            solved_factors[p] = prior.inverse @ factors[p]

        run_parallel(partial(solve, p) for p in range(len(factors)))
        kl = cholesky_kl(mean, factors, solved_mean, solved_factors, prior.log_determinant)
        tape = (mean, factors, covariances, prior.inverse, projected, projected_factors, solved_mean, solved_factors)
        return moments, kl, tape

    def backward(self, tape, d_moments, d_kl):
        """Return the gradients with respect to the covariances and the parameters; see `SharedDiagonal.backward`."""
        mean, factors, covariances, inverse, projected, projected_factors, solved_mean, solved_factors = tape
        d_K_diag = d_moments.variance.sum(axis=1)
        d_K_BZ = -d_K_diag[:, None] * projected
        d_projected = d_moments.mean @ mean.T - d_K_diag[:, None] * covariances.K_BZ
        d_factors = np.empty_like(factors)
        # K_Z⁻¹ (Σ_p m_p m_pᵀ + L_p L_pᵀ) K_Z⁻¹, for the gradient of the divergences with respect to K_Z.
        second_moment = solved_mean @ solved_mean.T
        sums = []

        def add_factors(first, last):
            projected_sum, moment_sum = np.zeros_like(d_projected), np.zeros_like(second_moment)
            for p in range(first, last):
                d_projected_factor = 2 * d_moments.variance[:, p, None] * projected_factors[p]
                projected_sum += d_projected_factor @ factors[p].T
                d_factors[p] = projected.T @ d_projected_factor + d_kl * solved_factors[p]
                moment_sum += solved_factors[p] @ solved_factors[p].T
            sums.append((first, projected_sum, moment_sum))

        parallel_for(add_factors, len(factors), 1)
        # Sorted, so that the result does not depend on which thread was faster.
        for _, projected_sum, moment_sum in sorted(sums, key=itemgetter(0)):
            d_projected += projected_sum
            second_moment += moment_sum
        # The diagonals are parametrised by logarithms: d log L = L dL, and −log L is itself a term of the divergence.
        index = range(len(inverse))
        diagonals = factors[:, index, index]
        d_factors[:, index, index] = (d_factors[:, index, index] * diagonals - d_kl) * is_inside(diagonals)
        d_projected_prior = d_projected @ inverse
        d_K_BZ += d_projected_prior
        d_K_Z = -projected.T @ d_projected_prior
        d_K_Z += 0.5 * d_kl * (len(factors) * inverse - second_moment)
        jitter_backward(d_K_Z)
        gradients = {
            "posterior.mean": projected.T @ d_moments.mean + d_kl * solved_mean,
            "posterior.factor": np.tril(d_factors),
        }
        return Covariances(d_K_BZ, d_K_Z, d_K_diag), gradients

    def precondition(self, tape, gradients):
        """Multiply the gradient with respect to the means by K_Z: the natural gradient if q(u) is the prior."""
        covariances = tape[2]
        return gradients | {"posterior.mean": covariances.K_Z @ gradients["posterior.mean"]}

    def parameters_of_prior(self, K_Z, factor_count):
        """Return the parameters for which each q(u_p) is the prior, by name.

        Parameters
        ----------
        K_Z : ndarray, M×M
        factor_count : int
            P.
        """
        factor = _factorise_prior(K_Z).factor
        np.fill_diagonal(factor, np.log(np.diagonal(factor)))
        mean = np.zeros((len(K_Z), factor_count), K_Z.dtype)
        return {"posterior.mean": mean, "posterior.factor": np.tile(factor, (factor_count, 1, 1))}


def _factorise_prior(K_Z):
    return factorise(add_jitter(K_Z), "K_Z")


def _lower_factors(raw):
    """Return each L_p, P×M×M, of the parameters `posterior.factor`."""
    factors = np.tril(raw)
    index = range(raw.shape[1])
    factors[:, index, index] = bounded_exp(raw[:, index, index])
    return factors
