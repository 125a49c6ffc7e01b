"""Closed-form predictions: activations are integrated out over their prior given a point's features."""

import numpy as np
from scipy.sparse import csr_array

from xmlgp.linear_algebra import sparse
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.linear_algebra.elementary import logarithm

__all__ = ["Predictive"]

#: ψ is held within this, so that e^ψ and its square are numbers in single precision.
LARGEST_LOG_ODDS = 40

#: Up to these values of z = v e^ψ, one, two or three terms of its series are log(1 + z) to seven millionths of it.
SERIES = (1.35e-5, 4.5e-3, 0.03)

#: Weights of labels in topics above this are few, for those of a topic sum up to one: they are taken one by one.
HEAVY = 1e-3


class Predictive:
    """The distribution of labels of new points ([B] (19)).

    Given activations, p(y_k = 1 | u) = 1 − e^(−λ_k) with λ_k = Σ_t v_kt u_t. With u_t ~ Gamma(r_t, scale e^ψ_t),
    p(y_k = 1 | x) = 1 − e^(−s_k) with s_k = Σ_t r_t log(1 + v_kt e^ψ_t).

    Parameters
    ----------
    parameters : mapping of str to ndarray
        `topics` V, K×T; `weights` W, D×T; `intercepts`, T; `shapes` r, T.
    dtype : dtype
        In which scores are computed.
    """

    def __init__(self, parameters, dtype):
        names = "weights", "intercepts", "shapes"
        self._weights, self._intercepts, self._shapes = (
            np.ascontiguousarray(parameters[name], dtype) for name in names
        )
        self._topics = np.ascontiguousarray(parameters["topics"].T, dtype)
        light = self._topics <= HEAVY
        heavy = csr_array(np.where(light, 0, self._topics).T)
        self._heavy = heavy.indptr, heavy.indices, heavy.data
        self._light = np.where(light, self._topics, 0)

    @property
    def topic_count(self):
        """T."""
        return len(self._shapes)

    def scales(self, features):
        """Return e^ψ, the scales of activations, B×T.

        Parameters
        ----------
        features : csr_array, B×D
            As weighted.
        """
        log_odds = sparse.product(features.astype(self._weights.dtype, copy=False), self._weights)
        log_odds += self._intercepts
        np.clip(log_odds, -LARGEST_LOG_ODDS, LARGEST_LOG_ODDS, out=log_odds)
        return np.exp(log_odds, out=log_odds)

    def rates(self, scales, labels):
        """Return s_k = −log(1 − p_k) of a block of labels, B×L.

        Parameters
        ----------
        scales : ndarray, B×T
            e^ψ.
        labels : slice
        """
        topics = np.ascontiguousarray(self._light[:, labels])
        # Of labels of low weight some terms of a series suffice, so products of matrices, unless a topic is too active.
        largest = topics.max(axis=1, initial=0)
        passive = scales * largest
        active = passive > SERIES[-1]
        passive[active] = 0
        terms = np.searchsorted(SERIES, passive.max(initial=0))
        # Relative to their largest, for powers of scales alone could overflow.
        relative = topics / np.maximum(largest, np.finfo(topics.dtype).tiny)[:, None]
        series = self._shapes * passive
        rates = series @ relative
        power = relative
        for divisor in (-2, 3)[:terms]:
            series *= passive
            power = power * relative
            rates += (series / divisor) @ power
        if active.any():
            _add_active(scales, active, self._shapes, topics, rates)
        _add_heavy(scales, self._shapes, *self._heavy, labels.start, rates)
        return rates

    def std(self, scales, labels, probability):
        """Return standard deviations of λ_k, or of 1 − e^(−λ_k), of some labels of each point, B×k.

        They are those of the prior of activations: Var λ_k = Σ_t r_t (v_kt e^ψ_t)², and with E e^(−2λ) in closed form
        Var e^(−λ_k) = (E e^(−λ_k))² (e^d − 1) with d = Σ_t r_t log(1 + z²/(1 + 2z)), z = v_kt e^ψ_t.

        Parameters
        ----------
        scales : ndarray, B×T
            e^ψ.
        labels : ndarray of int, B×k
        probability : bool
            Whether of the probability.
        """
        found = np.empty(labels.shape, scales.dtype)
        _deviate(scales, self._shapes, self._topics, labels, probability, found)
        return found


@compiled
def _add_active(scales, active, shapes, topics, rates):
    for i in range(len(scales)):
        own = rates[i]
        for t in range(len(shapes)):
            if not active[i, t]:
                continue
            scale, shape, topic = scales[i, t], shapes[t], topics[t]
            for k in range(len(own)):
                own[k] += shape * np.log1p(scale * topic[k])


@compiled
def _add_heavy(scales, shapes, indptr, topics, weights, first, rates):
    """Add r log(1 + v e^ψ) of the heavy weights of some labels, from `first` on."""
    real = scales.dtype.type
    start, stop = indptr[first], indptr[first + rates.shape[1]]
    found = np.empty(stop - start, scales.dtype)
    for i in range(len(scales)):
        own, scale = rates[i], scales[i]
        for e in range(start, stop):
            z = scale[topics[e]] * weights[e]
            # log(1 + z) = 2 artanh(z/(2 + z)), where that is small.
            q = z / (real(2) + z)
            s = q * q
            series = s * real(1 / 11) + real(1 / 9)
            series = series * s + real(1 / 7)
            series = series * s + real(1 / 5)
            series = series * s + real(1 / 3)
            series = series * s + real(1)
            logarithms = real(2) * q * series if q < real(0.2) else logarithm(real(1) + z)
            found[e - start] = shapes[topics[e]] * logarithms
        for k in range(len(own)):
            for e in range(indptr[first + k], indptr[first + k + 1]):
                own[k] += found[e - start]


@compiled
def _deviate(scales, shapes, topics, labels, probability, found):
    for i in range(len(scales)):
        for j in range(labels.shape[1]):
            k = labels[i, j]
            rate, spread = 0.0, 0.0
            for t in range(len(shapes)):
                z = float(topics[t, k]) * scales[i, t]
                if probability:
                    rate += shapes[t] * np.log1p(z)
                    spread += shapes[t] * np.log1p(z * z / (1 + 2 * z))
                else:
                    spread += shapes[t] * z * z
            # As e^(d/2) alone could overflow.
            found[i, j] = np.exp(0.5 * spread - rate) * np.sqrt(-np.expm1(-spread)) if probability else np.sqrt(spread)
