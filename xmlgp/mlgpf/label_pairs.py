"""Pairs of points and labels for the updates of label weights, stratified by how much they matter.

Each label has three kinds of pairs: all its positives, with weight 1; the points that have it on their shortlist, with
weight 1; and a uniform sample of all other points, which share the weight of those that were not drawn. The shortlist
of a point has the S negatives of highest utility. Given the shortlists, the bound over these pairs is on average that
over all pairs. The shortlists only lower its variance: they hold the negatives whose probability is not negligible.
"""

import numpy as np
import scipy.sparse as sp

from xmlgp.gp.label_weight_updates import LabelPairs
from xmlgp.gp.likelihood import pairwise_products
from xmlgp.linear_algebra import sparse
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.prediction.top_k import update_top_k
from xmlgp.runtime.threads import parallel_for

__all__ = ["StratifiedPairs", "Utilities", "pairs_with_offsets", "rows_at_a_time", "shortlist_negatives"]

#: Points whose utilities of all labels are computed at a time by one core, and most utilities then.
ROWS, UTILITIES = 128, 1 << 25

#: Labels of a dense product: few enough that its result stays in the cache for the next term.
TILE = 1 << 12

#: Features are dense columns where (share of points) × (share of labels with a weight) exceeds this, at most so many.
DENSE_SHARE, DENSE_MOST = 0.005, 64

#: Fewest labels per thread whose pairs are made.
LABELS = 64

#: Utility of positives while negatives are listed.
LOWEST = -1e30


class Utilities:
    """Means of the utilities Φ h + b + W x of all labels, for points of one data set, a block of points at a time.

    Products with the features that most pairs of points and weights share are dense: one more column of a dense product
    costs less than adding a weight to every label that has one, for every point that has the feature.

    Parameters
    ----------
    latent : ndarray, N×P
        Means of the latent functions.
    features : csr_array, N×D
        X, weighted.
    loadings : ndarray, K×P
        Φ.
    bias : ndarray, K
        b.
    weights : csr_array, K×D, or None
        Means of W; None for W = 0.
    """

    def __init__(self, latent, features, loadings, bias, weights):
        self._bias, self._features, self._by_feature = bias, features, None
        self._latent, self._loadings, self.dtype = latent, loadings, loadings.dtype
        if weights is not None:
            D = features.shape[1]
            lengths = sparse.column_sums(weights.indices, D)
            adds = lengths.astype(float) * sparse.column_sums(features.indices, D)
            dense = np.flatnonzero(adds > DENSE_SHARE * features.shape[0] * len(bias))
            chosen = np.sort(dense[np.argsort(-adds[dense], kind="stable")[:DENSE_MOST]])
            #: The column of each feature in dense products; −1 for the others.
            self._place = np.full(D, -1, np.int32)
            self._place[chosen] = np.arange(len(chosen))
            # The last column is b, for which points have ones.
            self._dense = np.zeros((len(bias), len(chosen) + 1), self.dtype)
            self._dense[:, -1] = bias
            lengths[chosen] = 0
            starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
            labels, values = np.empty(starts[-1], np.int32), np.empty(starts[-1], self.dtype)
            arrays = weights.indptr, weights.indices, weights.data, self._place, self._dense
            _split_by_feature(*arrays, starts[:-1].copy(), labels, values)
            self._by_feature = starts, labels, values

    def fill(self, rows, out):
        """Write the utilities of a slice of points to `out`, B×K."""
        x, latent = self._features, self._latent[rows]
        if self._by_feature is not None:
            columns = np.zeros((len(out), self._dense.shape[1]), self.dtype)
            columns[:, -1] = 1
            product = np.empty((len(out), TILE), self.dtype)
            _fill_columns(rows.start, x.indptr, x.indices, x.data, self._place, columns)
        for first in range(0, len(self._bias), TILE):
            labels = slice(first, first + TILE)
            part = out[:, labels]
            np.matmul(latent, self._loadings[labels].T, out=part)
            if self._by_feature is None:
                part += self._bias[labels]
            else:
                part += np.matmul(columns, self._dense[labels].T, out=product[:, : part.shape[1]])
        if self._by_feature is not None:
            add_linear_term(rows.start, x.indptr, x.indices, x.data, *self._by_feature, out)


