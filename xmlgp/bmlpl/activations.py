"""Activations of topics and what the shapes of their prior are learned from: element by element, N×T."""

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from xmlgp.linear_algebra.compiled import compiled
from xmlgp.linear_algebra.elementary import exponential, logarithm, softplus
from xmlgp.runtime.threads import parallel_for

__all__ = ["ActivationSums", "expected_activations", "log_prior", "prior_mean", "polya_gamma_row", "softplus_sums"]

#: Points over which sums are taken in a row; they do not depend on how many cores there are.
ROWS = 128

#: Elements that are worth a thread.
GRAIN = 1 << 15

#: ψ up to which tanh(ψ/2)/ψ is computed by its series.
NEAR = 0.5

#: Exponents are held within this, where single precision still has squares.
LARGEST_EXPONENT = 40


def prior_mean(log_odds, shapes):
    """Return E u_nt = r_t e^ψ_nt, N×T, of activations before labels are seen.

    Parameters
    ----------
    log_odds : ndarray, N×T
        ψ = w_tᵀ x_n.
    shapes : ndarray, T
        r.
    """
    return shapes * np.exp(np.clip(log_odds, -LARGEST_EXPONENT, LARGEST_EXPONENT))


@compiled
def polya_gamma_row(counts, log_odds, shapes, omega, residuals):
    """Fill in ω and κ − ω ψ of a point, for the least squares that an M-step for W solves; all arrays are of T numbers.

    ω_t = E ω = (m_t + r_t)/(2ψ_t) tanh(ψ_t/2), the mean of a Pólya–Gamma variable PG(m_t + r_t, ψ_t), and
    κ_t = (m_t − r_t)/2 ([B] (16) and (17)). With them m ψ − (m + r) log(1 + e^ψ) is bounded from below by a quadratic
    function of ψ that touches it at the given ψ. For compiled functions.
    """
    real = counts.dtype.type
    for t in range(len(counts)):
        psi, total = log_odds[t], counts[t] + shapes[t]
        size, square = abs(psi), psi * psi
        e = exponential(-size)
        far = (real(1) - e) / ((real(1) + e) * max(size, real(NEAR)))
        near = square * real(-17 / 40320) + real(1 / 240)
        near = near * square + real(-1 / 24)
        near = near * square + real(1 / 2)
        slope = near if size < real(NEAR) else far
        weight = real(0.5) * total * slope
        omega[t] = weight
        # κ = m − (m + r)/2
        residuals[t] = counts[t] - real(0.5) * total - weight * psi


class ActivationSums(NamedTuple):
    """What a pass over all activations leaves beside them.

    Attributes
    ----------
    softplus : ndarray, T
        Σ_n log(1 + e^ψ_nt).
    digamma : ndarray, T
        Σ_n Ψ(m_nt + r_t) − Ψ(r_t), with the digamma function Ψ.
    log_prior : float
        Σ_nt log p(log u_nt | r_t, ψ_nt).
    """

    softplus: np.ndarray
    digamma: np.ndarray
    log_prior: float


