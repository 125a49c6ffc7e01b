"""Pairs of points and labels for the updates of label weights, from three strata.

Each label has pairs with all its positives, of weight 1; with the points that have it on their shortlist, of weight 1;
and with a uniform sample of the other points, whose weights sum to the number of other points. The shortlist of a point
has its S negatives of highest utility. Given the shortlists, the expected bound over these pairs is the bound over all
pairs, except for labels with so few other points that all draws may miss them. The shortlists reduce the variance: they
hold the negatives whose probability is not negligible.

When a model learns more points, earlier ones may be replayed, with `PairWeights`, and each label has one more pair for
those that are not (`MeanPoint`).
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

from xmlgp.gp.expectations import JaakkolaJordan
from xmlgp.gp.likelihood import Moments, pairwise_products
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.prediction.top_k import update_top_k
from xmlgp.runtime.threads import parallel_for

__all__ = [
    "LabelPairs",
    "MeanPoint",
    "PairWeights",
    "latent_offsets",
    "positives_by_label",
    "sample_size",
    "shortlist_length",
    "shortlist_negatives",
    "shortlisted_by_label",
    "stratified_pairs",
]

#: The shortest shortlist of a point and the smallest sample of a label. Both are larger if they make fewer pairs than
#: MIN_PAIRS, because weights are large in small samples. The time for a shortlist grows with the square of its length,
#: so its length is limited.
MIN_SHORTLIST = 30
MIN_SAMPLE = 20
MIN_PAIRS = 1_000_000
MAX_SHORTLIST = 1000

#: Draws for each point, of all that are drawn from, that reach all of them: one is missed with probability e^−50.
CERTAIN = 50

#: Points and labels whose utilities one core computes at a time: few enough for the cache.
ROWS = 128
TILE = 1 << 12

#: Fewest labels whose pairs one thread makes.
LABELS = 64

#: Utility that keeps positives off the shortlists; exact in single precision.
LOWEST = -(2.0**100)


class LabelPairs(NamedTuple):
    """Pairs (point, label) of consecutive labels, ordered by label: those of label l are `starts[l]:starts[l + 1]`.

    For each pair, `points` has the point, int32; `target` has y, whether the point has the label (bool), or a number
    for the pair of a `MeanPoint`; `weight` has c, the number of pairs that this one represents.
    """

    starts: np.ndarray
    points: np.ndarray
    target: np.ndarray
    weight: np.ndarray


def shortlist_length(N, K):
    """Return the length of the shortlist of a point, at most K."""
    return min(max(MIN_SHORTLIST, min(MIN_PAIRS // max(1, N), MAX_SHORTLIST)), K)


def sample_size(K):
    """Return the number of points that are drawn for each label."""
    return max(MIN_SAMPLE, MIN_PAIRS // max(1, K))


def shortlist_negatives(utilities, latent, features, labels, length):
    """Return the negatives of highest mean utility of B points, B×S, int32, highest first.

    A row with fewer than S negatives ends in −1. The `utilities` (`UtilityMoments`) follow from the means `latent` of
    the latent functions, B×P, and the weighted `features`, B×D. The `length` S is at most K.
    """
    (B, K) = labels.shape
    out = np.empty((labels.shape[0], length), np.int32)

    def fill(start, stop):
        for begin in range(start, stop, ROWS):
            rows = slice(begin, min(begin + ROWS, stop))
            batch = utilities.batch(Moments(latent[rows], None), features[rows])
            positives = labels[rows]
            best = np.empty(out[rows].shape, latent.dtype)
            for first in range(0, K, TILE):
                means, _ = utilities.moments(batch, slice(first, min(first + TILE, K)), with_variance=False)
                _hide(first, positives.indptr, positives.indices, means)
                update_top_k(means, first, out[rows], best)
            out[rows][best <= LOWEST] = -1

    parallel_for(fill, B, ROWS)
    return out


@compiled
def _hide(first, indptr, indices, utilities):
    """Set the utilities of positives to LOWEST, for consecutive labels from `first` on."""
    for i in range(utilities.shape[0]):
        for e in range(indptr[i], indptr[i + 1]):
            if first <= indices[e] < first + utilities.shape[1]:
                utilities[i, indices[e] - first] = LOWEST


def positives_by_label(labels):
    """Return the points of each label, given Y: starts, K+1, and points in ascending order within each label."""
    return _by_label(labels.indptr, labels.indices, labels.shape)


def shortlisted_by_label(shortlists, K):
    """Return the points with each label on their shortlist, as in `positives_by_label`, given the shortlists, N×S."""
    lengths = np.count_nonzero(shortlists >= 0, axis=1)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    # Avoid a large copy: nearly always, all points have S negatives.
    indices = shortlists.ravel() if indptr[-1] == shortlists.size else shortlists[shortlists >= 0]
    return _by_label(indptr, indices, (len(shortlists), K))


def _by_label(indptr, indices, shape):
    by_label = sp.csr_array((np.ones(len(indices), bool), indices, indptr), shape=shape).tocsc()
    return by_label.indptr.astype(np.int64), by_label.indices.astype(np.int32)


def stratified_pairs(positives, shortlisted, first, last, seed, drawn_from, count, population=None):
    """Return the `LabelPairs` of labels `first` to `last` − 1, given `positives_by_label` and `shortlisted_by_label`.

    `count` points are drawn for each label from `drawn_from`, int32, ascending. These are all points that have labels
    or a shortlist, or a random sample of a `population`, the number of points that are meant. The draws depend on
    `seed`, a sequence of int, and on the first label.
    """
    N = population or len(drawn_from)
    certain = count > CERTAIN * len(drawn_from)
    if certain:
        count = len(drawn_from)
    fixed = [np.diff(part[0][first : last + 1]) for part in (positives, shortlisted)]
    capacities = fixed[0] + fixed[1] + count
    begins = np.concatenate([[0], np.cumsum(capacities)]).astype(np.int64)
    if certain:
        drawn = np.tile(drawn_from, (last - first, 1))
    else:
        drawn = np.random.default_rng([*seed, first]).integers(0, len(drawn_from), (last - first, count), np.int32)
        drawn.sort(axis=1)
        drawn = drawn_from[drawn]
    points = np.empty(begins[-1], np.int32)
    weight = np.empty(begins[-1], np.float32)
    positive = np.zeros(begins[-1], bool)
    lengths = np.zeros(last - first, np.int64)
    arrays = *positives, *shortlisted, drawn, begins, points, positive, weight, lengths
    parallel_for(lambda i, j: _fill(i, j, first, N, *arrays), last - first, LABELS)
    kept = np.arange(begins[-1]) - np.repeat(begins[:-1], capacities) < np.repeat(lengths, capacities)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return LabelPairs(starts, points[kept], positive[kept], weight[kept])


@compiled
def _fill(
    start, stop, first, N, p_starts, p_points, s_starts, s_points, drawn, begins, points, positive, weight, lengths
):
    for j in range(start, stop):
        k = first + j
        end = begins[j]
        positives = p_points[p_starts[k] : p_starts[k + 1]]
        shortlisted = s_points[s_starts[k] : s_starts[k + 1]]
        for i in positives:
            points[end] = i
            positive[end] = True
            weight[end] = 1
            end += 1
        for i in shortlisted:
            points[end] = i
            positive[end] = False
            weight[end] = 1
            end += 1
        sampled = end
        last = -1
        for i in drawn[j]:
            if i == last or _contains(positives, i) or _contains(shortlisted, i):
                continue
            points[end] = i
            positive[end] = False
            last = i
            end += 1
        # If all draws are positive or shortlisted, no pair represents the other points.
        for e in range(sampled, end):
            weight[e] = (N - len(positives) - len(shortlisted)) / (end - sampled)
        lengths[j] = end - begins[j]


@compiled
def _contains(values, value):
    e = np.searchsorted(values, value)
    return e < len(values) and values[e] == value


def latent_offsets(pairs, latent, loadings, bias, share):
    """Return share · φ_lᵀ h_n + b_l for each pair (n, l), given the means h, N×P, loadings Φ, L×P, and biases b, L."""
    offset = pairwise_products(loadings, latent, pairs.starts, pairs.points)
    offset *= share
    offset += np.repeat(bias, np.diff(pairs.starts))
    return offset


class PairWeights(NamedTuple):
    """The weights of the first M points, which stand for more, where the shares f of earlier points are replayed.

    Of the earlier points with label k, f_k are among these, and each counts as one. So the posterior of before stands
    for 1 − f_k of what was learned, and a point that stands for w points counts as f_k w negatives of the label.
    `weights` are w, M; `shares` are f, L.
    """

    weights: np.ndarray
    shares: np.ndarray

    def weigh(self, pairs, first):
        """Return the `LabelPairs` of labels from `first` on with these weights."""
        shares = np.repeat(self.shares[first : first + len(pairs.starts) - 1], np.diff(pairs.starts))
        negative = (pairs.points < len(self.weights)) & ~pairs.target
        weight = pairs.weight.copy()
        weight[negative] *= self.weights[pairs.points[negative]] * shares[negative]
        return pairs._replace(weight=weight)


class MeanPoint(NamedTuple):
    """One point that represents N earlier points, which may depend on the label: the last row of the features.

    Before the sweep, the pair of this point and label k has the utility f̄_k. The target and weight of the pair give its
    bound the slope and curvature that N points with this utility have. With p̄_k = σ(f̄_k), N p̄_k of these points are
    positive if the earlier points had the label, so the slope is zero; for a new label none is. Without this point,
    a batch with few negatives of a label would raise its utilities for all points. Targets and weights are arrays, L.
    """

    target: np.ndarray
    weight: np.ndarray

    @classmethod
    def of(cls, utility, N, known):
        """Return the pairs of L labels, given f̄, the number N of earlier points and which labels these have."""
        probability = expit(utility.astype(np.float64))
        _, slope = JaakkolaJordan().gradients(utility.astype(np.float64), 0.0)
        weight = N * probability * (1 - probability) / (2 * slope)
        target = np.where(known, probability, probability - 2 * slope / (1 - probability))
        return cls(target.astype(np.float32), weight.astype(np.float32))

    def add_to(self, pairs, first, row):
        """Add one pair for each label to the `LabelPairs` of labels from `first` on: that of the point in `row`."""
        ends = pairs.starts[1:]
        part = slice(first, first + len(pairs.starts) - 1)
        return LabelPairs(
            pairs.starts + np.arange(len(pairs.starts)),
            np.insert(pairs.points, ends, np.int32(row)),
            np.insert(pairs.target.astype(np.float32), ends, self.target[part]),
            np.insert(pairs.weight, ends, self.weight[part]),
        )
