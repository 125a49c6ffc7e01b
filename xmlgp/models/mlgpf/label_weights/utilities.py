"""Moments of the utilities f = Φ h + b + W x at given points, for a block of labels or some labels of each point.

W is sparse, and so is x: a weight is read only if a point has its feature.
"""

from __future__ import annotations

import functools
import math
import threading
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.gp.likelihood import Moments, pair_moments
from xmlgp.gp.log_parameters import LIMIT
from xmlgp.linear_algebra import sparse
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.linear_algebra.dense import product_by_rows
from xmlgp.linear_algebra.sparse import first_not_below
from xmlgp.models.mlgpf.label_weights.posterior import LabelWeights

__all__ = ["Batch", "UtilityMoments"]

#: Held by the thread that arranges label weights, while others wait.
ARRANGING = threading.Lock()

#: The places of the weights of a label are written down if it has at most so many for each of its pairs.
PLACES_RATIO = 500


class _Points(NamedTuple):
    """Features of B points, as the arrays of a csr_array."""

    indptr: NDArray[Any]
    indices: NDArray[Any]
    values: NDArray[Any]


class _PointsByFeature(NamedTuple):
    """The U features of B points that have weights, and the points of each with their values.

    Those of feature u are `points[starts[u]:starts[u + 1]]`.
    """

    features: NDArray[Any]
    starts: NDArray[Any]
    points: NDArray[Any]
    values: NDArray[Any]


class _WeightsByLabel(NamedTuple):
    """The pattern of W and the moments of its weights, as `LabelWeights` has them."""

    starts: NDArray[np.int64]
    features: NDArray[np.int32]
    means: NDArray[Any]
    log_variances: NDArray[Any]


class _WeightsByFeature(NamedTuple):
    """The labels with a weight on each feature, and mean and variance of the weight."""

    starts: NDArray[np.int64]
    labels: NDArray[np.int32]
    moments: NDArray[Any]


@dataclass
class _Progress:
    """B points for consecutive labels: their features, and how far these have been visited."""

    by_feature: _PointsByFeature
    #: The first weight on each of the U features that has not been visited.
    cursors: NDArray[np.int64]
    #: Labels below it have been visited.
    visited: int = 0


@dataclass
class Batch:
    """B points, as `UtilityMoments.batch` prepares them for one thread; without W, they have no features."""

    #: Of the latent functions, B×P; the variance is None if means are enough.
    latent: Moments
    features: csr_array | None = None
    progress: _Progress | None = None


