"""Gaussian expectations of the logistic likelihood by Gauss–Hermite quadrature."""

import numpy as np
from scipy.special import expit

__all__ = ["DEFAULT_NODES", "logistic", "logistic_gradients", "nodes_and_weights", "softplus"]

#: Quadrature nodes of [L] section 5.
DEFAULT_NODES = 10

#: Elements a chunk: mean, deviation and three temporaries of a chunk stay in a core's own cache.
CHUNK = 16384


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


def softplus(mean, variance, count=DEFAULT_NODES):
    """Return E log(1 + e^f) under f ~ N(mean, variance), elementwise.

    Parameters
    ----------
    mean, variance : ndarray of one shape
    count : int
        Quadrature nodes.

    Returns
    -------
    ndarray of that shape
    """
    (value,) = _chunked(_softplus, mean, variance, count, outputs=1)
    return value


def logistic(mean, variance, count=DEFAULT_NODES):
    """Return E σ(f) under f ~ N(mean, variance), elementwise: the predictive probability.

    Unlike `logistic_gradients` it keeps its relative precision, and stays positive, far out in the tails.
    """
    (value,) = _chunked(_logistic, mean, variance, count, outputs=1)
    return value


def logistic_gradients(mean, variance, count=DEFAULT_NODES):
    """Return the derivatives of E log(1 + e^f) by the mean and by the variance, elementwise.

    They are E σ(f) and ½ E σ(f)(1 − σ(f)) (SPEC section 1).

    Parameters
    ----------
    mean, variance : ndarray of one shape
    count : int
        Quadrature nodes.

    Returns
    -------
    by_mean, by_variance : ndarray of that shape
    """
    return _chunked(_gradients, mean, variance, count, outputs=2)


def _chunked(function, mean, variance, count, outputs):
    z, w = nodes_and_weights(count, mean.dtype)
    results = [np.empty(mean.shape, mean.dtype) for _ in range(outputs)]
    flat = [np.ravel(a) for a in (mean, variance, *results)]
    for start in range(0, mean.size, CHUNK):
        m, v, *out = (a[start : start + CHUNK] for a in flat)
        # Rounding can take a variance below zero.
        function(m, np.sqrt(np.maximum(v, 0)), z, w, *out)
    return results


def _softplus(mean, deviation, z, w, out):
    # log(1 + e^f) = max(f, 0) + log(1 + e^−|f|): no overflow at any f.
    out[:] = 0
    f, term = np.empty_like(mean), np.empty_like(mean)
    for node, weight in zip(z, w, strict=True):
        np.multiply(deviation, node, out=f)
        f += mean
        np.abs(f, out=term)
        np.negative(term, out=term)
        np.exp(term, out=term)
        np.log1p(term, out=term)
        np.maximum(f, 0, out=f)
        term += f
        term *= weight
        out += term


def _logistic(mean, deviation, z, w, out):
    out[:] = 0
    for node, weight in zip(z, w, strict=True):
        out += weight * expit(mean + node * deviation)


def _gradients(mean, deviation, z, w, by_mean, by_variance):
    # σ(f) = (1 + t)/2 and σ(f)(1 − σ(f)) = (1 − t²)/4 with t = tanh(f/2): one transcendental, no overflow.
    by_mean[:] = 0
    by_variance[:] = 0
    half_mean, half_deviation = 0.5 * mean, 0.5 * deviation
    t, term = np.empty_like(mean), np.empty_like(mean)
    for node, weight in zip(z, w, strict=True):
        np.multiply(half_deviation, node, out=t)
        t += half_mean
        np.tanh(t, out=t)
        np.multiply(t, weight, out=term)
        by_mean += term
        term *= t
        by_variance += term
    by_mean += 1
    by_mean *= 0.5
    np.subtract(1, by_variance, out=by_variance)
    by_variance *= 0.125
