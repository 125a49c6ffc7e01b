"""The linear term W x of the utilities f = Φ h + b + W x, for the points of a minibatch.

W is sparse, so is x: for each label the loops visit its features, and for each feature the points that have it.
"""

from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from xmlgp.linear_algebra.compiled import compiled
from xmlgp.runtime.threads import run_parallel

__all__ = ["LinearTerm", "PairsByLabel"]

#: Tasks that the labels of pairs are split into. They are many, because labels with many weights are rare and unevenly
#: spread.
TASKS = 32


class LinearTerm:
    """W x at the points of a minibatch, under q(W): mean Σ_d m_kd x_d and variance Σ_d v_kd x_d².

    `add_moments` and `add_pair_moments` are the forward passes for blocks of labels and for pairs; `set_gradients` and
    `set_pair_gradients` are the backward passes.

    Parameters
    ----------
    weights : LabelWeights
    features : csr_array, B×D
        X, weighted.

    Attributes
    ----------
    weights : LabelWeights
    d_mean, d_variance : ndarray
        Gradients with respect to m and v, after `zero_gradients`; one element per weight.
    """

    def __init__(self, weights, features):
        self.weights = weights
        by_feature = features.tocsc()
        values = by_feature.data.astype(weights.mean.dtype, copy=False)
        self._pattern = weights.indptr, weights.features
        self._points = by_feature.indptr, by_feature.indices, values
        self._squares = values * values

    def zero_gradients(self):
        """Set the gradients to zero. They stay zero for labels without a later call."""
        self.d_mean, self.d_variance = np.zeros_like(self.weights.mean), np.zeros_like(self.weights.mean)

    def add_moments(self, first, mean, variance=None):
        """Add the moments of W x to those of the utilities of a block of labels, in place.

        Parameters
        ----------
        first : int
            First label of the block.
        mean : ndarray, B×L
        variance : ndarray, B×L, optional
        """
        if variance is None:
            _add_means(first, *self._pattern, self.weights.mean, *self._points, mean)
        else:
            _add_moments(first, *self._posterior, *self._points, self._squares, mean, variance)

    @property
    def _posterior(self):
        return *self._pattern, self.weights.mean, self.weights.variance

    def set_gradients(self, first, d_mean, d_variance, sign=1):
        """Set the gradients of a block of labels, given those by the moments of the utilities.

        Parameters
        ----------
        first : int
            First label of the block.
        d_mean, d_variance : ndarray, B×L
        sign : int
            Factor of the result, 1 or −1.
        """
        gradients = self.d_mean, self.d_variance
        _set_gradients(first, *self._pattern, *self._points, self._squares, d_mean, d_variance, sign, *gradients)

    def add_pair_moments(self, pairs, mean, variance):
        """Add the moments of W x to those of the utilities of pairs, in place.

        Parameters
        ----------
        pairs : PairsByLabel
        mean, variance : ndarray, E
        """
        _run_by_label(_add_pair_moments, pairs, *self._posterior, *self._points, self._squares, mean, variance)

    def set_pair_gradients(self, pairs, d_mean, d_variance):
        """Set the gradients of the labels of pairs, given those by the moments of the utilities.

        Parameters
        ----------
        pairs : PairsByLabel
        d_mean, d_variance : ndarray, E
        """
        arrays = *self._pattern, *self._points, self._squares, d_mean, d_variance, self.d_mean, self.d_variance
        _run_by_label(_set_pair_gradients, pairs, *arrays)


class PairsByLabel(NamedTuple):
    """Pairs (point, label), grouped by label.

    Attributes
    ----------
    labels : ndarray, U
        The labels that occur, in ascending order.
    starts : ndarray, U+1
        Pairs of label u are `order[starts[u]:starts[u + 1]]`.
    order : ndarray, E
        Indices of pairs.
    points : ndarray, E
        The point of each pair, in the original order.
    point_count : int
        B.
    """

    labels: np.ndarray
    starts: np.ndarray
    order: np.ndarray
    points: np.ndarray
    point_count: int

    @classmethod
    def from_pairs(cls, indptr, used, columns):
        """Group pairs that are ordered by point.

        Parameters
        ----------
        indptr : ndarray, B+1
            Pairs of point i are `indptr[i]:indptr[i + 1]`.
        used : ndarray, U
            The labels that occur, in ascending order.
        columns : ndarray, E
            The index in `used` of the label of each pair.
        """
        counts = np.bincount(columns, minlength=len(used))
        starts = np.concatenate([[0], np.cumsum(counts)])
        points = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        return cls(used, starts, np.argsort(columns, kind="stable"), points, len(indptr) - 1)


