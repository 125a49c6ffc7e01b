"""The activations u_nt of topics: their expectation, their prior density, and the Pólya–Gamma means given them.

u_nt ~ Gamma(r_t, scale e^ψ_nt) with the log odds ψ_nt = w_tᵀ x_n ([B] section 2).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammaln

from xmlgp.linear_algebra.logistic import expit
from xmlgp.models.bmlpl.blocks import ROWS, map_blocks
from xmlgp.runtime.blocks import row_blocks

__all__ = ["ActivationSums", "expected_activations", "log_prior", "prior_mean", "polya_gamma_means", "softplus_sums"]

#: Least number of elements per thread.
GRAIN = 1 << 15

#: Least sum of a shape and a count in a logarithm.
TINY = 1e-37

#: Exponents are clipped to ± this, so that squares are finite in single precision.
LARGEST_EXPONENT = 40


def prior_mean(log_odds: NDArray[np.floating], shapes: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return the prior means E u_nt = r_t e^ψ_nt of activations, N×T."""
    means: NDArray[np.floating] = np.exp(np.clip(log_odds, -LARGEST_EXPONENT, LARGEST_EXPONENT))
    means *= shapes
    return means


def polya_gamma_means(
    counts: NDArray[np.floating],
    log_odds: NDArray[np.floating],
    shapes: NDArray[np.floating],
    omega: NDArray[np.floating],
    residuals: NDArray[np.floating],
) -> None:
    """Write the Pólya–Gamma means ω and the residuals κ − ω ψ to the last two arguments, N×T, given m, ψ, N×T, and r.

    ω_nt = (m_nt + r_t)/(2ψ_nt) tanh(ψ_nt/2) is the mean of PG(m_nt + r_t, ψ_nt), and κ = (m − r)/2 ([B] (16), (17)).
    The quadratic function κ ψ′ − ½ ω ψ′² + constant is a lower bound on m ψ′ − (m + r) log(1 + e^ψ′), tight at ψ′ = ψ.
    """

    def fill(rows: slice) -> None:
        psi = log_odds[rows]
        halves = 0.5 * (counts[rows] + shapes)
        ratio = np.divide(np.tanh(0.5 * psi), psi, out=np.full_like(psi, 0.5), where=psi != 0)
        np.multiply(halves, ratio, out=omega[rows])
        # κ = m − (m + r)/2
        np.subtract(counts[rows] - halves, omega[rows] * psi, out=residuals[rows])

    map_blocks(fill, len(counts), GRAIN // max(1, len(shapes)))


class ActivationSums(NamedTuple):
    """Σ_n log(1 + e^ψ_nt), T; Σ_n [Ψ(m_nt + r_t) − Ψ(r_t)], T; and Σ_nt log p(log u_nt | r_t, ψ_nt)."""

    softplus: NDArray[np.float64]
    digamma: NDArray[np.float64]
    log_prior: float


def expected_activations(
    counts: NDArray[np.floating],
    log_odds: NDArray[np.floating],
    shapes: NDArray[np.floating],
    activations: NDArray[np.floating],
) -> ActivationSums:
    """Write the activations u_nt = (r_t + m_nt) σ(ψ_nt) to `activations`, N×T, and return the `ActivationSums`.

    The activations are the means of Gamma(r_t + m_nt, scale σ(ψ_nt)) ([B] (13)), and the modes of the density of log u.
    """
    N, T = counts.shape
    r = shapes.astype(np.float64)

    def fill(rows: slice) -> NDArray[np.float64]:
        psi = log_odds[rows]
        totals = counts[rows] + shapes
        np.multiply(totals, expit(psi), out=activations[rows])
        # In double precision, in which the difference is accurate for small m.
        digammas = digamma(counts[rows] + r) - digamma(r)
        # Σ r (log u − ψ) − u e^(−ψ) − log Γ(r), where log u − ψ = log(r + m) − log(1 + e^ψ).
        softplus = np.maximum(psi, 0) + np.log1p(np.exp(-np.abs(psi)))
        log_priors = shapes * (np.log(np.maximum(totals, TINY)) - softplus) - totals * expit(-psi)
        return np.stack([values.sum(axis=0, dtype=np.float64) for values in (softplus, digammas, log_priors)])

    softplus_sum, digamma_sum, log_prior_sum = np.add.reduce(map_blocks(fill, N, GRAIN // max(1, T)))
    return ActivationSums(softplus_sum, digamma_sum, float(log_prior_sum.sum() - N * gammaln(r).sum()))


def softplus_sums(log_odds: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return Σ_n log(1 + e^ψ_nt), T."""
    total = np.zeros(log_odds.shape[1])
    for rows in row_blocks(len(log_odds), ROWS):
        total += np.logaddexp(0, log_odds[rows]).sum(axis=0, dtype=np.float64)
    return total


def log_prior(activations: NDArray[np.floating], log_odds: NDArray[np.floating], shapes: NDArray[np.floating]) -> float:
    """Return the log density Σ_nt log p(log u_nt | r_t, ψ_nt) = Σ_nt r (log u − ψ) − u e^(−ψ) − log Γ(r)."""
    tiny = np.finfo(activations.dtype).tiny
    shapes = shapes.astype(np.float64)
    total = -len(activations) * gammaln(shapes).sum()
    for rows in row_blocks(len(activations), ROWS):
        log_ratio = np.log(np.maximum(activations[rows], tiny)) - log_odds[rows].astype(np.float64)
        total += (log_ratio.sum(axis=0) @ shapes) - np.exp(np.minimum(log_ratio, 2 * LARGEST_EXPONENT)).sum()
    return float(total)
