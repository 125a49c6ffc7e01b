"""One sweep over the labels: shortlists of negatives for every point, then closed-form updates of the label weights."""

import itertools
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

from xmlgp.gp.expectations import JaakkolaJordan
from xmlgp.gp.label_weight_updates import update_label_weights
from xmlgp.gp.label_weights import LabelWeights, WeightsPrior
from xmlgp.gp.utilities import UtilityMoments
from xmlgp.mlgpf.label_pairs import (
    StratifiedPairs,
    listed_by_label,
    pairs_with_offsets,
    positives_by_label,
    shortlist_negatives,
)

__all__ = [
    "OFFSET_SHARE",
    "POINT_BLOCK",
    "MeanPoint",
    "ScaledPrior",
    "Sweep",
    "label_blocks",
    "point_blocks",
    "prior_scales",
    "sampled_points",
    "shortlist_length",
]

#: Negatives on the shortlist of a point, and points sampled for a label beside those that list it; more of both where
#: they are fewer pairs than the third number. A sampled point stands for many others, so that few would mislead. The
#: time for a shortlist grows with the square of its length, so there is a limit.
SHORTLIST, SAMPLED, LEAST_PAIRS, LONGEST_SHORTLIST = 30, 20, 1_000_000, 1000

#: Share of Φ h in the offsets of the updates. Φ h fits the points it was trained on better than new
#: ones: with all of it little is left for W to explain.
OFFSET_SHARE = 0.85

#: The prior variances of a label with n points are τ times 1 + this/n. Frequent labels decide τ. If it were the prior
#: variance of all labels, those with one or two points would have small weights and be predicted too rarely.
RARE_SPREAD = 4.0

#: Points whose shortlist is found in a step, and labels whose weights are updated in a step.
POINT_BLOCK, LABEL_BLOCK = 1 << 12, 1 << 9

#: Label weights that a sweep changes.
CHANGED = ("label_weights.mean", "label_weights.log_variance")

#: Conjugate gradient steps after each update of ξ. More of them do not change precision.
CG_STEPS = 3


def point_blocks(N):
    """Return the slices of consecutive points whose shortlists are found in a step each.

    Parameters
    ----------
    N : int
    """
    return [slice(start, min(start + POINT_BLOCK, N)) for start in range(0, N, POINT_BLOCK)]


def label_blocks(K):
    """Return the first label and the one after the last of each step that updates weights.

    Parameters
    ----------
    K : int
    """
    return [(start, min(start + LABEL_BLOCK, K)) for start in range(0, K, LABEL_BLOCK)]


def prior_scales(counts, dtype):
    """Return ρ, K: the prior variance of label weight w_kd is ρ_k τ_d, with ρ_k = 1 + `RARE_SPREAD` / n_k.

    Parameters
    ----------
    counts : ndarray of int, K
        n, the number of points with each label. A label without points counts as if it had one.
    dtype : dtype
    """
    return (1 + RARE_SPREAD / np.maximum(counts, 1)).astype(dtype)


