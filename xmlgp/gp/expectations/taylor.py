"""Gaussian expectations of the logistic likelihood by a second-order Taylor expansion around the mean.

log(1 + e^f) ≈ log(1 + e^m) + σ(m)(f − m) + ½ σ(m)σ(−m)(f − m)². This is an approximation, not a bound. Source: [I]
(16).
"""

import numpy as np

from xmlgp.gp.expectations.elementwise import CHUNK, fill_one, fill_two
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.linear_algebra.elementary import exponential, softplus

__all__ = ["Taylor"]


class Taylor:
    """An approximation to E log(1 + e^f), f ~ N(m, v), for small v, exact for v = 0."""

    name = "taylor"

    def expected_softplus(self, mean, variance):
        """Return log(1 + e^m) + ½ v σ(m)σ(−m), elementwise."""
        return fill_one(_expected_softplus, mean, variance)

    def gradients(self, mean, variance, fast=False, out=None):
        """Return the derivatives σ(m) + ½ v σ(m)σ(−m)(1 − 2σ(m)) by the mean and ½ σ(m)σ(−m) by the variance."""
        return fill_two(_gradients, mean, variance, out=out)


@compiled
def _expected_softplus(mean, variance, out):
    real = mean.dtype.type
    for k in range(mean.size):
        e = exponential(-abs(mean[k]))
        above = real(1) / (real(1) + e)
        out[k] = softplus(mean[k]) + max(variance[k], real(0)) * (real(0.5) * e * above * above)


@compiled
def _gradients(mean, variance, d_mean, d_variance):
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
        # The results may overwrite the arguments.
        for k in range(m.size):
            d_mean[start + k], d_variance[start + k] = first[k], second[k]
