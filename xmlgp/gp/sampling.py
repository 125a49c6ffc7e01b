"""Probabilities that simple random samples, such as minibatches, contain something."""

import numpy as np
from scipy.special import gammaln

__all__ = ["log_absent"]


def log_absent(count, special, size):
    """Return the log probability that a sample of B of N elements without replacement has no special one, elementwise.

    With n special elements it is log [C(N − n, B) / C(N, B)], and −∞ if no such sample exists.
    """
    rest = count - special - size
    log_ratio = gammaln(count - special + 1) - gammaln(np.maximum(rest, 0) + 1) - gammaln(count + 1)
    return np.where(rest >= 0, log_ratio + gammaln(count - size + 1), -np.inf)
