"""Probabilities that simple random samples, such as minibatches, contain something."""

import numpy as np
from scipy.special import gammaln

__all__ = ["log_absent"]


def log_absent(count, special, size):
    """Return the log probability that a sample without replacement has no special element, elementwise.

    It is log [C(N − n, B) / C(N, B)], and −∞ if no such sample exists.

    Parameters
    ----------
    count : int
        N, the elements.
    special : ndarray of int
        n, how many of them are special.
    size : int
        B, the elements of the sample.
    """
    rest = count - special - size
    found = gammaln(count - special + 1) - gammaln(np.maximum(rest, 0) + 1) - gammaln(count + 1)
    return np.where(rest >= 0, found + gammaln(count - size + 1), -np.inf)
