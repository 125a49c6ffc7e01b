"""The terms Φ h and W x of the utilities f = Φ h + b + W x.

W is sparse, and so is x: a weight is read only if a point has its feature.
"""

from __future__ import annotations

import math
import threading
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.gp.likelihood import Moments, pairwise_products
from xmlgp.gp.parameters import LIMIT
from xmlgp.linear_algebra import sparse
from xmlgp.linear_algebra.compiled import compiled, compiled_part
from xmlgp.linear_algebra.dense import product_by_rows
from xmlgp.linear_algebra.sparse import first_not_below
from xmlgp.models.mlgpf.label_weights.posterior import LabelWeights
from xmlgp.prediction.contributions import Contributions
from xmlgp.prediction.terms import Pairs, Prepared, Utilities

__all__ = ["LatentTerm", "WeightTerm", "linear_utilities", "prepare_points"]

#: Held by the thread that arranges label weights, while others wait.
ARRANGING = threading.Lock()

#: The places of the weights of a label are written down if it has at most so many for each of its pairs.
PLACED = 500


def linear_utilities(
    loadings: NDArray[Any], bias: NDArray[Any], weights: LabelWeights | None, latent_weights: NDArray[Any] | None = None
) -> Utilities:
    """Return the utilities f = Φ h + b + W x, given Φ, K×P, b, and W or None; with T, D×P, they can be explained."""
    latent = LatentTerm(loadings, latent_weights)
    return Utilities(bias, [latent] if weights is None else [latent, WeightTerm(weights)])


def prepare_points(utilities: Utilities, latent: Moments, features: csr_array) -> Prepared:
    """Return points for `linear_utilities`, given moments of the latent functions and weighted features, B×D."""
    inputs = latent, features.astype(utilities.bias.dtype, copy=False)
    return Prepared(features.shape[0], inputs[: len(utilities.terms)])


class LatentTerm:
    """Φ h, given Φ, K×P, and moments of the latent functions at points, B×P.

    The means of latent functions that are linear are x T, with T, D×P.
    """

    def __init__(self, loadings: NDArray[Any], latent_weights: NDArray[Any] | None = None) -> None:
        self._loadings = loadings
        self._latent_weights = latent_weights

    def block(self, latent: Moments, labels: slice, mean: NDArray[Any], variance: NDArray[Any] | None) -> None:
        """Add the moments of a block of labels, B×L; see `Term`."""
        loadings = self._loadings[labels]
        mean += product_by_rows(latent.mean, loadings.T)
        if variance is None:
            return
        if latent.variance.shape[1] == 1:
            variance += latent.variance * np.einsum("kp,kp->k", loadings, loadings)
        else:
            variance += product_by_rows(latent.variance, np.square(loadings).T)

    def pairs(self, latent: Moments, pairs: Pairs, mean: NDArray[Any], variance: NDArray[Any] | None) -> None:
        """Add the moments of pairs; see `Term`."""
        present, columns = np.unique(pairs.labels, return_inverse=True)
        loadings = self._loadings[present]
        mean += pairwise_products(latent.mean, loadings, pairs.indptr, columns)
        if variance is not None:
            squares = loadings * loadings
            if latent.variance.shape[1] == 1:
                squares = squares.sum(axis=1, keepdims=True)
            variance += pairwise_products(latent.variance, squares, pairs.indptr, columns)

    def explain(self, latent: object, pairs: Pairs, weighted: csr_array, contributions: Contributions) -> None:
        """Add x_d Σ_p φ_kp t_dp to the contributions of features; see `Term`."""
        if self._latent_weights is not None:
            slopes = pairwise_products(
                self._loadings[pairs.labels], self._latent_weights, weighted.indptr, weighted.indices
            )
            contributions.features.data += weighted.data * slopes


class _WeightsByFeature(NamedTuple):
    """The labels with a weight on each feature, ascending, and mean and variance of each weight, 2 numbers."""

    starts: NDArray[np.int64]
    labels: NDArray[np.int32]
    moments: NDArray[Any]


