"""Gaussian expectations of the logistic likelihood by a Taylor series of second order around the mean.

log(1 + e^f) ≈ log(1 + e^m) + σ(m)(f − m) + ½ σ(m)σ(−m)(f − m)²: an approximation, and no bound (SPEC section 2).
"""

import numpy as np

from xmlgp.gp.expectations.elementwise import CHUNK, pairs, values
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.linear_algebra.elementary import exponential, softplus

__all__ = ["Taylor"]


class Taylor:
    """An approximation to E log(1 + e^f), f ~ N(m, v), for small v; equal to it where v = 0.

    Attributes
    ----------
    name : str
    """

    name = "taylor"

    def softplus(self, mean, variance):
        """Return log(1 + e^m) + ½ v σ(m)σ(−m), elementwise.

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
        """Return the derivatives by the mean and by the variance, elementwise.

        They are σ(m) + ½ v σ(m)σ(−m)(1 − 2σ(m)) and ½ σ(m)σ(−m).

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
def _softplus(mean, variance, out):
    real = mean.dtype.type
    for k in range(mean.size):
        e = exponential(-abs(mean[k]))
        above = real(1) / (real(1) + e)
        out[k] = softplus(mean[k]) + max(variance[k], real(0)) * (real(0.5) * e * above * above)


@compiled
def _gradients(mean, variance, by_mean, by_variance):
    real = mean.dtype.type
    first, second = np.empty(CHUNK, mean.dtype), np.empty(CHUNK, mean.dtype)
    for start in range(0, mean.size, CHUNK):
        m, v = mean[start : start + CHUNK], variance[start : start + CHUNK]
        for k in range(m.size):
            # σ(|m|) = 1/(1 + e^−|m|), σ(m)σ(−m) = e^−|m| σ(|m|)² and |1 − 2σ(m)| = (1 − e^−|m|) σ(|m|).
            e = exponential(-abs(m[k]))
            above = real(1) / (real(1) + e)
            half = real(0.5) * e * above * above
            below = e * above + max(v[k], real(0)) * half * (real(1) - e) * above
            first[k] = real(1) - below if m[k] >= real(0) else below
            second[k] = half
        # The results may overwrite what they are computed from.
        for k in range(m.size):
            by_mean[start + k], by_variance[start + k] = first[k], second[k]
