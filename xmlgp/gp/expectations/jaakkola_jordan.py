"""Gaussian expectations of the logistic likelihood by the bound of Jaakkola and Jordan.

log(1 + e^f) ≤ f/2 + log(2 cosh(ξ/2)) + λ(ξ)(f² − ξ²) with λ(ξ) = tanh(ξ/2)/(4ξ), for every ξ (SPEC section 2). Its
expectation is least where ξ² = E f² = m² + v, and there E log(1 + e^f) ≤ m/2 + log(2 cosh(ξ/2)).
"""

import numpy as np

from xmlgp.gp.expectations.elementwise import CHUNK, pairs, values
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.linear_algebra.elementary import exponential, softplus

__all__ = ["JaakkolaJordan"]

#: Up to here the series of tanh(ξ/2)/(4ξ) is used: beyond it tanh loses nothing to rounding, and up to it seven terms
#: are as exact as rounding.
SINGLE_SERIES, DOUBLE_SERIES = 1.0, 0.25


class JaakkolaJordan:
    """An upper bound on E log(1 + e^f), f ~ N(m, v), at its best ξ = √(m² + v); equal to it where v = 0.

    Attributes
    ----------
    name : str
    """

    name = "jj"

    def softplus(self, mean, variance):
        """Return m/2 + log(2 cosh(ξ/2)), elementwise.

        Parameters
        ----------
        mean : ndarray
        variance : ndarray of that shape, or float
            Below zero it counts as zero.

        Returns
        -------
        ndarray of that shape
        """
        return values(_softplus, mean, variance)

    def gradients(self, mean, variance, economical=False, out=None):
        """Return the derivatives ½ + 2λ(ξ)m by the mean and λ(ξ) by the variance, elementwise.

        Parameters
        ----------
        mean : ndarray
        variance : ndarray of that shape, or float
            Below zero it counts as zero.
        economical : bool
            Without effect: there is nothing to save.
        out : tuple of two ndarray, optional
            Where the results go, C-contiguous; may be `mean` and `variance` themselves, which are C-contiguous then.

        Returns
        -------
        by_mean, by_variance : ndarray of that shape
        """
        return pairs(_gradients, mean, variance, out=out)


@compiled
def _best(magnitude, variance, real):
    """Return ξ = √(m² + v) and ½ v/(ξ + |m|) = ½ (ξ − |m|), neither of which overflows or cancels."""
    deviation = np.sqrt(variance)
    larger = max(max(magnitude, deviation), real(1e-30))
    ratio = min(magnitude, deviation) / larger
    best = larger * np.sqrt(real(1) + ratio * ratio)
    return best, real(0.5) * variance / max(best + magnitude, real(1e-30))


@compiled
def _softplus(mean, variance, out):
    real = mean.dtype.type
    for k in range(mean.size):
        m, v = mean[k], max(variance[k], real(0))
        best, excess = _best(abs(m), v, real)
        # m/2 + log(2 cosh(ξ/2)) = (m + ξ)/2 + log(1 + e^−ξ), and (m + ξ)/2 = max(m, 0) + (ξ − |m|)/2.
        out[k] = max(m, real(0)) + (excess + softplus(-best))


@compiled
def _slope(x, e, real, limit):
    """Return λ(x) = tanh(x/2)/(4x), given e^−x and up to where the series is used."""
    s = real(0.25) * x * x
    series = s * real(21844 / 6081075) - real(1382 / 155925)
    series = series * s + real(62 / 2835)
    series = series * s - real(17 / 315)
    series = series * s + real(2 / 15)
    series = series * s - real(1 / 3)
    series = series * s + real(1)
    # What is no number takes the quotient.
    return real(0.125) * series if x < limit else real(0.25) * (real(1) - e) / ((real(1) + e) * max(x, limit))


@compiled
def _gradients(mean, variance, by_mean, by_variance):
    real = mean.dtype.type
    limit = real(SINGLE_SERIES if mean.itemsize == 4 else DOUBLE_SERIES)
    first, second = np.empty(CHUNK, mean.dtype), np.empty(CHUNK, mean.dtype)
    for start in range(0, mean.size, CHUNK):
        m, v = mean[start : start + CHUNK], variance[start : start + CHUNK]
        for k in range(m.size):
            best, excess = _best(abs(m[k]), max(v[k], real(0)), real)
            e = exponential(-best)
            slope = _slope(best, e, real, limit)
            # ½ − 2λ|m| = σ(−ξ) + 2λ(ξ − |m|): small numbers keep all their digits.
            below = e / (real(1) + e) + real(4) * slope * excess
            first[k] = real(1) - below if m[k] >= real(0) else below
            second[k] = slope
        # The results may overwrite what they are computed from.
        for k in range(m.size):
            by_mean[start + k], by_variance[start + k] = first[k], second[k]