class WeightTerm:
    """W x, given q(W), K×D, and the weighted features of points, B×D."""

    def __init__(self, weights: LabelWeights) -> None:
        self._weights = weights
        self._arranged: _WeightsByFeature | None = None

    def block(self, features: csr_array, labels: slice, mean: NDArray[Any], variance: NDArray[Any] | None) -> None:
        """Add the moments of a block of labels, B×L; see `Term`."""
        if not features.shape[0]:
            # To arrange the weights takes time.
            return
        # An empty array is of the same type as others, for which the function is compiled once.
        _add_block(
            sparse.arrays_of(features),
            self._by_feature(),
            labels.start or 0,
            mean,
            mean[:, :0] if variance is None else variance,
        )

    def pairs(self, features: csr_array, pairs: Pairs, mean: NDArray[Any], variance: NDArray[Any] | None) -> None:
        """Add the moments of pairs; see `Term`."""
        if variance is None:
            variance = np.zeros_like(mean)
        order = np.argsort(pairs.labels, kind="stable")
        runs = np.flatnonzero(np.diff(pairs.labels[order], prepend=-1, append=-1))
        point_of = pairs.repeat(np.arange(features.shape[0]))
        places = np.zeros(features.shape[1], np.int32)
        _add_pairs(sparse.arrays_of(features), pairs, order, runs, point_of, self._weights[:4], places, mean, variance)

    def explain(self, features: object, pairs: Pairs, weighted: csr_array, contributions: Contributions) -> None:
        """Add x_d m_kd to the contributions of features; see `Term`."""
        indptr, indices, means, _, log_prior = self._weights
        of_labels = csr_array((means, indices, indptr), shape=(len(indptr) - 1, len(log_prior)))
        of_pairs = Pairs(weighted.indptr, weighted.indices).elements(of_labels[pairs.labels])
        contributions.features.data += weighted.data * of_pairs

    def _by_feature(self) -> _WeightsByFeature:
        """Return the weights by feature; arranging them takes time, and not all need them."""
        with ARRANGING:
            if self._arranged is None:
                weights = self._weights
                counts = sparse.column_sums(weights.features, len(weights.log_prior))
                starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
                # Mean and variance beside each other, because a visit reads few of them.
                moments = np.empty((starts[-1], 2), weights.mean.dtype)
                self._arranged = _WeightsByFeature(starts, np.empty(starts[-1], np.int32), moments)
                _arrange(weights[:4], starts[:-1].copy(), self._arranged)
            return self._arranged


@compiled
def _arrange(
    weights: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any], NDArray[Any]],
    ends: NDArray[np.int64],
    by_feature: _WeightsByFeature,
) -> None:
    """Copy the moments of W by feature."""
    indptr, features, means, log_variances = weights
    _, labels, moments = by_feature
    for k in range(indptr.size - 1):
        for e in range(indptr[k], indptr[k + 1]):
            d = features[e]
            labels[ends[d]] = k
            moments[ends[d], 0] = means[e]
            moments[ends[d], 1] = _variance(log_variances[e])
            ends[d] += 1


@compiled
def _add_block(
    points: tuple[NDArray[Any], NDArray[Any], NDArray[Any]],
    weights: _WeightsByFeature,
    first: int,
    mean: NDArray[Any],
    variance: NDArray[Any],
) -> None:
    """Add the moments of W x to those of consecutive labels, in place; without variances they are B×0."""
    indptr, indices, values = points
    for i in range(indptr.size - 1):
        part = slice(indptr[i], indptr[i + 1])
        _add_weights(indices[part], values[part], weights, first, mean[i], variance[i])


@compiled
def _add_pairs(
    points: tuple[NDArray[Any], NDArray[Any], NDArray[Any]],
    pairs: Pairs,
    order: NDArray[np.int64],
    runs: NDArray[np.int64],
    point_of: NDArray[np.int64],
    weights: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any], NDArray[Any]],
    places: NDArray[np.int32],
    mean: NDArray[Any],
    variance: NDArray[Any],
) -> None:
    """Add the moments of W x to those of pairs, given their order by label and where each label starts in it.

    The weights of a label are in the cache while its pairs are visited. Their `places` by feature, D zeros before and
    after, count from 1 on.
    """
    indptr, indices, values = points
    starts, features, means, log_variances = weights
    for r in range(runs.size - 1):
        of_label = order[runs[r] : runs[r + 1]]
        label = pairs.labels[of_label[0]]
        start = starts[label]
        stop = starts[label + 1]
        placed = stop - start < PLACED * of_label.size
        if placed:
            for s in range(start, stop):
                places[features[s]] = s + 1 - start
        for p in of_label:
            i = point_of[p]
            m = mean.dtype.type(0)
            v = 0.0
            for e in range(indptr[i], indptr[i + 1]):
                if placed:
                    s = start + places[indices[e]] - 1
                    found = s >= start
                else:
                    s = first_not_below(features, indices[e], start, stop)
                    found = s < stop and features[s] == indices[e]
                if found:
                    m += values[e] * means[s]
                    v += values[e] * values[e] * _variance(log_variances[s])
            mean[p] += m
            variance[p] += v
        if placed:
            for s in range(start, stop):
                places[features[s]] = 0


@compiled_part
def _variance(log_variance: float) -> float:
    """Return the variance as `bounded_exp` does."""
    return math.exp(min(max(log_variance, -LIMIT), LIMIT))


@compiled_part
def _add_weights(
    indices: NDArray[Any],
    values: NDArray[Any],
    weights: _WeightsByFeature,
    first: int,
    mean: NDArray[Any],
    variance: NDArray[Any],
) -> None:
    """Add the moments of W x at one point to those of consecutive labels from `first` on, L."""
    starts, labels, moments = weights
    stop = first + mean.size
    for e in range(indices.size):
        value = values[e]
        square = value * value
        end = starts[indices[e] + 1]
        s = first_not_below(labels, first, starts[indices[e]], end)
        while s < end and labels[s] < stop:
            # An index without sign needs no check for one that counts from the end.
            j = np.uint32(labels[s] - first)
            mean[j] += value * moments[s, 0]
            if variance.size:
                variance[j] += square * moments[s, 1]
            s += 1
