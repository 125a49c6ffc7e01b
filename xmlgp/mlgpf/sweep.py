"""A sweep over the labels: shortlists of negatives for every point, then closed-form updates of the label weights."""

import functools
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

from xmlgp.data.dataset import consecutive_rows
from xmlgp.gp.expectations import JaakkolaJordan
from xmlgp.gp.label_weight_updates import update_label_weights, update_prior_variances
from xmlgp.gp.label_weights import LabelWeights, WeightsPrior
from xmlgp.gp.utilities import UtilityMoments
from xmlgp.linear_algebra import sparse
from xmlgp.mlgpf.held_out import without_labels_of
from xmlgp.mlgpf.label_pairs import (
    StratifiedPairs,
    listed_by_label,
    pairs_with_offsets,
    positives_by_label,
    shortlist_negatives,
)
from xmlgp.training.inference import Inference

__all__ = ["OFFSET_SHARE", "PAIR_COST", "MeanPoint", "Sweep", "SweepData", "prior_scales", "shortlist_length"]

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

#: Points whose latent functions are a block of work.
LATENT_BLOCK = 1 << 15

#: Label weights that a sweep changes, and that it keeps in a checkpoint.
CHANGED = ("label_weights.mean", "label_weights.log_variance")
KEPT = (*CHANGED, "label_weights.log_prior")

#: Conjugate gradient steps after each update of ξ. More of them do not change precision.
CG_STEPS = 3

#: How long operations take relative to a multiplication of a stochastic step, measured with 4,000 to 60,000 labels: a
#: multiplication for the shortlists of the first and of later sweeps; a point and a label, beside multiplications; a
#: pair and a byte of its features, for an update of ξ.
LIST_COSTS, PAIR_COST, UPDATE_COST = (0.5, 0.85), 100, 45


def prior_scales(counts, dtype):
    """Return ρ, K: the prior variance of label weight w_kd is ρ_k τ_d, with ρ_k = 1 + `RARE_SPREAD` / n_k.

    n are the counts, the number of points with each label. A label without points counts as if it had one.
    """
    return (1 + RARE_SPREAD / np.maximum(counts, 1)).astype(dtype)


