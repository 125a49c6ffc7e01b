"""One sweep over the labels: shortlists of negatives for every point, then closed-form updates of the label weights."""

import functools
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from xmlgp.gp.expectations import JaakkolaJordan
from xmlgp.gp.label_weight_updates import update_label_weights
from xmlgp.gp.label_weights import LabelWeights
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

#: Share of Φ h in the offsets of the updates in weight space. Φ h fits the points it was trained on better than new
#: ones: with all of it little is left for W to explain.
OFFSET_SHARE = 0.85

#: The prior variances of a label with n points are τ times 1 + this/n. Frequent labels decide τ. If it were the prior
#: variance of all labels, those with one or two points would have small weights and be predicted too rarely.
RARE_SPREAD = 4.0

#: Points whose shortlist is found in a step, and labels whose weights are updated in a step.
POINT_BLOCK, LABEL_BLOCK = 1 << 12, 1 << 9

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


class Sweep:
    """The steps of one sweep over the labels.

    What they share is made when first needed. Utilities have W as it was before the sweep, pairs need every shortlist,
    and a resumed run may begin between the two.

    Parameters
    ----------
    number : int
        Counted from 0; decides with the seed which points are drawn.
    seed : int
        Of the settings.
    features : csr_array, N×D
        X, weighted.
    labels : csr_array, N×K
        Y, without those of points that are left out.
    latent : callable
        Returns the means of the latent functions, N×P.
    parameters : mapping of str to ndarray
        Φ and b.
    weights : mapping of str to ndarray
        See `xmlgp.gp.label_weights.initial_label_weights`; they are updated in place.
    shortlist : ndarray of int32, N×S
        Negatives of each point, updated in place; −1 after the last of a point that has fewer.
    prior : callable
        Returns the `WeightsPrior` of consecutive labels, from the first to before the last.
    held : ndarray of int, optional
        Points that are left out.
    offset_share : float
        Share of Φ h in the offsets.
    with_weights : bool
        Whether the utilities of the shortlists have W x.
    mean_point : callable, optional
        Returns the `MeanPoint`, given the latent functions. Features and latent functions have a row more than labels.

    Attributes
    ----------
    number : int
    """

    def __init__(
        self,
        number,
        seed,
        features,
        labels,
        latent,
        parameters,
        weights,
        shortlist,
        prior,
        *,
        held=(),
        offset_share=1.0,
        with_weights=True,
        mean_point=None,
    ):
        self.number, self._seed = number, seed
        self._features, self._labels, self._shortlist = features, labels, shortlist
        self._compute_latent, self._parameters, self._weights = latent, parameters, weights
        self._prior, self._held = prior, np.asarray(held, np.int64)
        self._offset_share, self._with_weights, self._compute_mean_point = offset_share, with_weights, mean_point

    def list_negatives(self, rows):
        """Find the shortlists of some points, a slice or an ndarray of their numbers."""
        self._shortlist[rows] = self.negatives(rows)
        self._shortlist[self._held] = -1

    def negatives(self, rows):
        """Return the shortlists of some points, B×S, a slice or an ndarray of their numbers."""
        points = self._latent[rows], self._features[rows], self._labels[rows]
        found = np.empty((len(points[0]), self._shortlist.shape[1]), np.int32)
        shortlist_negatives(self._utilities, *points, found)
        return found

    def update_weights(self, first, last, rounds):
        """Update the weights of consecutive labels, with some updates of ξ; return their bounds."""
        # All shortlists are known.
        self.__dict__.pop("_utilities", None)
        loadings, bias = self._parameters["loadings"], self._parameters["bias"]
        pairs = self._pairs.of(first, last)
        if self._compute_mean_point is not None:
            pairs = self._mean_point.add_to(pairs, first, self._labels.shape[0])
        pairs = pairs_with_offsets(pairs, first, self._latent, loadings, bias, self._offset_share)
        weights, place = self._weights_of(first, last)
        return update_label_weights(pairs, place, self._features, weights, self._prior(first, last), rounds, CG_STEPS)

    def _weights_of(self, first, last):
        """Return arrays with the weights of consecutive labels, to be updated, and the place of the first label."""
        return self._weights, first

    @functools.cached_property
    def _latent(self):
        return self._compute_latent()

    @functools.cached_property
    def _mean_point(self):
        return self._compute_mean_point(self._latent)

    @functools.cached_property
    def _utilities(self):
        weights = LabelWeights(self._weights) if self._with_weights else None
        return UtilityMoments(self._parameters["loadings"], self._parameters["bias"], weights)

    @functools.cached_property
    def _pairs(self):
        (N, K), listed = self._labels.shape, self._shortlist
        by_label = positives_by_label(self._labels), listed_by_label(listed, K)
        return stratified_pairs(by_label, K, self._seed, self.number, np.setdiff1d(np.arange(N), self._held))


def stratified_pairs(by_label, K, seed, number, points):
    """Return the `StratifiedPairs` of a sweep.

    Parameters
    ----------
    by_label : tuple
        The positives and the listed negatives, see `positives_by_label`.
    K : int
    seed : int
        Of the settings.
    number : int
        Of the sweep.
    points : ndarray of int
        The points that are not left out, in ascending order.
    """
    return StratifiedPairs(*by_label, sampled_points(K), [seed, 3, number], points)
