"""Clusters of labels with similar loadings and biases, and which share of the best labels the first clusters have."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xmlgp.linear_algebra.array_groups import Array, ArrayGroup, Sizes, at_least, csr_pattern
from xmlgp.linear_algebra.dense import product_by_rows
from xmlgp.linear_algebra.k_means import cluster_means, nearest_centroids
from xmlgp.prediction.top_k import update_top_k
from xmlgp.runtime.random_streams import Stream, random_stream
from xmlgp.runtime.threads import one_blas_thread, parallel_for, run_parallel

__all__ = ["FEWEST_LABELS", "LABEL_INDEX", "LabelIndex", "cluster_labels", "measured_by_loadings"]

#: Fewest labels for which an index is made. With fewer, the products with all loadings take little of the time.
FEWEST_LABELS = 4096

#: Clusters, divided by √K. To find 0.99 of the five best of 18,063 labels, 11 % of these must be scanned with 4, 5 %
#: with 8, and 2.4 % with 16.
CLUSTERS = 16

#: Least number of labels per cluster on average: the centroids have a part of the size of the loadings.
LEAST_SIZE = 8

#: Labels per cluster by which the centroids are found; then all labels are assigned to them.
SAMPLE = 4

#: Iterations of k-means. With 6, as many labels must be scanned.
ITERATIONS = 3
#: Groups of centroids among which the nearest centroid of a label is sought. With 4, a tenth more labels must be
#: scanned.
GROUPS = 8

#: Shares of the best labels for which `LabelIndex.describe` has the number of clusters.
SHOWN = (0.9, 0.95, 0.98, 0.99, 0.995)

#: Labels that are assigned to centroids at a time.
CHUNK = 4096


def _are_all(values: NDArray[Any], sizes: Sizes) -> bool:
    """Return whether numbers, which are in range, are those of all labels, ascending but at the starts of clusters."""
    falls = np.count_nonzero(values[1:] < values[:-1])
    return bool((np.bincount(values, minlength=sizes["K"]) == 1).all() and falls < sizes["G"])


def _is_recall(values: NDArray[Any], sizes: Sizes) -> bool:
    """Return whether numbers are shares that do not fall with the number of clusters."""
    return bool((values >= 0).all() and (values <= 1).all() and (values[:-1] <= values[1:]).all())


_PATTERN = csr_pattern("G K", "K", "starts", "labels")
_IN_RANGE = _PATTERN["labels"].check

#: The arrays of a `LabelIndex`.
LABEL_INDEX = ArrayGroup(
    "label_index.",
    starts=_PATTERN["starts"],
    labels=Array(
        "K", np.int32, lambda values, sizes: bool(_IN_RANGE and _IN_RANGE(values, sizes)) and _are_all(values, sizes)
    ),
    centroids=Array("G P", np.float32),
    biases=Array("G", np.float32),
    reaches=Array("G", np.float32, at_least(0)),
    recall=Array("G", np.float32, _is_recall),
)


class LabelIndex(NamedTuple):
    """Clusters of labels; those of cluster c are `labels[starts[c]:starts[c + 1]]`, ascending.

    `centroids`, G×P, and `biases`, G, are the means of the loadings and biases of their labels. The highest utility in
    a cluster is about the mean one and |h| times its reach, one of `reaches`, G. `recall`, G, has the share of the best
    labels of points that are in their first 1, 2, ... clusters, as it was measured.
    """

    starts: NDArray[np.int64]
    labels: NDArray[np.int32]
    centroids: NDArray[np.float32]
    biases: NDArray[np.float32]
    reaches: NDArray[np.float32]
    recall: NDArray[np.float32]

    @classmethod
    def of(cls, parameters: Mapping[str, NDArray[Any]]) -> LabelIndex | None:
        """Return the index of a model, given its parameters by name; None if it has none."""
        arrays = LABEL_INDEX.read(parameters)
        return cls(**arrays) if arrays else None

    def parameters(self) -> dict[str, NDArray[Any]]:
        """Return the arrays by parameter name."""
        return LABEL_INDEX.named(self._asdict())

    def cluster_scores(self, latent: NDArray[Any]) -> NDArray[np.float32]:
        """Return about the highest utility in each cluster, B×G, given means of latent functions, B×P.

        Those of a point do not depend on the other points.
        """
        latent = latent.astype(np.float32, copy=False)
        scores = product_by_rows(latent, self.centroids.T)
        scores += self.biases
        scores += np.sqrt(np.einsum("bp,bp->b", latent, latent))[:, None] * self.reaches
        return scores

    def measured(self, latent: NDArray[Any], best: NDArray[np.integer], found: NDArray[np.bool_]) -> LabelIndex:
        """Return the index with the recall of the best labels of some points, B×k.

        `latent` are the means of their latent functions, B×P. Labels that are not `found`, B×k, count as missed in any
        case.
        """
        scores = self.cluster_scores(latent)
        clusters = self.cluster[best]
        before = np.empty(best.shape, np.int64)
        for rank in range(best.shape[1]):
            before[:, rank] = np.count_nonzero(scores > np.take_along_axis(scores, clusters[:, rank, None], 1), axis=1)
        counts = np.bincount(before[found], minlength=len(self.biases))
        return self._replace(recall=(np.cumsum(counts) / max(1, best.size)).astype(np.float32))

    def clusters_for(self, recall: float) -> int | None:
        """Return how many clusters of a point have this share of its best labels; None if all together lack it."""
        first = int(np.searchsorted(self.recall, np.float32(recall)))
        return first + 1 if first < len(self.recall) else None

    def describe(self) -> str:
        """Return what the index is worth, in words."""
        counts = ((recall, self.clusters_for(recall)) for recall in SHOWN)
        shares = "".join(f"{recall:.1%} in the first {count:,}, " for recall, count in counts if count)
        return (
            f"{len(self.biases):,} clusters of labels; of the five best labels of a point {shares}"
            f"{self.recall[-1]:.1%} in all"
        )

    @property
    def cluster(self) -> NDArray[np.int64]:
        """The cluster of each label, K."""
        cluster = np.empty(len(self.labels), np.int64)
        cluster[self.labels] = np.repeat(np.arange(len(self.biases)), np.diff(self.starts))
        return cluster


def _index_of(rows: NDArray[np.float32], cluster: NDArray[np.int64]) -> LabelIndex:
    """Return the index of labels, given what they are clustered by and their clusters, all of which have labels."""
    centers = _means(rows, cluster)
    sizes = np.bincount(cluster)
    return LabelIndex(
        starts=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        labels=np.argsort(cluster, kind="stable").astype(np.int32),
        centroids=np.ascontiguousarray(centers[:, :-1]),
        biases=centers[:, -1].copy(),
        reaches=_reaches(rows, centers, cluster),
        recall=np.zeros(len(centers), np.float32),
    )


def _rows(loadings: NDArray[Any], bias: NDArray[Any]) -> NDArray[np.float32]:
    """Return what labels are clustered by, K×(P+1)."""
    return np.hstack([loadings, bias[:, None]]).astype(np.float32, copy=False)


def cluster_labels(loadings: NDArray[Any], bias: NDArray[Any], seed: int) -> LabelIndex:
    """Return the index of labels with loadings Φ, K×P, and biases b, whose recall is not measured yet (zero).

    Clusters are those of k-means on the rows of [Φ, b], because labels with the same loadings and bias have the same
    utility but for W x.
    """
    K = len(bias)
    count = max(1, min(round(CLUSTERS * K**0.5), K // LEAST_SIZE))
    random = random_stream(seed, Stream.LABEL_INDEX)
    rows = _rows(loadings, bias)
    sample = rows[np.sort(random.choice(K, min(K, SAMPLE * count), replace=False))]
    with one_blas_thread():
        centers = sample[np.sort(random.choice(len(sample), count, replace=False))]
        for _ in range(ITERATIONS):
            centers = _means(sample, _nearest(sample, centers))
        # Without the clusters that have no label.
        _, cluster = np.unique(_nearest(rows, centers), return_inverse=True)
        # Frequent labels first: a search that has found high scores takes few of the lower ones that follow.
        order = np.argsort(-_means(rows, cluster)[:, -1], kind="stable")
        return _index_of(rows, np.argsort(order)[cluster])


def measured_by_loadings(
    index: LabelIndex, loadings: NDArray[Any], bias: NDArray[Any], latent: NDArray[Any], count: int
) -> LabelIndex:
    """Return the index with the recall of the labels of highest utility Φ h + b, so many of each of some points."""
    best = np.empty((len(latent), min(count, len(bias))), np.int32)
    scores = np.empty(best.shape, latent.dtype)

    def rank(start: int, stop: int) -> None:
        for first in range(0, len(bias), CHUNK):
            block = slice(first, first + CHUNK)
            update_top_k(
                latent[start:stop] @ loadings[block].T + bias[block], first, best[start:stop], scores[start:stop]
            )

    with one_blas_thread():
        parallel_for(rank, len(latent), 1)
    return index.measured(latent, best, np.ones(best.shape, bool))


def _reaches(
    rows: NDArray[np.float32], centers: NDArray[np.float32], cluster: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Return r √(2 log n / P) for n labels whose loadings deviate from their mean by r, in root mean square.

    If the deviations were normal, and had no preferred direction, the largest of n products with a vector of unit
    length would be about that.
    """
    sizes = np.bincount(cluster)
    squares = np.zeros(len(rows), np.float32)
    for start in range(0, len(rows), CHUNK):
        chunk = slice(start, start + CHUNK)
        squares[chunk] = np.square(rows[chunk, :-1] - centers[cluster[chunk], :-1]).sum(axis=1)
    mean_squares = np.bincount(cluster, squares) / sizes
    reaches: NDArray[np.float32] = np.sqrt(2 * np.log(sizes) * mean_squares / (rows.shape[1] - 1)).astype(np.float32)
    return reaches