def shortlist_length(N, K):
    """Return the length of the shortlist of a point, at most K."""
    return min(max(SHORTLIST, min(LEAST_PAIRS // max(1, N), LONGEST_SHORTLIST)), K)


def _sampled_points(K):
    """Return how many points are drawn for each label beside its positives and those that list it."""
    return max(SAMPLED, LEAST_PAIRS // max(1, K))


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
        """Return pairs of consecutive labels, as of `StratifiedPairs.of`, with one more for each: that of `row`."""
        starts, points, positive, weight = pairs
        ends, part = starts[1:], slice(first, first + len(starts) - 1)
        return (
            starts + np.arange(len(starts)),
            np.insert(points, ends, np.int32(row)),
            np.insert(positive.astype(np.float32), ends, self.target[part]),
            np.insert(weight, ends, self.weight[part]),
        )


class ScaledPrior(NamedTuple):
    """The prior of W in training, N(0, ρ_k τ_d), as `WeightsPrior` is that of learning on; scales are ρ, K."""

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
        return self, StratifiedPairs(*self.by_label, _sampled_points(self.label_count), self.seed, self.points)


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


class SweepData:
    """What the sweeps of a run share.

    Parameters
    ----------
    work : ThisMachine or DaskCluster
    seed : int
        Of the settings.
    features : csr_array, N×D
        X, weighted; the row of a `MeanPoint` may follow.
    labels : csr_array, N×K
        Y.
    factors : callable
        Returns T, D×P, Φ and b; called for the first step, when they have their final values.
    weights : dict of str to ndarray
        See `xmlgp.gp.label_weights.initial_label_weights`; sweeps change them in place.
    prior : WeightsPrior, optional
        An earlier posterior of W; N(0, ρ_k τ_d) by default, with τ that sweeps update.
    mean_point : callable, optional
        Returns the `MeanPoint`, given the `SweepData`.
    """

    def __init__(self, work, seed, features, labels, factors, weights, prior=None, mean_point=None):
        self.work, self.seed, self.features, self.labels = work, seed, features, labels
        self.weights, self.prior = weights, prior
        self._factors, self._mean_point = factors, mean_point
        N, K = labels.shape
        #: Negatives of each point; −1 after the last of a point that has fewer.
        self.shortlist = np.full((N, shortlist_length(N, K)), -1, np.int32)

    @functools.cached_property
    def common(self):
        """X, the means of the latent functions, N×P, Φ and b, which sweeps do not change."""
        latent_map, loadings, bias = self._factors()
        return self.features, self._latent_means(latent_map), loadings, bias

    @functools.cached_property
    def mean_point(self):
        """The `MeanPoint`, or None."""
        return self._mean_point and self._mean_point(self)

    def _latent_means(self, latent_map):
        N = self.features.shape[0]
        latent = self.work.empty((N, latent_map.shape[1]), latent_map.dtype)
        blocks = [slice(start, min(start + LATENT_BLOCK, N)) for start in range(0, N, LATENT_BLOCK)]
        parts = self.work.map(_latent_means, ((rows,) for rows in blocks), (self.features, latent_map))
        for rows, part in zip(blocks, parts, strict=True):
            latent[rows] = part
        return latent


def _latent_means(shared, rows):
    features, latent_map = shared
    return sparse.product(consecutive_rows(features, rows), latent_map)


class Sweep(Inference):
    """One sweep over the labels, a stage: closed-form updates of q(W) (`xmlgp.gp.label_weight_updates`).

    First each block of points gets shortlists of negatives, by utilities with W as it was before the sweep; then the
    weights of each block of labels are updated. The offsets of the updates have `OFFSET_SHARE` of Φ h, without
    variance, because the bound of Jaakkola and Jordan is loose for uncertain utilities. The bound in the history is
    that one, given these offsets and estimated from stratified pairs.

    Blocks of points and of labels are blocks of work, which may be ahead of the steps: a step takes the result of its
    block.

    Parameters
    ----------
    make_data : callable
        Returns the `SweepData` of the run, the same for all sweeps; called when the sweep begins.
    labels : csr_array, N×K
        Y.
    number, count : int
        Of this sweep, from 0, and of all. The first one ignores W in utilities, unless it is known from before.
    rounds : int
        Updates of ξ.
    left_out : ndarray of int, optional
        Points that are held out.
    listed : ndarray of int, optional
        Points that get shortlists, all by default; the others keep those of the sweep before.
    with_weights : bool
        Whether the utilities of the shortlists have W x.
    updates_prior : bool
        Whether τ is updated at the end.
    factor_count, row_bytes : int
        P, and the mean memory of the features of a point, on which the time of steps depends.
    """

    equal_steps = False

    def __init__(
        self,
        make_data,
        labels,
        number=0,
        count=1,
        *,
        rounds,
        left_out=None,
        listed=None,
        with_weights=True,
        updates_prior=False,
        factor_count=1,
        row_bytes=1,
    ):
        self._factor_count, self._row_bytes = factor_count, row_bytes
        self._make_data, self._labels, self._number, self._count = make_data, labels, number, count
        self._rounds, self._with_weights, self._updates_prior = rounds, with_weights, updates_prior
        self._left_out = np.zeros(0, np.int64) if left_out is None else left_out
        N, K = labels.shape
        points = np.arange(N) if listed is None else listed
        self._point_blocks = np.split(points, range(POINT_BLOCK, len(points), POINT_BLOCK))
        self._label_blocks = [(start, min(start + LABEL_BLOCK, K)) for start in range(0, K, LABEL_BLOCK)]
        self.steps_per_epoch = len(self._point_blocks) + len(self._label_blocks)
        self._data = self._seen = None
        #: The results of blocks of points, and of labels.
        self._listed = self._updated = None

    def place(self, epoch):
        """Return the number of the sweep."""
        return {"sweep": f"{self._number + 1}/{self._count}"}

    def notes(self):
        """Return the number of the sweep, counted from 1."""
        return {"sweep": self._number + 1}

    def begin(self, epoch):
        """Make or take the data."""
        self._data = self._make_data()

    def end(self):
        """Give up blocks whose results are not needed."""
        for results in self._listed, self._updated:
            if results is not None:
                results.close()

    def cost(self, epoch, done):
        """Return the time of a step in multiplications of a stochastic step."""
        N, K = self._labels.shape
        if done < len(self._point_blocks):
            per_pair = LIST_COSTS[min(self._number, 1)] * (self._factor_count + PAIR_COST)
            return per_pair * len(self._point_blocks[done]) * K
        first, last = self._label_blocks[done - len(self._point_blocks)]
        pairs = (last - first) * (_sampled_points(K) + (self._labels.nnz + N * shortlist_length(N, K)) / K)
        return self._rounds * UPDATE_COST * pairs * self._row_bytes

    def step(self, epoch, done):
        """Find the shortlists of a block of points, or update a block of labels and return the estimated bound."""
        if done < len(self._point_blocks):
            self._list_negatives(done)
            return None
        bounds = self._update_weights(done - len(self._point_blocks))
        if done == self.steps_per_epoch - 1 and self._updates_prior:
            update_prior_variances(self._data.weights, self._scales())
        return float(bounds.sum()) * len(self._label_blocks)

    def _list_negatives(self, number):
        data = self._data
        if self._listed is None:
            features, *others = data.common
            weights = data.weights if self._with_weights else None
            shared = _Points(features, self._seen_labels(), *others, weights, data.shortlist.shape[1])
            self._listed = data.work.map(_negatives, ((block,) for block in self._point_blocks[number:]), shared)
        data.shortlist[self._point_blocks[number]] = next(self._listed)
        data.shortlist[self._left_out] = -1

    def _update_weights(self, number):
        """Update the weights of a block of labels; return their bounds."""
        data = self._data
        if self._updated is None:
            # All shortlists are known.
            self.end()
            blocks = ((*block, self._rounds) for block in self._label_blocks[number:])
            self._updated = data.work.map(_updated_weights, blocks, self._shared_by_labels())
        bounds, *changed = next(self._updated)
        ends, (first, last) = data.weights["label_weights.indptr"], self._label_blocks[number]
        for name, values in zip(CHANGED, changed, strict=True):
            data.weights[name][ends[first] : ends[last]] = values
        return bounds

    def _shared_by_labels(self):
        data, (N, K) = self._data, self._labels.shape
        by_label = positives_by_label(self._seen_labels()), listed_by_label(data.shortlist, K)
        points = np.setdiff1d(np.arange(N), self._left_out)
        prior = data.prior or ScaledPrior(self._scales())
        pairs = by_label, K, [data.seed, 3, self._number], points
        return _Labels(*data.common, data.weights, prior, *pairs, data.mean_point)

    def _seen_labels(self):
        """Return Y without the labels of points that are left out."""
        if self._seen is None:
            self._seen = without_labels_of(self._labels, self._left_out) if len(self._left_out) else self._labels
        return self._seen

    def _scales(self):
        """Return ρ, K."""
        counts = np.bincount(self._seen_labels().indices, minlength=self._labels.shape[1])
        return prior_scales(counts, self._data.common[2].dtype)

    def arrays(self):
        """Return the arrays that steps change, by name."""
        arrays = {f"parameters.{name}": self._data.weights[name] for name in KEPT}
        return arrays | {"shortlist": self._data.shortlist}

    def parameters(self, epochs):
        """Return the label weights by name; steps may change these arrays."""
        return self._data.weights
