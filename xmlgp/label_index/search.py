"""Labels of high utility of points, from the clusters of a `LabelIndex` whose mean utility is highest.

The labels of a cluster are scored for all points that visit it, while their loadings are in the cache. A score is
summed up in the same order whatever the other points are, so results depend neither on blocks of points nor on cores.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.gp.likelihood import Moments
from xmlgp.label_index.clusters import LabelIndex
from xmlgp.linear_algebra.compiled import compiled

__all__ = ["LabelSearch"]

#: Labels that are scored together for a point, so that its latent functions are read once for all.
TOGETHER = 4


class _Labels(NamedTuple):
    """The labels by cluster, Φ, b and Σ_p φ_kp²."""

    starts: NDArray[np.int64]
    labels: NDArray[np.int32]
    loadings: NDArray[Any]
    bias: NDArray[Any]
    spreads: NDArray[Any]


class _Visits(NamedTuple):
    """The points that visit each cluster: those of cluster c are `points[starts[c]:starts[c + 1]]`."""

    starts: NDArray[np.int64]
    points: NDArray[np.int64]


class _Points(NamedTuple):
    """Mean and variance of the latent functions of B points, and the labels that each of them excludes."""

    mean: NDArray[Any]
    variance: NDArray[Any]
    indptr: NDArray[Any]
    excluded: NDArray[Any]


class _Heaps(NamedTuple):
    """The T labels of highest score of each point and their scores, B×T; the lowest is the root of a heap."""

    labels: NDArray[np.int32]
    scores: NDArray[Any]


class LabelSearch:
    """Finds labels of high utility Φ h + b by an index, of which `clusters` are scanned for each point."""

    def __init__(self, index: LabelIndex, loadings: NDArray[Any], bias: NDArray[Any], clusters: int) -> None:
        self._index = index
        self._sizes = np.diff(index.starts)
        self._clusters = clusters
        spreads = np.einsum("kp,kp->k", loadings, loadings)
        self._labels = _Labels(index.starts, index.labels, loadings, bias, spreads)

    def candidates(self, latent: Moments, count: int, excluded: csr_array | None = None) -> NDArray[np.int32]:
        """Return T labels of high utility of each point, B×T, the highest first; −1 after the last of fewer.

        Labels are in the order of MacKay's approximation to the log odds of their probability, or of their mean utility
        if `latent` has no variance or one for each function. Labels of `excluded`, B×K, are left out.
        """
        mean = np.ascontiguousarray(latent.mean)
        B = len(mean)
        variance = np.zeros(B, mean.dtype)
        if latent.variance is not None and latent.variance.shape[1] == 1:
            variance = np.ascontiguousarray(latent.variance[:, 0])
        indptr = np.zeros(B + 1, np.int32)
        indices = np.empty(0, np.int32)
        if excluded is not None:
            indptr = excluded.indptr
            indices = excluded.indices
        heaps = _Heaps(np.full((B, count), -1, np.int32), np.full((B, count), -np.inf, mean.dtype))
        _scan(self._visits(mean, count), self._labels, _Points(mean, variance, indptr, indices), heaps)
        order = np.argsort(-heaps.scores, axis=1, kind="stable")
        return np.take_along_axis(heaps.labels, order, axis=1)

    def _visits(self, mean: NDArray[Any], count: int) -> _Visits:
        """Return which points visit each cluster: so many of highest mean utility, more if they lack `count` labels."""
        scores = self._index.cluster_scores(mean)
        return _Visits(*_choose(scores, self._sizes, self._clusters, count))


@compiled
def _choose(
    scores: NDArray[np.float32], sizes: NDArray[np.int64], clusters: int, count: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the fields of `_Visits`: each point visits the clusters of highest score, at least so many.

    If these have fewer than `count` labels, it visits more.
    """
    B, G = scores.shape
    visited = np.empty((B, G), np.int32)
    lengths = np.zeros(B, np.int64)
    starts = np.zeros(G + 1, np.int64)
    for i in range(B):
        most = min(clusters, G)
        while True:
            best = visited[i, :most]
            if _find_highest(scores[i], sizes, best) >= count or most == G:
                break
            most = min(2 * most, G)
        lengths[i] = most
        for c in best:
            starts[c + 1] += c >= 0
    starts = np.cumsum(starts)
    ends = starts[:-1].copy()
    points = np.empty(starts[-1], np.int64)
    for i in range(B):
        for c in visited[i, : lengths[i]]:
            if c >= 0:
                points[ends[c]] = i
                ends[c] += 1
    return starts, points


