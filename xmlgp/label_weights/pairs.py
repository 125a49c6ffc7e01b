"""Pairs of points and labels for the updates of label weights, stratified by how much they matter.

Each label has three kinds of pairs: all its positives, with weight 1; the points that have it on their shortlist, with
weight 1; and a uniform sample of all other points, which share the weight of those that were not drawn. The shortlist
of a point has the S negatives of highest utility. Given the shortlists, the bound over these pairs is on average that
over all pairs, but for labels of which so few points are negative and not listed that all draws may miss them. The
shortlists only lower its variance: they hold the negatives whose probability is not negligible.

Where a model learns on, one more pair of each label stands for the earlier points (`MeanPoint`).
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
    "latent_offsets",
    "listed_by_label",
    "positives_by_label",
    "sample_size",
    "shortlist_length",
    "shortlist_negatives",
    "stratified_pairs",
]

#: Negatives on the shortlist of a point, and points sampled for a label beside those that list it; more of both where
#: they are fewer pairs than the third number. A sampled point stands for many others, so that few would mislead. The
#: time for a shortlist grows with the square of its length, so there is a limit.
SHORTLIST, SAMPLED, LEAST_PAIRS, LONGEST_SHORTLIST = 30, 20, 1_000_000, 1000

#: Points and labels whose utilities one core computes at a time: few enough for the cache.
ROWS, TILE = 128, 1 << 12

#: Fewest labels per thread whose pairs are made.
LABELS = 64

#: Utility of positives while negatives are listed. It is the same in single and in double precision.
LOWEST = -(2.0**100)


class LabelPairs(NamedTuple):
    """Pairs (point, label) of consecutive labels, ordered by label: those of label l are `starts[l]:starts[l + 1]`.

    For each pair, `points` has the point, int32; `target` y, whether the point has the label, bool, or a number where a
    pair stands for many points; and `weight` c, how many pairs it stands for.
    """

    starts: np.ndarray
    points: np.ndarray
    target: np.ndarray
    weight: np.ndarray


def shortlist_length(N, K):
    """Return the length of the shortlist of a point, at most K."""
    return min(max(SHORTLIST, min(LEAST_PAIRS // max(1, N), LONGEST_SHORTLIST)), K)


def sample_size(K):
    """Return how many points are drawn for each label beside its positives and those that list it."""
    return max(SAMPLED, LEAST_PAIRS // max(1, K))


def shortlist_negatives(utilities, latent, features, labels, length):
    """Return the negatives of highest mean utility of B points, B×S, int32, highest first.

    A point with fewer than S negatives has −1 after them. The utilities (`UtilityMoments`) take the means of the latent
    functions, B×P, and weighted features, B×D; the length S is at most K.
    """
    (B, K), out = labels.shape, np.empty((labels.shape[0], length), np.int32)

    def part(start, stop):
        for begin in range(start, stop, ROWS):
            rows = slice(begin, min(begin + ROWS, stop))
            batch, positives = utilities.batch(Moments(latent[rows], None), features[rows]), labels[rows]
            best = np.empty(out[rows].shape, latent.dtype)
            for first in range(0, K, TILE):
                means, _ = utilities.moments(batch, slice(first, min(first + TILE, K)), with_variance=False)
                _hide(first, positives.indptr, positives.indices, means)
                update_top_k(means, first, out[rows], best)
            out[rows][best <= LOWEST] = -1

    parallel_for(part, B, ROWS)
    return out


@compiled
def _hide(first, indptr, indices, utilities):
    """Lower the utilities of the positives among consecutive labels."""
    for i in range(utilities.shape[0]):
        for e in range(indptr[i], indptr[i + 1]):
            if first <= indices[e] < first + utilities.shape[1]:
                utilities[i, indices[e] - first] = LOWEST


def positives_by_label(labels):
    """Return the points of each label, given Y: starts, K+1, and points in ascending order within each label."""
    return _by_label(labels.indptr, labels.indices, labels.shape)


def listed_by_label(shortlist, K):
    """Return the points that list each label, as `positives_by_label` does, given the shortlists, N×S."""
    lengths = np.count_nonzero(shortlist >= 0, axis=1)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    # A copy would take much memory, and rarely a point has fewer negatives.
    indices = shortlist.ravel() if indptr[-1] == shortlist.size else shortlist[shortlist >= 0]
    return _by_label(indptr, indices, (len(shortlist), K))


def _by_label(indptr, indices, shape):
    by_label = sp.csr_array((np.ones(len(indices), bool), indices, indptr), shape=shape).tocsc()
    return by_label.indptr.astype(np.int64), by_label.indices.astype(np.int32)


def stratified_pairs(positives, listed, first, last, seed, drawn_from, count):
    """Return the `LabelPairs` of some consecutive labels, given `positives_by_label` and `listed_by_label`.

    Beside these, `count` points are drawn for each label from `drawn_from`, int32 and ascending; all other points have
    neither labels nor a shortlist. The draws depend on the seed, a sequence of int, and the first label.
    """
    N = len(drawn_from)
    lengths = [np.diff(part[0][first : last + 1]) for part in (positives, listed)]
    most = lengths[0] + lengths[1] + count
    begins = np.concatenate([[0], np.cumsum(most)]).astype(np.int64)
    drawn = np.random.default_rng([*seed, first]).integers(0, N, (last - first, count), np.int32)
    drawn.sort(axis=1)
    drawn = drawn_from[drawn]
    points, weight = np.empty(begins[-1], np.int32), np.empty(begins[-1], np.float32)
    positive, lengths = np.zeros(begins[-1], bool), np.zeros(last - first, np.int64)
    arrays = *positives, *listed, drawn, begins, points, positive, weight, lengths
    parallel_for(lambda i, j: _fill(i, j, first, N, *arrays), last - first, LABELS)
    kept = np.arange(begins[-1]) - np.repeat(begins[:-1], most) < np.repeat(lengths, most)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return LabelPairs(starts, points[kept], positive[kept], weight[kept])


@compiled
def _fill(
    start, stop, first, N, p_starts, p_points, n_starts, n_points, drawn, begins, points, positive, weight, lengths
):
    for j in range(start, stop):
        k, end = first + j, begins[j]
        positives, negatives = p_points[p_starts[k] : p_starts[k + 1]], n_points[n_starts[k] : n_starts[k + 1]]
        for i in positives:
            points[end], positive[end], weight[end] = i, True, 1
            end += 1
        for i in negatives:
            points[end], positive[end], weight[end] = i, False, 1
            end += 1
        sampled, last = end, -1
        for i in drawn[j]:
            if i == last or _contains(positives, i) or _contains(negatives, i):
                continue
            points[end], positive[end], last = i, False, i
            end += 1
        # If all draws were positives or listed, no pair stands for the other points of the label.
        for e in range(sampled, end):
            weight[e] = (N - len(positives) - len(negatives)) / (end - sampled)
        lengths[j] = end - begins[j]


@compiled
def _contains(values, value):
    e = np.searchsorted(values, value)
    return e < len(values) and values[e] == value


def latent_offsets(pairs, latent, loadings, bias, share):
    """Return a share of the mean of Φ h, and b, for each of the pairs of L labels: h is N×P, Φ L×P and b L."""
    offset = pairwise_products(loadings, latent, pairs.starts, pairs.points)
    offset *= share
    offset += np.repeat(bias, np.diff(pairs.starts))
    return offset


class MeanPoint(NamedTuple):
    """One point that stands for many earlier ones, the last row of the features of a sweep.

    A pair of it and label k has the utility f̄_k before the sweep. Its target and weight are such that the slope and the
    curvature of its bound there are those of N earlier points with that utility: of N p̄_k positives for a label that
    they had, so that the slope is zero, and of none for a new label, with p̄_k = σ(f̄_k). Without it, a batch with few
    points that lack a label would raise the utilities of that label for all points. Targets and weights are arrays, L.
    """

    target: np.ndarray
    weight: np.ndarray

    @classmethod
    def of(cls, utility, N, known):
        """Return the pairs of L labels, given f̄, the number of earlier points and which labels these have."""
        probability = expit(utility.astype(np.float64))
        _, slope = JaakkolaJordan().gradients(utility.astype(np.float64), 0.0)
        weight = N * probability * (1 - probability) / (2 * slope)
        target = np.where(known, probability, probability - 2 * slope / (1 - probability))
        return cls(target.astype(np.float32), weight.astype(np.float32))

    def add_to(self, pairs, first, row):
        """Return the `LabelPairs` of labels from `first` on with one more for each: that of the point `row`."""
        ends, part = pairs.starts[1:], slice(first, first + len(pairs.starts) - 1)
        return LabelPairs(
            pairs.starts + np.arange(len(pairs.starts)),
            np.insert(pairs.points, ends, np.int32(row)),
            np.insert(pairs.target.astype(np.float32), ends, self.target[part]),
            np.insert(pairs.weight, ends, self.weight[part]),
        )
