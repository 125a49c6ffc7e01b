"""The posterior q(u) of GPC, a normal distribution in the parameters of the papers."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from xmlgp.gp.divergences import gauss_kl
from xmlgp.gp.inner_products import Covariances
from xmlgp.gp.likelihood import Moments
from xmlgp.gp.log_parameters import bounded_exp, is_inside
from xmlgp.linear_algebra.cholesky import Factorised, add_jitter, factorise, jitter_backward

__all__ = ["FullPosterior"]


class Prepared(NamedTuple):
    """What the moments at any points need: m (M×1), L (M×M) and the factorised K_Z."""

    mean: NDArray[np.floating]
    factor: NDArray[np.floating]
    prior: Factorised


class Projections(NamedTuple):
    """Q = K_BZ K_Z⁻¹ and Q L, both B×M."""

    points: NDArray[np.floating]
    factor: NDArray[np.floating]


class Tape(NamedTuple):
    """What `FullPosterior.backward` needs: among others K_BZ (B×M), K_Z⁻¹ m (M×1) and K_Z⁻¹ L (M×M)."""

    prepared: Prepared
    projections: Projections
    K_BZ: NDArray[np.floating]
    solved_mean: NDArray[np.floating]
    solved_factor: NDArray[np.floating]


class FullPosterior:
    """q(u) = N(m, L Lᵀ) with a lower triangular L, M×M; its methods are described in `xmlgp.gp.posteriors`.

    It is the full posterior of [L] section 4.1 for one latent function, in the parameters of the paper. `Cholesky` of
    `xmlgp.gp.posteriors` has the same distributions in whitened parameters, in which AdaDelta takes other steps than in
    these. Models of GPC store m and L.

    With Q = K_BZ K_Z⁻¹: m_i = (Q m)_i; s_i = k(x_i, x_i) − (Q K_ZB)_ii + Σ_j (Q L)_ij². The diagonal of
    K_Z includes jitter and the noise of GPC; without this noise, gradients with the factor K_Z⁻¹ would make training
    diverge.

    Parameters in the flat mapping: `posterior.mean`, m, M×1; `posterior.factor`, 1×M×M, the lower triangle of L with
    the logarithms of its diagonal. Source: [L] (9), (10), (13).
    """

    parameter_names = ("posterior.mean", "posterior.factor")
    shapes = ("M P", "P M M")
    prepare_is_parallel = False

    def parameters_of_prior(self, K_Z: NDArray[np.floating]) -> dict[str, NDArray[np.floating]]:
        """Return, by name, the parameters with which q(u) equals the prior."""
        factor = factorise(add_jitter(K_Z), "K_Z").factor
        np.fill_diagonal(factor, np.log(np.diagonal(factor)))
        return {"posterior.mean": np.zeros((len(K_Z), 1), K_Z.dtype), "posterior.factor": factor[None]}

    def prepare(self, parameters: Mapping[str, NDArray[np.floating]], K_Z: NDArray[np.floating]) -> Prepared:
        """Return m, L and the factorised K_Z."""
        factor = np.tril(parameters["posterior.factor"][0])
        np.fill_diagonal(factor, bounded_exp(np.diagonal(factor)))
        return Prepared(parameters["posterior.mean"], factor, factorise(add_jitter(K_Z), "K_Z"))

    def moments(
        self, prepared: Prepared, K_BZ: NDArray[np.floating], K_diag: NDArray[np.floating]
    ) -> tuple[Moments, Projections]:
        """Return the moments at points, and the `Projections` for them."""
        mean, factor, prior = prepared
        projected = K_BZ @ prior.inverse
        projected_factor = projected @ factor
        variance = K_diag - np.einsum("bm,bm->b", projected, K_BZ)
        variance += np.einsum("bm,bm->b", projected_factor, projected_factor)
        return Moments(projected @ mean, variance[:, None]), Projections(projected, projected_factor)

    def forward(self, prepared: Prepared, covariances: Covariances) -> tuple[Moments, np.floating, Tape]:
        """Return the moments, the divergence, and the tape."""
        mean, factor, prior = prepared
        moments, projections = self.moments(prepared, covariances.K_BZ, covariances.K_diag)
        solved_mean = prior.inverse @ mean
        solved_factor = prior.inverse @ factor
        mahalanobis = np.vdot(mean, solved_mean)
        trace = np.vdot(factor, solved_factor)
        logdet_S = 2 * np.log(np.diagonal(factor)).sum()
        kl = gauss_kl(mahalanobis, trace, prior.log_determinant - logdet_S, len(mean))
        return moments, kl, Tape(prepared, projections, covariances.K_BZ, solved_mean, solved_factor)

    def backward(self, tape: Tape, d_moments: Moments) -> tuple[Covariances, dict[str, NDArray[np.floating]]]:
        """Return the gradients by covariances and parameters."""
        mean, factor, prior = tape.prepared
        projected, projected_factor = tape.projections
        d_variance = d_moments.variance
        d_projected = d_moments.mean @ mean.T - d_variance * tape.K_BZ
        d_projected_factor = 2 * d_variance * projected_factor
        d_projected += d_projected_factor @ factor.T
        d_factor = projected.T @ d_projected_factor - tape.solved_factor
        # The parameter is log L_mm: its gradient is L_mm times that of L_mm. The divergence has the term −log L_mm.
        diagonal = np.diagonal(factor)
        np.fill_diagonal(d_factor, (np.diagonal(d_factor) * diagonal + 1) * is_inside(diagonal))
        d_projected_prior = d_projected @ prior.inverse
        d_K_Z = -projected.T @ d_projected_prior
        # K_Z⁻¹ (m mᵀ + L Lᵀ) K_Z⁻¹.
        solved_second_moment = tape.solved_mean @ tape.solved_mean.T + tape.solved_factor @ tape.solved_factor.T
        d_K_Z -= 0.5 * (prior.inverse - solved_second_moment)
        jitter_backward(d_K_Z)
        gradients = {
            "posterior.mean": projected.T @ d_moments.mean - tape.solved_mean,
            "posterior.factor": np.tril(d_factor)[None],
        }
        return Covariances(d_projected_prior - d_variance * projected, d_K_Z, d_variance[:, 0]), gradients

    def precondition(self, tape: Tape, gradients: dict[str, NDArray[np.floating]]) -> dict[str, NDArray[np.floating]]:
        """Return the gradients as they are: AdaDelta scales each element of its steps."""
        return gradients