@compiled
def _find_highest(scores: NDArray[np.float32], sizes: NDArray[np.int64], best: NDArray[np.int32]) -> int:
    """Write the clusters of highest score, and −1 where a score is nan, and return how many labels they have."""
    best[:] = -1
    highest = np.full(best.size, -np.inf, scores.dtype)
    for c in range(scores.size):
        if scores[c] > highest[0]:
            _replace_lowest(best, highest, c, scores[c])
    total = 0
    for c in best:
        if c >= 0:
            total += sizes[c]
    return total


@compiled
def _scan(visits: _Visits, index: _Labels, points: _Points, heaps: _Heaps) -> None:
    """Score the labels of each cluster for the points that visit it, and put the highest into their heaps."""
    starts, labels, loadings, bias, spreads = index
    largest = 0
    for c in range(starts.size - 1):
        largest = max(largest, starts[c + 1] - starts[c])
    rows = np.zeros((largest + TOGETHER, loadings.shape[1]), loadings.dtype)
    real = loadings.dtype.type
    for c in range(starts.size - 1):
        if visits.starts[c] == visits.starts[c + 1]:
            continue
        begin = starts[c]
        size = starts[c + 1] - begin
        for j in range(size):
            rows[j] = loadings[labels[begin + j]]
        for e in range(visits.starts[c], visits.starts[c + 1]):
            i = visits.points[e]
            latent = points.mean[i]
            shrinking = points.variance[i] * real(math.pi / 8)
            for j in range(0, size, TOGETHER):
                totals = _four_products(latent, rows[j], rows[j + 1], rows[j + 2], rows[j + 3])
                for t in range(min(TOGETHER, size - j)):
                    label = labels[begin + j + t]
                    score = (totals[t] + bias[label]) / np.sqrt(real(1) + shrinking * spreads[label])
                    # Comparisons with nan are false.
                    if score > heaps.scores[i, 0] and not _contains(points, i, label):
                        _replace_lowest(heaps.labels[i], heaps.scores[i], label, score)


@compiled
def _four_products(
    latent: NDArray[Any], first: NDArray[Any], second: NDArray[Any], third: NDArray[Any], fourth: NDArray[Any]
) -> tuple[Any, Any, Any, Any]:
    one = latent.dtype.type(0)
    two = latent.dtype.type(0)
    three = latent.dtype.type(0)
    four = latent.dtype.type(0)
    for p in range(latent.size):
        h = latent[p]
        one += h * first[p]
        two += h * second[p]
        three += h * third[p]
        four += h * fourth[p]
    return one, two, three, four


@compiled
def _contains(points: _Points, i: int, label: int) -> bool:
    """Return whether a point excludes a label."""
    excluded = points.excluded[points.indptr[i] : points.indptr[i + 1]]
    return bool((excluded == label).any())


@compiled
def _replace_lowest(labels: NDArray[np.int32], scores: NDArray[Any], label: int, score: float) -> None:
    """Replace the root of a heap, its lowest score."""
    position = 0
    while True:
        child = 2 * position + 1
        if child >= scores.size:
            break
        if child + 1 < scores.size and scores[child + 1] < scores[child]:
            child += 1
        if score <= scores[child]:
            break
        scores[position] = scores[child]
        labels[position] = labels[child]
        position = child
    scores[position] = score
    labels[position] = label
