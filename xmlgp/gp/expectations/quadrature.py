"""Gaussian expectations of the logistic likelihood by Gauss–Hermite quadrature."""

import functools

import numpy as np

from xmlgp.gp.expectations.elementwise import CHUNK, pairs, values
from xmlgp.linear_algebra.compiled import compiled

__all__ = ["DEFAULT_NODES", "Quadrature", "logistic", "nodes_and_weights"]

#: Quadrature nodes of [L] section 5.
DEFAULT_NODES = 10

#: (variance, nodes): for variances up to this, so many nodes keep the error of E σ and ½ E σ(1 − σ) at about 1e-4 or
#: below at any mean; found by comparison with 120 nodes.
ENOUGH_NODES = ((0.05, 2), (0.15, 3), (0.5, 4), (1.0, 6), (2.0, 8))

#: Up to this value of a² c³, the square root of the fourth term, three terms of the series of `_tails` suffice: where
#: an error of 1e-6 does no harm, and where the quadrature shall be no worse than by itself.
TAIL, STRICT_TAIL = 1e-3, 3e-5

#: Variance up to which that series is tried: c³ and a little more are within single precision.
WIDEST = 28.0


@functools.cache
def nodes_and_weights(count, dtype):
    """Return nodes z and weights w with E g(f) ≈ Σ_j w_j g(m + √v z_j) for f ~ N(m, v).

    Parameters
    ----------
    count : int
        Number of nodes; exact for polynomials up to degree 2·count − 1.
    dtype : dtype
        Of the returned arrays.

    Returns
    -------
    z, w : ndarray, count
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    return nodes.astype(dtype), (weights / weights.sum()).astype(dtype)


class Quadrature:
    """E log(1 + e^f), f ~ N(m, v), by Gauss–Hermite quadrature.

    Parameters
    ----------
    nodes : int
        Quadrature nodes.

    Attributes
    ----------
    name : str
    """

    name = "quadrature"

    def __init__(self, nodes=DEFAULT_NODES):
        self.nodes = nodes

    def softplus(self, mean, variance):
        """Return E log(1 + e^f) under f ~ N(mean, variance), elementwise.

        Parameters
        ----------
        mean : ndarray
        variance : ndarray of that shape, or float
            Below zero it counts as zero.

        Returns
        -------
        ndarray of that shape
        """
        return values(_softplus, mean, variance, *_rule(self.nodes, False, mean.dtype))

    def gradients(self, mean, variance, economical=False, out=None):
        """Return the derivatives of E log(1 + e^f) by the mean and by the variance, elementwise.

        They are E σ(f) and ½ E σ(f)(1 − σ(f)) (SPEC section 1).

        Parameters
        ----------
        mean : ndarray
        variance : ndarray of that shape, or float
            Below zero it counts as zero.
        economical : bool
            Use fewer nodes where variances are small and none for labels that are hardly possible, with errors of at
            most about 1e-4: the noise of minibatches is far larger.
        out : tuple of two ndarray, optional
            Where the results go, C-contiguous; may be `mean` and `variance` themselves, which are C-contiguous then.

        Returns
        -------
        by_mean, by_variance : ndarray of that shape
        """
        tail = mean.dtype.type(TAIL if economical else 0)
        return pairs(_gradients, mean, variance, tail, *_rule(self.nodes, economical, mean.dtype), out=out)


def logistic(mean, variance, nodes=DEFAULT_NODES):
    """Return E σ(f) under f ~ N(mean, variance), elementwise: the predictive probability.

    Parameters
    ----------
    mean : ndarray
    variance : ndarray of that shape, or float
        Below zero it counts as zero.
    nodes : int
        Quadrature nodes.

    Returns
    -------
    ndarray of that shape
    """
    tail = mean.dtype.type(STRICT_TAIL)
    probability, _ = pairs(_gradients, mean, variance, tail, *_rule(nodes, False, mean.dtype))
    # The sum of all weights is one but for rounding.
    return np.minimum(probability, 1, out=probability)


@functools.cache
def _rule(count, economical, dtype):
    """Return what chooses nodes by the widest variance of a chunk.

    Returns
    -------
    limits : ndarray
        The first that is not exceeded chooses.
    counts : ndarray of int
        Nodes of each choice, one more than limits.
    nodes, weights : ndarray, choices×count
    """
    fewer = [(limit, nodes) for limit, nodes in ENOUGH_NODES if nodes < count] if economical else []
    counts = [nodes for _, nodes in fewer] + [count]
    tables = np.zeros((2, len(counts), count), dtype)
    for choice, nodes in enumerate(counts):
        tables[:, choice, :nodes] = nodes_and_weights(nodes, dtype)
    return np.array([limit for limit, _ in fewer], dtype), np.array(counts), *tables


@compiled
def _chosen(variance, limits):
    """Return the choice of nodes for a chunk; NaN gets the most."""
    widest = variance.max()
    for choice in range(limits.size):
        if widest <= limits[choice]:
            return choice
    return limits.size


@compiled
def _decay(x, real):
    """Return e^−x for x ≥ 0, in nothing but vector instructions.

    e^−x = (e^(−x/128))^128, with Taylor's polynomial for the inner exponential. The relative error is 1e-5 in single
    precision, and in double precision 2e-9 up to x = 6 and 3e-6 up to x = 20, where the value is 2e-9; far beyond it
    grows to 2e-2, and beyond 80 the value stays at e^−80.
    """
    x = min(x, real(80)) * real(-1 / 128)
    p = x * real(1 / 120) + real(1 / 24)
    p = p * x + real(1 / 6)
    p = p * x + real(1 / 2)
    p = p * x + real(1)
    p = p * x + real(1)
    p *= p
    p *= p
    p *= p
    p *= p
    p *= p
    p *= p
    p *= p
    return p


@compiled
def _tails(mean, variance, tail, by_mean, by_variance, rest):
    """Fill in where f is so low that a series needs no nodes; return how many elements are left, listed in `rest`.

    σ(f) = e^f − e^2f + e^3f − …, and E e^nf = exp(nm + n²v/2) = aⁿ c^(n(n−1)/2) with a = exp(m + v/2) and c = e^v.
    """
    real = mean.dtype.type
    size = np.empty(mean.size, mean.dtype)
    for k in range(mean.size):
        v = max(variance[k], real(0))
        x = mean[k] + real(0.5) * v
        a, c = _decay(max(-x, real(0)), real), real(1) / _decay(min(v, real(WIDEST)), real)
        first, second = a * c, a * c * c
        by_mean[k] = a * (real(1) - first * (real(1) - second))
        by_variance[k] = real(0.5) * a * (real(1) - first * (real(2) - real(3) * second))
        size[k] = first * second if x < real(0) and v < real(WIDEST) else real(1)
    left = 0
    for k in range(mean.size):
        rest[left] = k
        # What is no number is left as well.
        left += not size[k] <= tail
    return left


@compiled
def _gradients(mean, variance, by_mean, by_variance, tail, limits, counts, nodes, weights):
    real = mean.dtype.type
    center, deviation = np.empty(CHUNK, mean.dtype), np.empty(CHUNK, mean.dtype)
    first, second = np.empty(CHUNK, mean.dtype), np.empty(CHUNK, mean.dtype)
    rest = np.empty(CHUNK + 1, np.int64)
    for start in range(0, mean.size, CHUNK):
        m, v = mean[start : start + CHUNK], variance[start : start + CHUNK]
        left = m.size
        if tail > real(0):
            left = _tails(m, v, tail, first, second, rest)
        else:
            for k in range(left):
                rest[k] = k
        for k in range(left):
            center[k], deviation[k] = m[rest[k]], v[rest[k]]
        # The results may overwrite what they are computed from.
        for k in range(m.size):
            by_mean[start + k], by_variance[start + k] = first[k], second[k]
        if left == 0:
            continue
        choice = _chosen(deviation[:left], limits)
        for k in range(left):
            # Rounding can take a variance below zero.
            deviation[k] = np.sqrt(max(deviation[k], real(0)))
            first[k] = real(0)
            second[k] = real(0)
        for j in range(counts[choice]):
            node, weight = nodes[choice, j], weights[choice, j]
            for k in range(left):
                f = center[k] + node * deviation[k]
                # σ(|f|) = 1/(1 + e^−|f|), and σ(f)(1 − σ(f)) = e^−|f| σ(|f|)²: nothing overflows.
                e = _decay(abs(f), real)
                above = real(1) / (real(1) + e)
                below = e * above
                first[k] += weight * (above if f >= real(0) else below)
                second[k] += weight * (above * below)
        for k in range(left):
            by_mean[start + rest[k]], by_variance[start + rest[k]] = first[k], real(0.5) * second[k]


@compiled
def _softplus(mean, variance, out, limits, counts, nodes, weights):
    real = mean.dtype.type
    deviation = np.empty(CHUNK, mean.dtype)
    for start in range(0, mean.size, CHUNK):
        center, total = mean[start : start + CHUNK], out[start : start + CHUNK]
        choice = _chosen(variance[start : start + CHUNK], limits)
        for k in range(center.size):
            deviation[k] = np.sqrt(max(variance[start + k], real(0)))
            total[k] = real(0)
        for j in range(counts[choice]):
            node, weight = nodes[choice, j], weights[choice, j]
            for k in range(center.size):
                f = center[k] + node * deviation[k]
                e = _decay(abs(f), real)
                # log(1 + e^f) = max(f, 0) + log(1 + e^−|f|), and log(1 + e) = 2 artanh(q) with q = e/(2 + e) ≤ 1/3.
                q = e / (real(2) + e)
                s = q * q
                series = s * real(1 / 17) + real(1 / 15)
                series = series * s + real(1 / 13)
                series = series * s + real(1 / 11)
                series = series * s + real(1 / 9)
                series = series * s + real(1 / 7)
                series = series * s + real(1 / 5)
                series = series * s + real(1 / 3)
                series = series * s + real(1)
                total[k] += weight * (max(f, real(0)) + real(2) * q * series)