def shortlist_negatives(utilities, labels, rows, out):
    """Write the negatives of highest utility of some points to `out`, highest first.

    Parameters
    ----------
    utilities : Utilities
    labels : csr_array, N×K
        Y.
    rows : slice
    out : ndarray of int32, B×S
        S is less than K less the number of labels of any point.
    """
    K = labels.shape[1]
    most = rows_at_a_time(K)

    def part(first, last):
        values = np.empty((min(most, last - first), K), utilities.dtype)
        best = np.empty((len(values), out.shape[1]), utilities.dtype)
        for start in range(first, last, most):
            stop = min(start + most, last)
            block = values[: stop - start]
            points = slice(rows.start + start, rows.start + stop)
            utilities.fill(points, block)
            _hide(points.start, labels.indptr, labels.indices, block)
            update_top_k(block, 0, out[start:stop], best[: stop - start])

    parallel_for(part, len(out), 1)


def rows_at_a_time(label_count):
    """Return the number of points whose utilities of K labels are in memory at a time, for each core."""
    return max(1, min(ROWS, UTILITIES // label_count))


@compiled
def _split_by_feature(indptr, columns, values, place, dense, ends, labels, by_feature):
    """Copy W to the columns of `dense` that features have as `place`, and by feature where that is −1."""
    for k in range(indptr.size - 1):
        for e in range(indptr[k], indptr[k + 1]):
            d = columns[e]
            if place[d] >= 0:
                dense[k, place[d]] = values[e]
            else:
                labels[ends[d]], by_feature[ends[d]] = k, values[e]
                ends[d] += 1


@compiled
def _fill_columns(first, x_indptr, x_indices, x_values, place, out):
    """Copy the features that have a `place` to the columns of `out`, for consecutive points."""
    for i in range(out.shape[0]):
        for e in range(x_indptr[first + i], x_indptr[first + i + 1]):
            if place[x_indices[e]] >= 0:
                out[i, place[x_indices[e]]] = x_values[e]


@compiled
def add_linear_term(first, x_indptr, x_indices, x_values, starts, labels, weights, utilities):
    """Add W x to the utilities of all labels for consecutive points, in place.

    `xmlgp.gp.linear_term.LinearTerm` visits the weights of all labels for every block of points. This visits only those
    on features of the points, and writes to one row of the utilities at a time.
    """
    for i in range(utilities.shape[0]):
        row = utilities[i]
        for e in range(x_indptr[first + i], x_indptr[first + i + 1]):
            value, d = x_values[e], x_indices[e]
            for t in range(starts[d], starts[d + 1]):
                row[labels[t]] += value * weights[t]


@compiled
def _hide(first, indptr, indices, utilities):
    for i in range(utilities.shape[0]):
        for e in range(indptr[first + i], indptr[first + i + 1]):
            utilities[i, indices[e]] = LOWEST


class StratifiedPairs:
    """The pairs of all labels, made for a block of consecutive labels at a time.

    Parameters
    ----------
    labels : csr_array, N×K
        Y.
    shortlist : ndarray of int32, N×S
        Negatives of each point.
    sampled : int
        Points drawn for each label beside these.
    seed : sequence of int
        Determines the draws of every label.
    """

    def __init__(self, labels, shortlist, sampled, seed):
        self._shape = labels.shape
        self._positives = _by_label(labels.indptr, labels.indices, labels.shape)
        N, S = shortlist.shape
        self._negatives = _by_label(S * np.arange(N + 1), shortlist.ravel(), labels.shape)
        self._sampled, self._seed = sampled, seed

    def of(self, first, last):
        """Return starts, points, positive and weight of the pairs of some consecutive labels; see `LabelPairs`."""
        N, _ = self._shape
        counts = [np.diff(part[0][first : last + 1]) for part in (self._positives, self._negatives)]
        most = counts[0] + counts[1] + self._sampled
        room = np.concatenate([[0], np.cumsum(most)]).astype(np.int64)
        drawn = np.random.default_rng([*self._seed, first]).integers(0, N, (last - first, self._sampled), np.int32)
        drawn.sort(axis=1)
        points, weight = np.empty(room[-1], np.int32), np.empty(room[-1], np.float32)
        positive, lengths = np.zeros(room[-1], bool), np.zeros(last - first, np.int64)
        arrays = *self._positives, *self._negatives, drawn, room, points, positive, weight, lengths
        parallel_for(lambda i, j: _fill(i, j, first, N, *arrays), last - first, LABELS)
        kept = np.arange(room[-1]) - np.repeat(room[:-1], most) < np.repeat(lengths, most)
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return starts, points[kept], positive[kept], weight[kept]


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


def pairs_with_offsets(pairs, first, latent, loadings, bias, share=1.0):
    """Return `LabelPairs` with the means of Φ h + b as offsets, or with a share of Φ h.

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
