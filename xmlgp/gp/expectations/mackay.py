"""MacKay's approximation of predictive probabilities: E σ(f) ≈ σ(m / √(1 + πv/8)) for f ~ N(m, v).

It needs no quadrature, and orders labels nearly as E σ(f) does.

Source: D. J. C. MacKay, The evidence framework applied to classification networks, Neural Computation 4, 1992.
"""

import math

from xmlgp.gp.expectations.elementwise import fill_one
from xmlgp.linear_algebra.compiled import compiled

__all__ = ["approximate_log_odds"]


def approximate_log_odds(mean, variance):
    """Return m / √(1 + πv/8), elementwise: about the log odds of E σ(f) under f ~ N(mean, variance).

    Parameters
    ----------
    mean : ndarray
    variance : ndarray of that shape, or float
        Values below 0 count as 0.

    Returns
    -------
    ndarray of that shape
    """
    return fill_one(_shrink, mean, variance)


@compiled
def _shrink(mean, variance, out):
    real = mean.dtype.type
    for k in range(mean.size):
        out[k] = mean[k] / math.sqrt(real(1) + real(math.pi / 8) * max(variance[k], real(0)))
