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

#: Labels that are scored together for so many points: one product at a time takes two and a half times as long.
TOGETHER = 4

#: Length of the list of a point in labels that are asked for.
LIST_LENGTH = 4


class _Labels(NamedTuple):
    """The labels by cluster, Φ by label, and b and Σ_p φ_kp² in the order of `labels`."""

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


class _Lists(NamedTuple):
    """Labels of high score of each point and their scores, B×W, of which `lengths` are used.

    When a list is full, the T highest scores stay; labels with scores up to the lowest of these are no longer listed.
    """

    labels: NDArray[np.int32]
    scores: NDArray[Any]
    lengths: NDArray[np.int64]
    lowest: NDArray[Any]


class LabelSearch:
    """Finds labels of high utility Φ h + b by an index, of which `clusters` are scanned for each point."""

    def __init__(self, index: LabelIndex, loadings: NDArray[Any], bias: NDArray[Any], clusters: int) -> None:
        self._index = index
        self._sizes = np.diff(index.starts)
        self._clusters = clusters
        spreads = np.einsum("kp,kp->k", loadings, loadings)
        self._labels = _Labels(index.starts, index.labels, loadings, bias[index.labels], spreads[index.labels])

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
        shape = B, LIST_LENGTH * count
        lowest = np.full(B, -np.inf, mean.dtype)
        lists = _Lists(np.empty(shape, np.int32), np.empty(shape, mean.dtype), np.zeros(B, np.int64), lowest)
        _scan(self._visits(mean, count), self._labels, _Points(mean, variance, indptr, indices), lists, count)
        labels = lists.labels[:, :count]
        order = np.argsort(-lists.scores[:, :count], axis=1, kind="stable")
        return np.take_along_axis(labels, order, axis=1)

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
def _scan(visits: _Visits, index: _Labels, points: _Points, lists: _Lists, count: int) -> None:
    """Score the labels of each cluster for the points that visit it, and list the `count` highest."""
    starts = index.starts
    largest = 0
    for c in range(starts.size - 1):
        largest = max(largest, starts[c + 1] - starts[c])
    scores = np.empty((TOGETHER, largest + TOGETHER), index.loadings.dtype)
    for c in range(starts.size - 1):
        labels = index.labels[starts[c] : starts[c + 1]]
        for e in range(visits.starts[c], visits.starts[c + 1], TOGETHER):
            visiting = visits.points[e : min(e + TOGETHER, visits.starts[c + 1])]
            for j in range(0, labels.size, TOGETHER):
                _fill_products(points.mean, visiting, index.loadings, labels[j : j + TOGETHER], scores[:, j:])
            for n in range(visiting.size):
                i = visiting[n]
                _shrink(index, starts[c], points.variance[i], scores[n, : labels.size])
                for j in range(labels.size):
                    # Comparisons with nan are false.
                    if scores[n, j] > lists.lowest[i] and not _contains(points, i, labels[j]):
                        _append(lists, i, count, labels[j], scores[n, j])
    for i in range(lists.lengths.size):
        if lists.lengths[i] > count:
            _keep_highest(lists, i, count)
        lists.labels[i, lists.lengths[i] : count] = -1
        lists.scores[i, lists.lengths[i] : count] = -np.inf


@compiled
def _fill_products(
    latent: NDArray[Any],
    points: NDArray[np.int64],
    loadings: NDArray[Any],
    labels: NDArray[np.int32],
    products: NDArray[Any],
) -> None:
    """Write the products of the latent functions of up to four points and the loadings of up to four labels.

    Of fewer, the last one is repeated.
    """
    last = points.size - 1
    e = latent[points[0]]
    f = latent[points[min(1, last)]]
    g = latent[points[min(2, last)]]
    h = latent[points[min(3, last)]]
    last = labels.size - 1
    a = loadings[labels[0]]
    b = loadings[labels[min(1, last)]]
    c = loadings[labels[min(2, last)]]
    d = loadings[labels[min(3, last)]]
    # Single numbers, which stay in registers: an array would be written each time.
    ea = eb = ec = ed = fa = fb = fc = fd = ga = gb = gc = gd = ha = hb = hc = hd = loadings.dtype.type(0)
    for p in range(latent.shape[1]):
        ea += e[p] * a[p]
        eb += e[p] * b[p]
        ec += e[p] * c[p]
        ed += e[p] * d[p]
        fa += f[p] * a[p]
        fb += f[p] * b[p]
        fc += f[p] * c[p]
        fd += f[p] * d[p]
        ga += g[p] * a[p]
        gb += g[p] * b[p]
        gc += g[p] * c[p]
        gd += g[p] * d[p]
        ha += h[p] * a[p]
        hb += h[p] * b[p]
        hc += h[p] * c[p]
        hd += h[p] * d[p]
    products[0, 0] = ea
    products[0, 1] = eb
    products[0, 2] = ec
    products[0, 3] = ed
    products[1, 0] = fa
    products[1, 1] = fb
    products[1, 2] = fc
    products[1, 3] = fd
    products[2, 0] = ga
    products[2, 1] = gb
    products[2, 2] = gc
    products[2, 3] = gd
    products[3, 0] = ha
    products[3, 1] = hb
    products[3, 2] = hc
    products[3, 3] = hd


@compiled
def _shrink(index: _Labels, start: int, variance: float, scores: NDArray[Any]) -> None:
    """Make scores of products, in place, for the labels from a place on."""
    real = scores.dtype.type
    shrinking = variance * real(math.pi / 8)
    bias = index.bias[start : start + scores.size]
    spreads = index.spreads[start : start + scores.size]
    for j in range(scores.size):
        scores[j] = (scores[j] + bias[j]) / math.sqrt(real(1) + shrinking * spreads[j])


@compiled
def _append(lists: _Lists, i: int, count: int, label: int, score: float) -> None:
    if lists.lengths[i] == lists.labels.shape[1]:
        _keep_highest(lists, i, count)
    lists.labels[i, lists.lengths[i]] = label
    lists.scores[i, lists.lengths[i]] = score
    lists.lengths[i] += 1


@compiled
def _keep_highest(lists: _Lists, i: int, count: int) -> None:
    """Keep the labels of highest score of a list that has more than `count`; of equal scores, the first ones."""
    length = lists.lengths[i]
    scores = lists.scores[i]
    lowest = np.partition(scores[:length], length - count)[length - count]
    equal = count
    for n in range(length):
        equal -= scores[n] > lowest
    kept = 0
    for n in range(length):
        if scores[n] == lowest:
            equal -= 1
            if equal < 0:
                continue
        elif scores[n] < lowest:
            continue
        lists.labels[i, kept] = lists.labels[i, n]
        scores[kept] = scores[n]
        kept += 1
    lists.lengths[i] = count
    lists.lowest[i] = lowest


@compiled
def _contains(points: _Points, i: int, label: int) -> bool:
    """Return whether a point excludes a label."""
    contains = False
    for e in range(points.indptr[i], points.indptr[i + 1]):
        contains |= points.excluded[e] == label
    return contains


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