def shortlist_length(N, K):
    """Return the length of the shortlist of a point, at most K.

    Parameters
    ----------
    N, K : int
    """
    return min(max(SHORTLIST, min(LEAST_PAIRS // max(1, N), LONGEST_SHORTLIST)), K)


def sampled_points(K):
    """Return how many points are drawn for each label beside its positives and those that list it.

    Parameters
    ----------
    K : int
    """
    return max(SAMPLED, LEAST_PAIRS // max(1, K))


class MeanPoint(NamedTuple):
    """One point that stands for many earlier ones, the last row of the features of a sweep.

    A pair of it and label k has the utility f̄_k before the sweep. Its target and weight are such that the slope and the
    curvature of its bound there are those of N earlier points with that utility: of N p̄_k positives for a label that
    they had, so that the slope is zero, and of none for a new label, with p̄_k = σ(f̄_k). Without it, a batch with few
    points that lack a label would raise the utilities of that label for all points.

    Attributes
    ----------
    target, weight : ndarray, L
    """

    target: np.ndarray
    weight: np.ndarray

    @classmethod
    def of(cls, utility, N, known):
        """Return the pairs of L labels.

        Parameters
        ----------
        utility : ndarray, L
            f̄.
        N : int
            Number of earlier points.
        known : ndarray of bool, L
            Whether an earlier point has the label.
        """
        probability = expit(utility.astype(np.float64))
        _, slope = JaakkolaJordan().gradients(utility.astype(np.float64), 0.0)
        weight = N * probability * (1 - probability) / (2 * slope)
        target = np.where(known, probability, probability - 2 * slope / (1 - probability))
        return cls(target.astype(np.float32), weight.astype(np.float32))

    def add_to(self, pairs, first, row):
        """Return pairs of consecutive labels, as of `StratifiedPairs.of`, with one more for each label.

        Parameters
        ----------
        pairs : tuple
        first : int
            The first of the labels.
        row : int
            Of the point.
        """
        starts, points, positive, weight = pairs
        ends, part = starts[1:], slice(first, first + len(starts) - 1)
        return (
            starts + np.arange(len(starts)),
            np.insert(points, ends, np.int32(row)),
            np.insert(positive.astype(np.float32), ends, self.target[part]),
            np.insert(weight, ends, self.weight[part]),
        )


class ScaledPrior(NamedTuple):
    """The prior of W in training, N(0, ρ_k τ_d), as `WeightsPrior` gives that of a posterior.

    Attributes
    ----------
    scales : ndarray, K
        ρ.
    """

    scales: np.ndarray

    def of(self, weights, first, last):
        """Return the `WeightsPrior` of consecutive labels; see `WeightsPrior.of`."""
        return WeightsPrior.of_training(weights, first, self.scales[first:last])


class _Points(NamedTuple):
    """What shortlists are found with: X, Y, h, Φ and b, W or None, and the length of a shortlist."""

    features: sp.csr_array
    labels: sp.csr_array
    latent: np.ndarray
    loadings: np.ndarray
    bias: np.ndarray
    weights: dict | None
    length: int

    def opened(self):
        weights = None if self.weights is None else LabelWeights(self.weights)
        return self, UtilityMoments(self.loadings, self.bias, weights)


def _negatives(shared, rows):
    """Return the shortlists of some points, B×S, a slice or an ndarray of their numbers."""
    points, utilities = shared
    batch = points.latent[rows], points.features[rows], points.labels[rows]
    found = np.empty((len(batch[0]), points.length), np.int32)
    shortlist_negatives(utilities, *batch, found)
    return found


class _Labels(NamedTuple):
    """What label weights are updated with: X, h, Φ and b, W, its prior, pairs and the `MeanPoint`.

    Pairs are made of the positives and listed negatives by label, K, the seed, the number of the sweep and the points
    that are not left out.
    """

    features: sp.csr_array
    latent: np.ndarray
    loadings: np.ndarray
    bias: np.ndarray
    weights: dict
    prior: ScaledPrior | WeightsPrior
    by_label: tuple
    label_count: int
    seed: list
    points: np.ndarray
    mean_point: MeanPoint | None

    def opened(self):
        return self, StratifiedPairs(*self.by_label, sampled_points(self.label_count), self.seed, self.points)


def _updated_weights(shared, first, last, rounds):
    """Return the bounds of consecutive labels, and the updated means and log variances of their weights."""
    labels, pairs = shared
    found = pairs.of(first, last)
    if labels.mean_point is not None:
        found = labels.mean_point.add_to(found, first, len(labels.latent) - 1)
    found = pairs_with_offsets(found, first, labels.latent, labels.loadings, labels.bias, OFFSET_SHARE)
    indptr = labels.weights["label_weights.indptr"][first : last + 1]
    part = slice(indptr[0], indptr[-1])
    block = {name: labels.weights[name][part].copy() for name in CHANGED}
    block["label_weights.features"] = labels.weights["label_weights.features"][part]
    block["label_weights.indptr"] = indptr - indptr[0]
    prior = labels.prior.of(labels.weights, first, last)
    bounds = update_label_weights(found, 0, labels.features, block, prior, rounds, CG_STEPS)
    return bounds, *(block[name] for name in CHANGED)


class Sweep:
    """The steps of one sweep over the labels.

    The offsets of the updates have `OFFSET_SHARE` of Φ h.

    Blocks of points and of labels are blocks of work, which may be ahead of the steps: a step takes the result of its
    block. Utilities have W as it was before the sweep, pairs need every shortlist, and a resumed run may begin between
    the two.

    Parameters
    ----------
    work : ThisMachine or DaskCluster
    number : int
        Counted from 0; decides with the seed which points are drawn.
    seed : int
        Of the settings.
    features : csr_array, N×D
        X, weighted.
    labels : csr_array, N×K
        Y, without those of points that are left out.
    latent : ndarray, N×P
        Means of the latent functions.
    parameters : mapping of str to ndarray
        Φ and b.
    weights : mapping of str to ndarray
        See `xmlgp.gp.label_weights.initial_label_weights`; they are updated in place.
    shortlist : ndarray of int32, N×S
        Negatives of each point, updated in place; −1 after the last of a point that has fewer.
    prior : ScaledPrior or WeightsPrior
        Of all weights.
    point_blocks : list of slice or ndarray of int
        The points of each step that lists negatives.
    label_blocks : list of tuple of int
        The labels of each step that updates weights, see `label_blocks`.
    held : ndarray of int, optional
        Points that are left out.
    with_weights : bool
        Whether the utilities of the shortlists have W x.
    mean_point : MeanPoint, optional
        Features and latent functions have a row more than labels.

    Attributes
    ----------
    number : int
    """

    def __init__(
        self,
        work,
        number,
        seed,
        features,
        labels,
        latent,
        parameters,
        weights,
        shortlist,
        prior,
        point_blocks,
        label_blocks,
        *,
        held=(),
        with_weights=True,
        mean_point=None,
    ):
        self.number, self._work, self._seed, self._labels = number, work, [seed, 3, number], labels
        self._weights, self._shortlist, self._held = weights, shortlist, np.asarray(held, np.int64)
        self._point_blocks, self._label_blocks = point_blocks, label_blocks
        self._common = features, latent, parameters["loadings"], parameters["bias"]
        self._with_weights, self._prior, self._mean_point = with_weights, prior, mean_point
        #: The results of blocks of points, and of labels.
        self._listed = self._updated = None

    def list_negatives(self, rows):
        """Find the shortlists of a block of points; the blocks come in their order."""
        if self._listed is None:
            blocks = itertools.dropwhile(lambda block: _first(block) != _first(rows), self._point_blocks)
            features, *others = self._common
            shared = _Points(
                features, self._labels, *others, self._weights if self._with_weights else None, self._shortlist.shape[1]
            )
            self._listed = self._work.map(_negatives, ((block,) for block in blocks), shared)
        self._shortlist[rows] = next(self._listed)
        self._shortlist[self._held] = -1

    def update_weights(self, first, last, rounds):
        """Update the weights of a block of labels, with some updates of ξ; return their bounds.

        The blocks come in their order.
        """
        if self._updated is None:
            # All shortlists are known.
            self.close()
            blocks = ((*block, rounds) for block in self._label_blocks if block[0] >= first)
            self._updated = self._work.map(_updated_weights, blocks, self._shared_by_labels())
        bounds, *changed = next(self._updated)
        ends = self._weights["label_weights.indptr"]
        for name, values in zip(CHANGED, changed, strict=True):
            self._weights[name][ends[first] : ends[last]] = values
        return bounds

    def _shared_by_labels(self):
        N, K = self._labels.shape
        by_label = positives_by_label(self._labels), listed_by_label(self._shortlist, K)
        points = np.setdiff1d(np.arange(N), self._held)
        pairs = by_label, K, self._seed, points
        return _Labels(*self._common, self._weights, self._prior, *pairs, self._mean_point)

    def close(self):
        """Give up blocks whose results are not needed."""
        for results in self._listed, self._updated:
            if results is not None:
                results.close()


def _first(rows):
    """Return the first of some points, a slice or an ndarray of their numbers."""
    return rows.start if isinstance(rows, slice) else int(rows[0])