def _means(rows: NDArray[np.float32], cluster: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the means of the clusters that have rows."""
    _, cluster = np.unique(cluster, return_inverse=True)
    return cluster_means(rows, cluster, int(cluster.max()) + 1)


def _nearest(rows: NDArray[np.float32], centers: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return nearly always the nearest center of each row: the nearest one in the groups of centers nearest to it."""
    group_count = max(1, round(len(centers) ** 0.5))
    group_centers = centers[:: max(1, len(centers) // group_count)]
    for _ in range(ITERATIONS):
        group_centers = cluster_means(centers, nearest_centroids(centers, group_centers), len(group_centers))
    group = nearest_centroids(centers, group_centers)
    members = [np.flatnonzero(group == number) for number in range(len(group_centers))]
    transposed = [np.ascontiguousarray(centers[numbers].T) for numbers in members]
    half_squares = 0.5 * np.einsum("cp,cp->c", centers, centers)
    group_half_squares = 0.5 * np.einsum("cp,cp->c", group_centers, group_centers)
    visited = min(GROUPS, len(group_centers))
    nearest = np.empty(len(rows), np.int64)

    def assign(start: int) -> None:
        chunk = rows[start : start + CHUNK]
        closeness = chunk @ group_centers.T - group_half_squares
        visits = np.zeros(closeness.shape, bool)
        np.put_along_axis(visits, np.argpartition(-closeness, visited - 1, axis=1)[:, :visited], True, axis=1)
        best = np.full(len(chunk), -np.inf, np.float32)
        chosen = nearest[start : start + CHUNK]
        for number, columns in enumerate(transposed):
            visiting = np.flatnonzero(visits[:, number])
            scores = chunk[visiting] @ columns - half_squares[members[number]]
            first = scores.argmax(axis=1)
            highest = scores[np.arange(len(visiting)), first]
            better = highest > best[visiting]
            best[visiting[better]] = highest[better]
            chosen[visiting[better]] = members[number][first[better]]

    # The same chunks, and so the same rounding, on any number of cores.
    run_parallel(functools.partial(assign, start) for start in range(0, len(rows), CHUNK))
    return nearest