def expected_activations(counts, log_odds, shapes, activations):
    """Fill in the activations u_nt = (r_t + m_nt) σ(ψ_nt): the mean of Gamma(r_t + m_nt, scale σ(ψ_nt)) ([B] (13)).

    It is the mode as well, of the density of log u.

    Parameters
    ----------
    counts, log_odds : ndarray, N×T
        m and ψ.
    shapes : ndarray, T
        r.
    activations : ndarray, N×T
        Where they go.

    Returns
    -------
    ActivationSums
    """
    N, T = counts.shape
    starts = range(0, N, ROWS)
    sums = np.zeros((3, len(starts), T))

    def part(first, last):
        for i in range(first, last):
            rows = slice(starts[i], starts[i] + ROWS)
            _activate(counts[rows], log_odds[rows], shapes, activations[rows], *sums[:, i])

    parallel_for(part, len(starts), -(-GRAIN // max(1, ROWS * T)))
    pluses, rises, priors = sums.sum(axis=1)
    # Σ r (log u − ψ) − u e^(−ψ), where log u − ψ = log(r + m) − log(1 + e^ψ).
    total = priors.sum() - shapes.astype(np.float64) @ pluses - N * gammaln(shapes.astype(np.float64)).sum()
    return ActivationSums(pluses, rises, float(total))


@compiled
def _activate(counts, log_odds, shapes, activations, pluses, rises, priors):
    """Fill in the activations, and add up over points log(1 + e^ψ), Ψ(m + r) − Ψ(r) and r log(r + m) − u e^(−ψ)."""
    real = counts.dtype.type
    tiny = real(1e-37)
    c0, c1, c2, c3 = (
        real(1) / shapes,
        real(1) / (shapes + real(1)),
        real(1) / (shapes + real(2)),
        real(1) / (shapes + real(3)),
    )
    for n in range(len(counts)):
        own, psis, found = counts[n], log_odds[n], activations[n]
        for t in range(len(own)):
            psi, m, r = psis[t], own[t], shapes[t]
            upper = r + m
            e = exponential(-abs(psi))
            above = real(1) / (real(1) + e)
            below = e * above
            high, low = (above, below) if psi >= real(0) else (below, above)
            found[t] = upper * high
            pluses[t] += softplus(psi)
            priors[t] += r * logarithm(max(upper, tiny)) - upper * low
            # Ψ(r + m) − Ψ(r), without loss of digits where m is small: first Σ_i 1/(r + i) − 1/(r + m + i), i < 4,
            # the sum of m c_i / (r + m + i), two in one fraction, for divisions are what takes time here.
            x1, x2, x3 = upper + real(1), upper + real(2), upper + real(3)
            rise = m * ((c0[t] * x1 + c1[t] * upper) / (upper * x1) + (c2[t] * x3 + c3[t] * x2) / (x2 * x3))
            # Then Ψ(x) ≈ log x − 1/2x − 1/12x² + 1/120x⁴.
            low, high = r + real(4), upper + real(4)
            squares = low * low + high * high
            common = real(1) / (low * high * (low + high))
            inverse, q = common * (low + high), common * low * high * m
            s = q * q
            # log(high/low) = 2 artanh(m/(low + high)), where that is small.
            series = s * real(1 / 9) + real(1 / 7)
            series = series * s + real(1 / 5)
            series = series * s + real(1 / 3)
            series = series * s + real(1)
            rise += real(2) * q * series if q < real(0.2) else logarithm(high * high * inverse)
            both = (low + high) * inverse * inverse
            rise += m * (real(0.5) * inverse + both * (real(1 / 12) - squares * inverse * inverse * real(1 / 120)))
            rises[t] += rise


def softplus_sums(log_odds):
    """Return Σ_n log(1 + e^ψ_nt), T.

    Parameters
    ----------
    log_odds : ndarray, N×T
        ψ.
    """
    total = np.zeros(log_odds.shape[1])
    for start in range(0, len(log_odds), ROWS):
        total += np.logaddexp(0, log_odds[start : start + ROWS]).sum(axis=0, dtype=np.float64)
    return total


def log_prior(activations, log_odds, shapes):
    """Return Σ_nt log p(log u_nt | r_t, ψ_nt) of log u: Σ r (log u − ψ) − u e^(−ψ) − log Γ(r).

    Parameters
    ----------
    activations, log_odds : ndarray, N×T
        U and ψ.
    shapes : ndarray, T
        r.
    """
    tiny = np.finfo(activations.dtype).tiny
    shapes = shapes.astype(np.float64)
    total = -len(activations) * gammaln(shapes).sum()
    for start in range(0, len(activations), ROWS):
        rows = slice(start, start + ROWS)
        distance = np.log(np.maximum(activations[rows], tiny)) - log_odds[rows].astype(np.float64)
        total += (distance.sum(axis=0) @ shapes) - np.exp(np.minimum(distance, 2 * LARGEST_EXPONENT)).sum()
    return float(total)