class UtilityMoments:
    """The moments of the utilities f = Φ h + b + W x, given Φ, K×P, b and the `LabelWeights`, or None for W = 0."""

    def __init__(self, loadings: NDArray[Any], bias: NDArray[Any], weights: LabelWeights | None = None) -> None:
        self._loadings = loadings
        self.bias = bias
        self._weights = weights

    @property
    def _by_feature(self) -> _WeightsByFeature:
        with ARRANGING:
            return self._by_feature_once

    @functools.cached_property
    def _by_feature_once(self) -> _WeightsByFeature:
        weights = self._weights
        D = 0 if weights is None else len(weights.log_prior)
        counts = np.zeros(0, np.int64) if weights is None else sparse.column_sums(weights.features, D)
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        # Mean and variance beside each other, because a visit reads few of them.
        moments = np.empty((starts[-1], 2), self._loadings.dtype)
        by_feature = _WeightsByFeature(starts, np.empty(starts[-1], np.int32), moments)
        if weights is not None:
            _arrange(_by_label(weights), starts[:-1].copy(), by_feature)
        return by_feature

    def batch(self, latent: Moments, features: csr_array) -> Batch:
        """Return points, given moments of the latent functions and weighted features, B×D."""
        if self._weights is None:
            return Batch(latent)
        return Batch(latent, features.astype(self._loadings.dtype, copy=False))

    def _progress(self, batch: Batch) -> _Progress:
        """Return the points for `moments`."""
        features = batch.features
        if features is None:
            features = csr_array((len(batch.latent.mean), 0), dtype=self._loadings.dtype)
        starts = self._by_feature.starts
        by_feature = _points_by_feature(features, starts)
        return _Progress(by_feature, starts[by_feature.features])

    def moments(
        self, batch: Batch, labels: slice, with_variance: bool = True
    ) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """Return mean and variance of the utilities of a slice of labels, B×L; None for the variance if not wanted.

        Slices are fastest in ascending order.
        """
        if batch.progress is None:
            batch.progress = self._progress(batch)
        progress = batch.progress
        by_feature = self._by_feature
        mean = product_by_rows(batch.latent.mean, self._loadings[labels].T)
        mean += self.bias[labels]
        variance = self._variance(batch.latent.variance, labels) if with_variance else None
        first = labels.start or 0
        if first < progress.visited:
            progress.cursors = by_feature.starts[progress.by_feature.features]
        progress.visited = first + mean.shape[1]
        # The loop is compiled by the first call.
        if progress.by_feature.features.size:
            _add_weights(first, progress.by_feature, progress.cursors, by_feature, mean, variance)
        return mean, variance

    def _variance(self, variance: NDArray[Any], labels: slice) -> NDArray[Any]:
        """Return the variance of Φ h, B×L."""
        loadings = self._loadings[labels]
        if variance.shape[1] > 1:
            return product_by_rows(variance, np.square(loadings).T)
        spread: NDArray[Any] = variance * np.einsum("kp,kp->k", loadings, loadings)
        return spread

    def pair_moments(self, batch: Batch, labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return mean and variance of the utilities of some labels of each point, B×k, as arrays of B·k elements."""
        indptr = np.arange(0, labels.size + 1, labels.shape[1])
        latent = batch.latent
        if latent.variance is None:
            latent = latent._replace(variance=np.zeros((len(latent.mean), 1), latent.mean.dtype))
        mean, variance = pair_moments(latent, self._loadings, self.bias, indptr, labels.ravel())
        self._add_weights(batch, labels, mean, variance)
        return mean, variance

    def _add_weights(self, batch: Batch, labels: NDArray[Any], mean: NDArray[Any], variance: NDArray[Any]) -> None:
        """Add the moments of W x to those of pairs, B·k, in place."""
        if self._weights is not None and batch.features is not None:
            places = np.full(batch.features.shape[1], -1, np.int32)
            order = np.argsort(labels, axis=None, kind="stable")
            by_label = _by_label(self._weights)
            _add_to_pairs(_points(batch.features), places, PLACES_RATIO, order, labels, by_label, mean, variance)

    def contributions(
        self,
        features: csr_array,
        latent_weights: NDArray[Any],
        indptr: NDArray[Any],
        labels: NDArray[Any],
        values: NDArray[Any],
    ) -> None:
        """Write the contributions of features to the means of some labels of each point.

        With latent functions of means h_p(x) = Σ_d t_dp x_d, T D×P, the mean of f_k less b_k is the sum over the
        features d of x_d (Σ_p φ_kp t_dp + m_kd). For each pair of a point i, of B, and a label, one of
        `labels[indptr[i]:indptr[i + 1]]`, `values` gets one number for each feature of the point.
        """
        features = features.astype(self._loadings.dtype, copy=False)
        points = _points(features)
        _fill_contributions(points, indptr, labels, latent_weights, self._loadings, values)
        if self._weights is not None:
            _add_label_weights(points, indptr, labels, _by_label(self._weights), values)


def _points(features: csr_array) -> _Points:
    return _Points(features.indptr, features.indices, features.data)


def _by_label(weights: LabelWeights) -> _WeightsByLabel:
    return _WeightsByLabel(weights.indptr, weights.features, weights.mean, weights.log_variance)


def _points_by_feature(features: csr_array, starts: NDArray[np.int64]) -> _PointsByFeature:
    """Return points by feature, given where the weights by feature start."""
    indices = features.indices
    kept = starts[indices + 1] > starts[indices]
    points = np.repeat(np.arange(features.shape[0]), np.diff(features.indptr))[kept]
    indices = indices[kept]
    values = features.data[kept]
    order = np.argsort(indices, kind="stable")
    used, begins = np.unique(indices[order], return_index=True)
    return _PointsByFeature(used, np.append(begins, len(order)), points[order], values[order])


@compiled
def _variance_of(log_variance: float) -> float:
    """Return the variance as `bounded_exp` does."""
    return math.exp(min(max(log_variance, -LIMIT), LIMIT))


@compiled
def _arrange(weights: _WeightsByLabel, ends: NDArray[np.int64], by_feature: _WeightsByFeature) -> None:
    """Copy the moments of W by feature."""
    indptr, features, means, log_variances = weights
    _, labels, moments = by_feature
    for k in range(indptr.size - 1):
        for e in range(indptr[k], indptr[k + 1]):
            d = features[e]
            labels[ends[d]] = k
            moments[ends[d], 0] = means[e]
            moments[ends[d], 1] = _variance_of(log_variances[e])
            ends[d] += 1


@compiled
def _add_weights(
    first: int,
    points_by_feature: _PointsByFeature,
    cursors: NDArray[np.int64],
    weights: _WeightsByFeature,
    mean: NDArray[Any],
    variance: NDArray[Any] | None,
) -> None:
    """Add the moments of W x to those of consecutive labels, in place; variances may be None.

    The weights on a feature are in the cache while they are added for all points that have it.
    """
    features, begins, points, values = points_by_feature
    starts, labels, moments = weights
    stop = first + mean.shape[1]
    for u in range(features.size):
        begin = cursors[u]
        end = starts[features[u] + 1]
        while begin < end and labels[begin] < first:
            begin += 1
        t = begin
        while t < end and labels[t] < stop:
            t += 1
        cursors[u] = t
        for e in range(begins[u], begins[u + 1]):
            i = points[e]
            value = values[e]
            means = mean[i]
            if variance is None:
                for s in range(begin, t):
                    # An index without sign needs no check for one that counts from the end.
                    means[np.uint32(labels[s] - first)] += value * moments[s, 0]
            else:
                square = value * value
                variances = variance[i]
                for s in range(begin, t):
                    j = np.uint32(labels[s] - first)
                    means[j] += value * moments[s, 0]
                    variances[j] += square * moments[s, 1]


@compiled
def _add_to_pairs(
    points: _Points,
    places: NDArray[np.int32],
    most: int,
    order: NDArray[np.int64],
    pairs: NDArray[Any],
    weights: _WeightsByLabel,
    mean: NDArray[Any],
    variance: NDArray[Any],
) -> None:
    """Add the moments of W x to those of pairs, in place, given their order by label; `places` has −1 for each feature.

    The weights of a label are in the cache while its pairs are visited. The place of each weight is written down if
    there are at most so many for a pair. The sums of a pair are the same either way.
    """
    indptr, indices, values = points
    starts, features, means, log_variances = weights
    count = pairs.shape[1]
    labels = pairs.ravel()
    e = 0
    while e < order.size:
        label = labels[order[e]]
        end = e
        while end < order.size and labels[order[end]] == label:
            end += 1
        start = starts[label]
        length = starts[label + 1] - start
        placed = length < most * (end - e)
        if placed:
            for s in range(length):
                places[features[start + s]] = s
        for n in range(e, end):
            pair = order[n]
            i = pair // count
            m = mean.dtype.type(0)
            v = mean.dtype.type(0)
            for t in range(indptr[i], indptr[i + 1]):
                s = places[indices[t]] if placed else _place(features, start, length, indices[t])
                if s >= 0:
                    m += values[t] * means[start + s]
                    v += values[t] * values[t] * _variance_of(log_variances[start + s])
            mean[pair] += m
            variance[pair] += v
        if placed:
            for s in range(length):
                places[features[start + s]] = -1
        e = end


@compiled
def _place(features: NDArray[np.int32], start: int, length: int, feature: int) -> int:
    """Return the place of a feature among those of a label, which ascend, or −1."""
    if length == 0:
        return -1
    first = start
    size = length
    while size > 1:
        half = size // 2
        first += half * (features[first + half - 1] < feature)
        size -= half
    return first - start if features[first] == feature else -1


@compiled
def _fill_contributions(
    points: _Points,
    pairs: NDArray[Any],
    labels: NDArray[Any],
    latent_weights: NDArray[Any],
    loadings: NDArray[Any],
    values: NDArray[Any],
) -> None:
    indptr, indices, data = points
    entry = 0
    for i in range(indptr.size - 1):
        for j in range(pairs[i], pairs[i + 1]):
            loading = loadings[labels[j]]
            for e in range(indptr[i], indptr[i + 1]):
                weights = latent_weights[indices[e]]
                total = values.dtype.type(0)
                for p in range(loading.size):
                    total += loading[p] * weights[p]
                values[entry] = data[e] * total
                entry += 1


@compiled
def _add_label_weights(
    points: _Points, pairs: NDArray[Any], labels: NDArray[Any], weights: _WeightsByLabel, values: NDArray[Any]
) -> None:
    """Add x_d m_kd for the weights of each label, whose features are in ascending order, in place."""
    indptr, indices, data = points
    starts, features, means, _ = weights
    entry = 0
    for i in range(indptr.size - 1):
        for j in range(pairs[i], pairs[i + 1]):
            start = starts[labels[j]]
            stop = starts[labels[j] + 1]
            for e in range(indptr[i], indptr[i + 1]):
                s = first_not_below(features, indices[e], start, stop)
                if s < stop and features[s] == indices[e]:
                    values[entry] += data[e] * means[s]
                entry += 1
