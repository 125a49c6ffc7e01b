"""Activations of topics and what the shapes of their prior are learned from: element by element, N×T."""

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from xmlgp.threads import in_parts

__all__ = ["Activated", "activate", "log_prior", "prior_mean", "responses", "softplus_sums"]

#: Bytes of an array that is worked on at a time, so that it and a few more stay in a core's cache.
CHUNK = 1 << 16

#: Elements that are worth a thread.
GRAIN = 1 << 15

#: ψ below this is taken for 0 in tanh(ψ/2)/ψ, which is 1/2 there to less than rounding.
LEAST = 1e-4

#: Terms ψ(x + 1) − 1/x by which arguments of the digamma function are raised before its asymptotic series is used.
SHIFTS = 4

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


def responses(counts, log_odds, shapes, weights, residuals):
    """Fill in the weights and residuals of the least squares that an M-step for W solves.

    ω_nt = E ω = (m_nt + r_t)/(2ψ_nt) tanh(ψ_nt/2), the mean of a Pólya–Gamma variable PG(m_nt + r_t, ψ_nt), and
    κ_nt − ω_nt ψ_nt with κ_nt = (m_nt − r_t)/2 ([B] (16) and (17)). With them m ψ − (m + r) log(1 + e^ψ) is bounded
    from below by a quadratic function of ψ that touches it at the given ψ.

    Parameters
    ----------
    counts, log_odds : ndarray, N×T
        m and ψ.
    shapes : ndarray, T
        r.
    weights, residuals : ndarray, N×T
        Where they go.
    """

    def chunk(rows):
        m, psi, omega, residual = counts[rows], log_odds[rows], weights[rows], residuals[rows]
        half = np.abs(psi)
        np.maximum(half, LEAST, out=half)
        half *= 0.5
        np.tanh(half, out=omega)
        half *= 4
        omega /= half
        np.add(m, shapes, out=half)
        omega *= half
        np.multiply(omega, psi, out=residual)
        np.subtract(m, residual, out=residual)
        half *= 0.5
        # κ = m − (m + r)/2
        residual -= half

    _in_chunks(chunk, counts)


class Activated(NamedTuple):
    """What a pass over all activations leaves beside them.

    Attributes
    ----------
    softplus : ndarray, T
        Σ_n log(1 + e^ψ_nt).
    digammas : ndarray, T
        Σ_n Ψ(m_nt + r_t) − Ψ(r_t), with the digamma function Ψ.
    """

    softplus: np.ndarray
    digammas: np.ndarray


def activate(counts, log_odds, shapes, activations):
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
    Activated
    """

    def chunk(rows):
        m, psi, u = counts[rows], log_odds[rows], activations[rows]
        # log(1 + e^ψ) = max(ψ, 0) + log(1 + e^(−|ψ|)), and σ(ψ) = e^(min(ψ, 0)) / (1 + e^(−|ψ|)).
        small = np.exp(-np.abs(psi))
        softplus = np.log1p(small)
        softplus += np.maximum(psi, 0)
        np.subtract(psi, softplus, out=u)
        np.exp(u, out=u)
        u *= np.add(m, shapes, out=small)
        return softplus.sum(axis=0, dtype=np.float64), _digamma_rise(m, shapes).sum(axis=0, dtype=np.float64)

    return Activated(*(np.sum(sums, axis=0) for sums in zip(*_in_chunks(chunk, counts), strict=True)))


def softplus_sums(log_odds):
    """Return Σ_n log(1 + e^ψ_nt), T.

    Parameters
    ----------
    log_odds : ndarray, N×T
        ψ.
    """
    return np.sum(
        _in_chunks(lambda rows: np.logaddexp(0, log_odds[rows]).sum(axis=0, dtype=np.float64), log_odds), axis=0
    )


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

    def chunk(rows):
        u, psi = activations[rows], log_odds[rows]
        distance = np.log(np.maximum(u, tiny))
        distance -= psi
        value = shapes * distance
        value -= np.exp(np.minimum(distance, 2 * LARGEST_EXPONENT))
        return (value.sum(dtype=np.float64),)

    total = sum(value for (value,) in _in_chunks(chunk, activations))
    return float(total - len(activations) * gammaln(shapes.astype(np.float64)).sum())


def _digamma_rise(counts, shapes):
    """Return Ψ(r + m) − Ψ(r) without loss of digits where m is small."""
    shapes = shapes.astype(counts.dtype, copy=False)
    rise = np.zeros_like(counts)
    upper = counts + shapes
    for shift in range(SHIFTS):
        # 1/(r + i) − 1/(r + m + i)
        rise += counts / ((shapes + shift) * (upper + shift))
    low, high = shapes + SHIFTS, upper + SHIFTS
    rise += np.log1p(counts / low)
    # Ψ(x) ≈ log x − 1/2x − 1/12x² + 1/120x⁴
    both = low * high
    rise += counts / (2 * both)
    rise += counts * (low + high) / (12 * np.square(both))
    rise -= counts * (low + high) * (np.square(low) + np.square(high)) / (120 * np.square(np.square(both)))
    return rise


def _in_chunks(function, array):
    """Call a function of slices of rows, all cores at once; return what it returned, in order."""
    size = max(1, CHUNK // max(1, array[:1].nbytes))
    starts = range(0, len(array), size)
    found = [None] * len(starts)

    def part(first, last):
        for i in range(first, last):
            found[i] = function(slice(starts[i], starts[i] + size))

    in_parts(part, len(starts), -(-GRAIN // max(1, size * array.shape[1])))
    return found
