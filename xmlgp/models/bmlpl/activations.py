"""The activations u_nt of topics: their expectation, their prior density, and the Pólya–Gamma means given them.

u_nt ~ Gamma(r_t, scale e^ψ_nt) with the log odds ψ_nt = w_tᵀ x_n ([B] section 2).
"""

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from xmlgp.linear_algebra.compiled import compiled
from xmlgp.linear_algebra.elementary import ARTANH_9, exponential, logarithm, polynomial, softplus
from xmlgp.models.bmlpl.blocks import ROWS, map_blocks
from xmlgp.runtime.threads import parallel_for

__all__ = ["ActivationSums", "expected_activations", "log_prior", "prior_mean", "polya_gamma_means", "softplus_sums"]

#: Least number of elements per thread.
GRAIN = 1 << 15

#: Below this |ψ|, tanh(ψ/2)/ψ is computed from its series.
SERIES_LIMIT = 0.5

#: The coefficients of the series in ψ², the highest first.
TANH_SERIES = (-17 / 40320, 1 / 240, -1 / 24, 1 / 2)

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
    fill = partial(_fill_polya_gamma_means, counts, log_odds, shapes, omega, residuals)
    parallel_for(fill, len(counts), -(-GRAIN // max(1, len(shapes))))


@compiled
def _fill_polya_gamma_means(
    counts: NDArray[np.floating],
    log_odds: NDArray[np.floating],
    shapes: NDArray[np.floating],
    omega: NDArray[np.floating],
    residuals: NDArray[np.floating],
    start: int,
    stop: int,
) -> None:
    real = counts.dtype.type
    for n in range(start, stop):
        count_row = counts[n]
        psi_row = log_odds[n]
        omega_row = omega[n]
        residual_row = residuals[n]
        for t in range(len(count_row)):
            psi = psi_row[t]
            total = count_row[t] + shapes[t]
            magnitude = abs(psi)
            square = psi * psi
            e = exponential(-magnitude)
            direct = (real(1) - e) / ((real(1) + e) * max(magnitude, real(SERIES_LIMIT)))
            series = polynomial(square, TANH_SERIES)
            ratio = series if magnitude < real(SERIES_LIMIT) else direct
            mean = real(0.5) * total * ratio
            omega_row[t] = mean
            # κ = m − (m + r)/2
            residual_row[t] = count_row[t] - real(0.5) * total - mean * psi


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

    def fill(rows: slice) -> NDArray[np.float64]:
        sums = np.zeros((3, T))
        _fill_activations(counts[rows], log_odds[rows], shapes, activations[rows], *sums)
        return sums

    sums = map_blocks(fill, N, GRAIN // max(1, T))
    softplus_sum, digamma_sum, prior_sum = np.stack(sums, axis=1).sum(axis=1)
    # Σ r (log u − ψ) − u e^(−ψ) − log Γ(r), where log u − ψ = log(r + m) − log(1 + e^ψ).
    total = prior_sum.sum() - shapes.astype(np.float64) @ softplus_sum - N * gammaln(shapes.astype(np.float64)).sum()
    return ActivationSums(softplus_sum, digamma_sum, float(total))


@compiled
def _fill_activations(
    counts: NDArray[np.floating],
    log_odds: NDArray[np.floating],
    shapes: NDArray[np.floating],
    activations: NDArray[np.floating],
    softplus_sum: NDArray[np.float64],
    digamma_sum: NDArray[np.float64],
    prior_sum: NDArray[np.float64],
) -> None:
    """Write the activations; add log(1 + e^ψ), Ψ(m + r) − Ψ(r) and r log(r + m) − u e^(−ψ) to the sums."""
    real = counts.dtype.type
    tiny = real(1e-37)
    c0 = real(1) / shapes
    c1 = real(1) / (shapes + real(1))
    c2 = real(1) / (shapes + real(2))
    c3 = real(1) / (shapes + real(3))
    for n in range(len(counts)):
        count_row = counts[n]
        psi_row = log_odds[n]
        activation_row = activations[n]
        for t in range(len(count_row)):
            psi = psi_row[t]
            m = count_row[t]
            r = shapes[t]
            total = r + m
            e = exponential(-abs(psi))
            larger = real(1) / (real(1) + e)
            smaller = e * larger
            sigma, complement = (larger, smaller) if psi >= real(0) else (smaller, larger)
            activation_row[t] = total * sigma
            softplus_sum[t] += softplus(psi)
            prior_sum[t] += r * logarithm(max(total, tiny)) - total * complement
            # Ψ(r + m) − Ψ(r) by recurrence, without cancellation for small m: first Σ_{i<4} 1/(r + i) − 1/(r + m + i)
            # = Σ_{i<4} m c_i / (r + m + i). Two terms share a fraction, because divisions dominate the time.
            x1 = total + real(1)
            x2 = total + real(2)
            x3 = total + real(3)
            difference = m * ((c0[t] * x1 + c1[t] * total) / (total * x1) + (c2[t] * x3 + c3[t] * x2) / (x2 * x3))
            # Then the asymptotic series Ψ(x) ≈ log x − 1/(2x) − 1/(12x²) + 1/(120x⁴) at r + 4 and r + m + 4.
            low = r + real(4)
            high = total + real(4)
            squares = low * low + high * high
            common = real(1) / (low * high * (low + high))
            inverse = common * (low + high)
            q = common * low * high * m
            s = q * q
            # log(high/low) = 2 artanh(m/(low + high)), by its series for small arguments.
            difference += real(2) * q * polynomial(s, ARTANH_9) if q < real(0.2) else logarithm(high * high * inverse)
            both = (low + high) * inverse * inverse
            tail = real(1 / 12) - squares * inverse * inverse * real(1 / 120)
            difference += m * (real(0.5) * inverse + both * tail)
            digamma_sum[t] += difference


def softplus_sums(log_odds: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return Σ_n log(1 + e^ψ_nt), T."""
    total = np.zeros(log_odds.shape[1])
    for start in range(0, len(log_odds), ROWS):
        total += np.logaddexp(0, log_odds[start : start + ROWS]).sum(axis=0, dtype=np.float64)
    return total


def log_prior(activations: NDArray[np.floating], log_odds: NDArray[np.floating], shapes: NDArray[np.floating]) -> float:
    """Return the log density Σ_nt log p(log u_nt | r_t, ψ_nt) = Σ_nt r (log u − ψ) − u e^(−ψ) − log Γ(r)."""
    tiny = np.finfo(activations.dtype).tiny
    shapes = shapes.astype(np.float64)
    total = -len(activations) * gammaln(shapes).sum()
    for start in range(0, len(activations), ROWS):
        rows = slice(start, start + ROWS)
        log_ratio = np.log(np.maximum(activations[rows], tiny)) - log_odds[rows].astype(np.float64)
        total += (log_ratio.sum(axis=0) @ shapes) - np.exp(np.minimum(log_ratio, 2 * LARGEST_EXPONENT)).sum()
    return float(total)