def _run_by_label(function, pairs, *arrays):
    """Call `function(start, stop, *pairs, *arrays)` for ranges of the labels of pairs, on all cores."""
    count = len(pairs.labels)
    bounds = [count * i // TASKS for i in range(TASKS + 1)]
    run_parallel(partial(function, start, stop, *pairs, *arrays) for start, stop in pairwise(bounds) if start < stop)


@compiled
def _add_means(first, indptr, features, weights, points, rows, values, out):
    total = np.empty(out.shape[0], out.dtype)
    for j in range(out.shape[1]):
        # Sums are collected in a contiguous array: a column of `out` is strided.
        total[:] = 0
        for e in range(indptr[first + j], indptr[first + j + 1]):
            weight = weights[e]
            for t in range(points[features[e]], points[features[e] + 1]):
                total[rows[t]] += values[t] * weight
        for i in range(total.size):
            out[i, j] += total[i]


@compiled
def _moments(k, indptr, features, means, variances, points, rows, values, squares, mean, variance):
    """Fill in both moments of W x of label k at all points, in one pass over its weights."""
    mean[:] = 0
    variance[:] = 0
    for e in range(indptr[k], indptr[k + 1]):
        m, v = means[e], variances[e]
        for t in range(points[features[e]], points[features[e] + 1]):
            mean[rows[t]] += values[t] * m
            variance[rows[t]] += squares[t] * v


@compiled
def _gradients(k, indptr, features, points, rows, values, squares, d_mean, d_variance, sign, d_m, d_v):
    """Fill in the gradients of the weights of label k, given those by the moments of its utilities at all points."""
    zero = d_mean.dtype.type(0)
    for e in range(indptr[k], indptr[k + 1]):
        m, v = zero, zero
        for t in range(points[features[e]], points[features[e] + 1]):
            m += values[t] * d_mean[rows[t]]
            v += squares[t] * d_variance[rows[t]]
        d_m[e], d_v[e] = sign * m, sign * v


@compiled
def _add_moments(first, indptr, features, means, variances, points, rows, values, squares, mean, variance):
    m, v = np.empty(mean.shape[0], mean.dtype), np.empty(mean.shape[0], mean.dtype)
    for j in range(mean.shape[1]):
        _moments(first + j, indptr, features, means, variances, points, rows, values, squares, m, v)
        for i in range(m.size):
            mean[i, j] += m[i]
            variance[i, j] += v[i]


@compiled
def _set_gradients(first, indptr, features, points, rows, values, squares, d_mean, d_variance, sign, d_m, d_v):
    m, v = np.empty(d_mean.shape[0], d_mean.dtype), np.empty(d_mean.shape[0], d_mean.dtype)
    for j in range(d_mean.shape[1]):
        for i in range(m.size):
            m[i], v[i] = d_mean[i, j], d_variance[i, j]
        _gradients(first + j, indptr, features, points, rows, values, squares, m, v, sign, d_m, d_v)


@compiled
def _add_pair_moments(
    start, stop, labels, starts, order, pair_points, count,
    indptr, features, means, variances, points, rows, values, squares, mean, variance,
):  # fmt: skip
    m, v = np.empty(count, mean.dtype), np.empty(count, mean.dtype)
    for u in range(start, stop):
        _moments(labels[u], indptr, features, means, variances, points, rows, values, squares, m, v)
        for s in range(starts[u], starts[u + 1]):
            mean[order[s]] += m[pair_points[order[s]]]
            variance[order[s]] += v[pair_points[order[s]]]


@compiled
def _set_pair_gradients(
    start, stop, labels, starts, order, pair_points, count,
    indptr, features, points, rows, values, squares, d_mean, d_variance, d_m, d_v,
):  # fmt: skip
    m, v = np.zeros(count, d_mean.dtype), np.zeros(count, d_mean.dtype)
    for u in range(start, stop):
        for s in range(starts[u], starts[u + 1]):
            m[pair_points[order[s]]] += d_mean[order[s]]
            v[pair_points[order[s]]] += d_variance[order[s]]
        _gradients(labels[u], indptr, features, points, rows, values, squares, m, v, 1, d_m, d_v)
        for s in range(starts[u], starts[u + 1]):
            m[pair_points[order[s]]] = 0
            v[pair_points[order[s]]] = 0
