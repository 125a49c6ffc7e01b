"""Pairs of points and labels for the updates of label weights, from three strata.

Each label has pairs with all its positives, of weight 1; with the points that have it on their shortlist, of weight 1;
and with a uniform sample of the other points, whose weights sum to the number of other points. The shortlist of a point
has its S negatives of highest utility. Given the shortlists, the expected bound over these pairs is the bound over all
pairs, except for labels with so few other points that all draws may miss them. The shortlists reduce the variance: they
hold the negatives whose probability is not negligible. Unknown pairs are in no stratum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.gp.likelihood import Moments, pairwise_products
from xmlgp.linear_algebra.compiled import compiled, compiled_part
from xmlgp.linear_algebra.sparse import first_not_below
from xmlgp.models.mlgpf.label_weights.utilities import prepare_points
from xmlgp.prediction.terms import Prepared, Utilities
from xmlgp.prediction.top_k import update_top_k
from xmlgp.runtime.threads import parallel_for

__all__ = [
    "LabelPairs",
    "PointsByLabel",
    "Strata",
    "latent_offsets",
    "sample_size",
    "shortlist_length",
    "shortlist_negatives",
    "stratified_pairs",
]

#: The length of the shortest shortlist of a point.
MIN_SHORTLIST = 30

#: The length of the longest shortlist: the time to make one grows with the square of its length.
MAX_SHORTLIST = 1000

#: The number of points in the smallest sample of a label.
MIN_SAMPLE = 20

#: If shortlists and samples of minimum size would have fewer pairs than this, they are made larger, because the weights
#: of small samples are large. Of two sets, 300,000 rank test points no better.
MIN_PAIRS = 100_000

#: Points whose utilities one core computes at a time: few enough for the cache.
ROWS = 128

#: Labels whose utilities one core computes at a time.
TILE = 1 << 12

#: Fewest labels whose pairs one thread makes.
LABELS = 64

#: Utility that keeps positives off the shortlists; exact in single precision.
LOWEST = -(2.0**100)


class LabelPairs(NamedTuple):
    """Pairs (point, label) of consecutive labels, ordered by label: those of label l are `starts[l]:starts[l + 1]`.

    For each pair, `points` has the point; `target` has y, whether the point has the label; `weight` has c, the number
    of pairs that this one represents.
    """

    starts: NDArray[np.int64]
    points: NDArray[np.int32]
    target: NDArray[np.bool_]
    weight: NDArray[np.float32]


class PointsByLabel(NamedTuple):
    """Points by label, in ascending order: those of label k are `points[starts[k]:starts[k + 1]]`."""

    starts: NDArray[np.int64]
    points: NDArray[np.int32]


class Strata(NamedTuple):
    """The points of each label that are positive, and those that have it on their shortlist; others are drawn from."""

    positives: PointsByLabel
    shortlisted: PointsByLabel

    @classmethod
    def of(cls, labels: csr_array, shortlists: NDArray[np.int32]) -> Strata:
        """Return the strata, given Y, N×K, and the shortlists, N×S."""
        lengths = np.count_nonzero(shortlists >= 0, axis=1)
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        # Avoid a large copy: nearly always, all points have S negatives.
        indices = shortlists.ravel() if indptr[-1] == shortlists.size else shortlists[shortlists >= 0]
        return cls(_by_label(labels.indptr, labels.indices, labels.shape), _by_label(indptr, indices, labels.shape))

    def block(self, first: int, last: int) -> Strata:
        """Return the strata of consecutive labels."""
        return Strata(*(PointsByLabel(starts[first : last + 1], points) for starts, points in self))


def shortlist_length(N: int, K: int) -> int:
    """Return the length of the shortlist of a point, at most K."""
    return min(max(MIN_SHORTLIST, min(MIN_PAIRS // max(1, N), MAX_SHORTLIST)), K)


def sample_size(K: int) -> int:
    """Return the number of points that are drawn for each label."""
    return max(MIN_SAMPLE, MIN_PAIRS // max(1, K))


def shortlist_negatives(
    utilities: Utilities,
    latent: NDArray[Any],
    features: csr_array,
    positives: csr_array,
    length: int,
    among: NDArray[np.int32] | None = None,
) -> NDArray[np.int32]:
    """Return the negatives of highest mean utility of B points, B×S, highest first.

    The positives are B×K. A row with fewer than S negatives ends in −1. The utilities follow from the means `latent` of
    the latent functions, B×P, and the weighted `features`, B×D. The `length` S is at most K. If there are labels
    `among` which to look, B×L, the others are on no list; −1 is none.
    """
    B, K = positives.shape
    shortlists = np.empty((B, length), np.int32)

    def fill(start: int, stop: int) -> None:
        for begin in range(start, stop, ROWS):
            rows = slice(begin, min(begin + ROWS, stop))
            means_only = Moments(latent[rows], None)  # type: ignore[arg-type]  # variances are not needed here
            points = prepare_points(utilities, means_only, features[rows])
            hidden = positives[rows]
            owner = np.repeat(np.arange(hidden.shape[0]), np.diff(hidden.indptr))
            if among is not None:
                shortlists[rows] = _best_among(utilities, points, hidden, among[rows], length)
                continue
            best = np.empty(shortlists[rows].shape, latent.dtype)
            for first in range(0, K, TILE):
                means = utilities.means(points, slice(first, min(first + TILE, K)))
                inside = (hidden.indices >= first) & (hidden.indices < first + means.shape[1])
                means[owner[inside], hidden.indices[inside] - first] = LOWEST
                update_top_k(means, first, shortlists[rows], best)
            shortlists[rows][best <= LOWEST] = -1

    parallel_for(fill, B, ROWS)
    return shortlists


def _best_among(
    utilities: Utilities, prepared: Prepared, positives: csr_array, among: NDArray[np.int32], length: int
) -> NDArray[np.int32]:
    """Return the negatives of highest utility among some labels, B×S."""
    B, K = positives.shape
    best = np.full((B, length), -1, np.int32)
    if not among.size:
        return best
    points = np.repeat(np.arange(B), np.diff(positives.indptr))
    is_hidden = np.isin(np.arange(B)[:, None] * K + among, points * K + positives.indices) | (among < 0)
    means = np.where(is_hidden, LOWEST, utilities.means(prepared, np.maximum(among, 0)))
    order = np.argsort(-means, axis=1, kind="stable")[:, :length]
    hidden = np.take_along_axis(is_hidden, order, axis=1)
    best[:, : order.shape[1]] = np.where(hidden, -1, np.take_along_axis(among, order, axis=1))
    return best


def _by_label(indptr: NDArray[Any], indices: NDArray[Any], shape: tuple[int, int]) -> PointsByLabel:
    by_label = csr_array((np.ones(len(indices), bool), indices, indptr), shape=shape).tocsc()
    return PointsByLabel(by_label.indptr.astype(np.int64), by_label.indices.astype(np.int32))


def stratified_pairs(
    strata: Strata, first: int, last: int, seed: Sequence[int], candidates: NDArray[np.int32], count: int
) -> LabelPairs:
    """Return the pairs of labels `first` to `last` − 1, given the strata of all labels.

    `count` points are drawn for each label from the `candidates`, which are in ascending order. The candidates are all
    points that have labels or a shortlist. The draws depend on the seed and on the first label.
    """
    strata = strata.block(first, last)
    drawn = np.random.default_rng([*seed, first]).integers(0, len(candidates), (last - first, count), np.int32)
    drawn.sort(axis=1)
    sample = candidates[drawn]
    # Space for all draws; those that are left out leave a gap at the end of their label.
    capacities = np.diff(strata.positives.starts) + np.diff(strata.shortlisted.starts) + count
    begins = np.concatenate([[0], np.cumsum(capacities)]).astype(np.int64)
    size = begins[-1]
    spaced = LabelPairs(begins, np.empty(size, np.int32), np.zeros(size, bool), np.empty(size, np.float32))
    lengths = np.zeros(last - first, np.int64)
    arguments = len(candidates), strata, sample, spaced, lengths
    parallel_for(lambda start, stop: _fill(start, stop, *arguments), last - first, LABELS)
    used = np.arange(size) - np.repeat(begins[:-1], capacities) < np.repeat(lengths, capacities)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return LabelPairs(starts, spaced.points[used], spaced.target[used], spaced.weight[used])


@compiled
def _fill(
    start: int,
    stop: int,
    population: int,
    strata: Strata,
    sample: NDArray[np.int32],
    pairs: LabelPairs,
    lengths: NDArray[np.int64],
) -> None:
    """Write the pairs of labels `start` to `stop` − 1 from `pairs.starts` on, and how many each label has."""
    points = pairs.points
    target = pairs.target
    weight = pairs.weight
    positives, shortlisted = strata
    for k in range(start, stop):
        end = pairs.starts[k]
        label_positives = positives.points[positives.starts[k] : positives.starts[k + 1]]
        label_shortlisted = shortlisted.points[shortlisted.starts[k] : shortlisted.starts[k + 1]]
        for i in label_positives:
            points[end] = i
            target[end] = True
            weight[end] = 1
            end += 1
        for i in label_shortlisted:
            points[end] = i
            target[end] = False
            weight[end] = 1
            end += 1
        sampled = end
        previous = -1
        for i in sample[k]:
            if i == previous or _contains(label_positives, i) or _contains(label_shortlisted, i):
                continue
            points[end] = i
            target[end] = False
            previous = i
            end += 1
        # If all draws are in a stratum, no pair represents the other points.
        others = population - len(label_positives) - len(label_shortlisted)
        for e in range(sampled, end):
            weight[e] = others / (end - sampled)
        lengths[k] = end - pairs.starts[k]


@compiled_part
def _contains(values: NDArray[np.int32], value: int) -> bool:
    """Return whether values in ascending order contain a value."""
    e = first_not_below(values, value, 0, len(values))
    return bool(e < len(values) and values[e] == value)


def latent_offsets(
    pairs: LabelPairs, latent: NDArray[Any], loadings: NDArray[Any], bias: NDArray[Any], share: float
) -> NDArray[Any]:
    """Return share · φ_lᵀ h_n + b_l for each pair (n, l), given the means h, N×P, loadings Φ, L×P, and biases b, L."""
    offset = pairwise_products(loadings, latent, pairs.starts, pairs.points)
    offset *= share
    offset += np.repeat(bias, np.diff(pairs.starts))
    return offset
