"""q(u) of GPC: the full posterior of [L] section 4.1 for one latent function, in the parameters of the paper."""

import numpy as np

from xmlgp.gp.divergences import gauss_kl
from xmlgp.gp.inner_products import Covariances
from xmlgp.gp.likelihood import Moments
from xmlgp.gp.log_parameters import bounded_exp, is_inside
from xmlgp.linear_algebra.cholesky import add_jitter, factorise, jitter_backward

__all__ = ["FullPosterior"]


class FullPosterior:
    """q(u) = N(m, L Lᵀ) with a lower triangular L, M×M; its methods are described in `xmlgp.gp.posteriors`.

    With Q = K_BZ K_Z⁻¹: m_i = (Q m)_i; s_i = k(x_i, x_i) − (Q K_ZB)_ii + Σ_j (Q L)_ij². K_Z has jitter on its diagonal,
    and the noise of GPC, without which gradients with the factor K_Z⁻¹ would make training diverge.

    Parameters in the flat mapping: `posterior.mean`, m, M×1; `posterior.factor`, 1×M×M, the lower triangle of L with
    the logarithms of its diagonal. Source: [L] (9), (10), (13).
    """

    parameter_names = ("posterior.mean", "posterior.factor")
    prepare_is_parallel = False

    def parameters_of_prior(self, K_Z):
        """Return the parameters for which q(u) is the prior, by name."""
        factor = factorise(add_jitter(K_Z), "K_Z").factor
        np.fill_diagonal(factor, np.log(np.diagonal(factor)))
        return {"posterior.mean": np.zeros((len(K_Z), 1), K_Z.dtype), "posterior.factor": factor[None]}

    def prepare(self, parameters, K_Z):
        """Return m, L and the factorised K_Z."""
        factor = np.tril(parameters["posterior.factor"][0])
        np.fill_diagonal(factor, bounded_exp(np.diagonal(factor)))
        return parameters["posterior.mean"], factor, factorise(add_jitter(K_Z), "K_Z")

    def moments(self, prepared, K_BZ, K_diag):
        """Return the moments at points, and Q and Q L, B×M."""
        mean, factor, prior = prepared
        projected = K_BZ @ prior.inverse
        projected_factor = projected @ factor
        variance = K_diag - np.einsum("bm,bm->b", projected, K_BZ)
        variance += np.einsum("bm,bm->b", projected_factor, projected_factor)
        return Moments(projected @ mean, variance[:, None]), (projected, projected_factor)

    def forward(self, prepared, covariances):
        """Return the moments, the divergence, and the tape."""
        mean, factor, prior = prepared
        moments, projections = self.moments(prepared, covariances.K_BZ, covariances.K_diag)
        solved_mean, solved_factor = prior.inverse @ mean, prior.inverse @ factor
        mahalanobis, trace = np.vdot(mean, solved_mean), np.vdot(factor, solved_factor)
        logdet_S = 2 * np.log(np.diagonal(factor)).sum()
        kl = gauss_kl(mahalanobis, trace, prior.log_determinant - logdet_S, len(mean))
        return moments, kl, (mean, factor, covariances, prior.inverse, *projections, solved_mean, solved_factor)

    def backward(self, tape, d_moments):
        """Return the gradients by covariances and parameters."""
        mean, factor, covariances, inverse, projected, projected_factor, solved_mean, solved_factor = tape
        d_variance = d_moments.variance
        d_projected = d_moments.mean @ mean.T - d_variance * covariances.K_BZ
        d_projected_factor = 2 * d_variance * projected_factor
        d_projected += d_projected_factor @ factor.T
        d_factor = projected.T @ d_projected_factor - solved_factor
        # The diagonal is parametrised by logarithms: d log L = L dL, and −log L is itself a term of the divergence.
        diagonal = np.diagonal(factor)
        np.fill_diagonal(d_factor, (np.diagonal(d_factor) * diagonal + 1) * is_inside(diagonal))
        d_projected_prior = d_projected @ inverse
        d_K_Z = -projected.T @ d_projected_prior
        # K_Z⁻¹ (m mᵀ + L Lᵀ) K_Z⁻¹.
        second_moment = solved_mean @ solved_mean.T + solved_factor @ solved_factor.T
        d_K_Z -= 0.5 * (inverse - second_moment)
        jitter_backward(d_K_Z)
        gradients = {
            "posterior.mean": projected.T @ d_moments.mean - solved_mean,
            "posterior.factor": np.tril(d_factor)[None],
        }
        return Covariances(d_projected_prior - d_variance * projected, d_K_Z, d_variance[:, 0]), gradients
