"""Pairs of points and labels for the updates of label weights, stratified by how much they matter.

Each label has three kinds of pairs: all its positives, with weight 1; the points that have it on their shortlist, with
weight 1; and a uniform sample of all other points, which share the weight of those that were not drawn. The shortlist
of a point has the S negatives of highest utility. Given the shortlists, the bound over these pairs is on average that
over all pairs, but for labels of which so few points are negative and not listed that all draws may miss them. The
shortlists only lower its variance: they hold the negatives whose probability is not negligible.
"""

import numpy as np
import scipy.sparse as sp

from xmlgp.gp.label_weight_updates import LabelPairs
from xmlgp.gp.likelihood import pairwise_products
from xmlgp.gp.posteriors import Moments
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.prediction.top_k import update_top_k
from xmlgp.runtime.threads import parallel_for

__all__ = ["StratifiedPairs", "listed_by_label", "pairs_with_offsets", "positives_by_label", "shortlist_negatives"]

#: Points and labels whose utilities one core computes at a time: few enough for the cache.
ROWS, TILE = 128, 1 << 12

#: Fewest labels per thread whose pairs are made.
LABELS = 64

#: Utility of positives while negatives are listed. It is the same in single and in double precision.
LOWEST = -(2.0**100)


def shortlist_negatives(utilities, latent, features, labels, out):
    """Write the negatives of highest mean utility of some points to `out`, highest first.

    Parameters
    ----------
    utilities : UtilityMoments
    latent : ndarray, B×P
        Means of the latent functions.
    features : csr_array, B×D
        X, weighted.
    labels : csr_array, B×K
        Y.
    out : ndarray of int32, B×S
        S is at most K. A point with fewer negatives has −1 after them.
    """
    K = labels.shape[1]

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

    parallel_for(part, len(out), ROWS)


@compiled
def _hide(first, indptr, indices, utilities):
    """Lower the utilities of the positives among consecutive labels."""
    for i in range(utilities.shape[0]):
        for e in range(indptr[i], indptr[i + 1]):
            if first <= indices[e] < first + utilities.shape[1]:
                utilities[i, indices[e] - first] = LOWEST


class StratifiedPairs:
    """The pairs of all labels, made for a block of consecutive labels at a time.

    Parameters
    ----------
    positives, negatives : tuple of ndarray
        See `positives_by_label` and `listed_by_label`.
    sampled : int
        Points drawn for each label beside these.
    seed : sequence of int
        Determines the draws of every label.
    points : ndarray of int
        The points to draw from, in ascending order; the others have neither labels nor a shortlist.
    """

    def __init__(self, positives, negatives, sampled, seed, points):
        self._points = points.astype(np.int32, copy=False)
        self._positives, self._negatives = positives, negatives
        self._sampled, self._seed = sampled, seed

    def of(self, first, last):
        """Return starts, points, positive and weight of the pairs of some consecutive labels; see `LabelPairs`."""
        N = len(self._points)
        counts = [np.diff(part[0][first : last + 1]) for part in (self._positives, self._negatives)]
        most = counts[0] + counts[1] + self._sampled
        room = np.concatenate([[0], np.cumsum(most)]).astype(np.int64)
        drawn = np.random.default_rng([*self._seed, first]).integers(0, N, (last - first, self._sampled), np.int32)
        drawn.sort(axis=1)
        drawn = self._points[drawn]
        points, weight = np.empty(room[-1], np.int32), np.empty(room[-1], np.float32)
        positive, lengths = np.zeros(room[-1], bool), np.zeros(last - first, np.int64)
        arrays = *self._positives, *self._negatives, drawn, room, points, positive, weight, lengths
        parallel_for(lambda i, j: _fill(i, j, first, N, *arrays), last - first, LABELS)
        kept = np.arange(room[-1]) - np.repeat(room[:-1], most) < np.repeat(lengths, most)
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return starts, points[kept], positive[kept], weight[kept]


def positives_by_label(labels):
    """Return the points of each label: starts, K+1, and points in ascending order within each label.

    Parameters
    ----------
    labels : csr_array, N×K
        Y.
    """
    return _by_label(labels.indptr, labels.indices, labels.shape)


def listed_by_label(shortlist, K):
    """Return the points that list each label, as `positives_by_label` does.

    Parameters
    ----------
    shortlist : ndarray of int32, N×S
        Negatives of each point; −1 stands for none.
    K : int
    """
    lengths = np.count_nonzero(shortlist >= 0, axis=1)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    # A copy would take much memory, and rarely a point has fewer negatives.
    indices = shortlist.ravel() if indptr[-1] == shortlist.size else shortlist[shortlist >= 0]
    return _by_label(indptr, indices, (len(shortlist), K))


def _by_label(indptr, indices, shape):
    """Return the points of each label in ascending order, as the index arrays of a csc_array."""
    by_label = sp.csr_array((np.ones(len(indices), bool), indices, indptr), shape=shape).tocsc()
    return by_label.indptr.astype(np.int64), by_label.indices.astype(np.int32)


@compiled
def _fill(
    start, stop, first, N, p_starts, p_points, n_starts, n_points, drawn, room, points, positive, weight, lengths
):
    for j in range(start, stop):
        k, end = first + j, room[j]
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
        lengths[j] = end - room[j]


@compiled
def _contains(values, value):
    place = np.searchsorted(values, value)
    return place < len(values) and values[place] == value


def pairs_with_offsets(pairs, first, latent, loadings, bias, share):
    """Return `LabelPairs` whose offsets are a share of the means of Φ h, and b.

    Parameters
    ----------
    pairs : tuple
        From `StratifiedPairs.of`.
    first : int
        The first of the labels.
    latent : ndarray, N×P
        Means of the latent functions.
    loadings : ndarray, K×P
        Φ.
    bias : ndarray, K
        b.
    share : float
    """
    starts, points, positive, weight = pairs
    block = slice(first, first + len(starts) - 1)
    offset = pairwise_products(loadings[block], latent, starts, points)
    offset *= share
    offset += np.repeat(bias[block], np.diff(starts))
    return LabelPairs(starts, points, positive, weight.astype(loadings.dtype, copy=False), offset)
