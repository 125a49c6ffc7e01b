"""A sweep over the labels: shortlists of negatives for every point, then closed-form updates of the label weights."""

import functools
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from xmlgp.data.blocks import sparse_of
from xmlgp.data.dataset import consecutive_rows
from xmlgp.label_weights.pairs import (
    MeanPoint,
    PairWeights,
    latent_offsets,
    positives_by_label,
    sample_size,
    shortlist_length,
    shortlist_negatives,
    shortlisted_by_label,
    stratified_pairs,
)
from xmlgp.label_weights.posterior import LabelWeights, WeightsPrior, prior_scales
from xmlgp.label_weights.updates import update_label_weights
from xmlgp.label_weights.utilities import UtilityMoments
from xmlgp.mlgpf.held_out import without_labels_of
from xmlgp.training.inference import Inference

__all__ = ["OFFSET_SHARE", "PAIR_COST", "Sweep", "SweepData"]

#: Share of Φ h in the offsets of the updates. Φ h fits the points it was trained on better than new
#: ones: with all of it little is left for W to explain.
OFFSET_SHARE = 0.85

#: Points whose shortlist is found in a step, and labels whose weights are updated in a step.
POINT_BLOCK = 1 << 12
LABEL_BLOCK = 1 << 9

#: Points whose latent functions are a block of work.
LATENT_BLOCK = 1 << 15

#: Conjugate gradient steps after each update of ξ. More of them do not change precision.
CG_STEPS = 3

#: How long operations take relative to a multiplication of a stochastic step, measured with 4,000 to 60,000 labels: a
#: multiplication for the shortlists of the first and of later sweeps; a point and a label, beside multiplications; a
#: pair and a byte of its features, for an update of ξ.
LIST_COSTS = (0.5, 0.85)
PAIR_COST = 100
UPDATE_COST = 45


class _Factors(NamedTuple):
    """X, sparse, the means of the latent functions, N×P, Φ and b, which sweeps do not change."""

    features: sp.csr_array
    latent: np.ndarray
    loadings: np.ndarray
    bias: np.ndarray


class _Points(NamedTuple):
    """What shortlists are found with: Y, W or None, and the length of a shortlist."""

    factors: _Factors
    labels: sp.csr_array
    weights: LabelWeights | None
    length: int

    def opened(self):
        return self, UtilityMoments(self.factors.loadings, self.factors.bias, self.weights)


def _negatives(shared, rows):
    """Return the shortlists of some points, B×S, a slice or an ndarray of their numbers."""
    (factors, labels, _, length), utilities = shared
    return shortlist_negatives(utilities, factors.latent[rows], factors.features[rows], labels[rows], length)


class _Labels(NamedTuple):
    """What label weights are updated with: W, and ρ of its prior in training or another prior.

    Pairs are made of the positives and the shortlisted negatives by label, the seed, the points to draw from and how
    many are drawn, the `MeanPoint` or None, and the `PairWeights` or None.
    """

    factors: _Factors
    weights: LabelWeights
    scales: np.ndarray
    prior: WeightsPrior | None
    positives: tuple
    shortlisted: tuple
    seed: list
    drawn_from: np.ndarray
    sample_size: int
    population: int | None
    mean_point: MeanPoint | None
    replayed: PairWeights | None


def _updated_weights(given, first, last, rounds):
    """Return the bounds of consecutive labels, and the updated means and log variances of their weights."""
    features, latent, loadings, bias = given.factors
    drawn = given.seed, given.drawn_from, given.sample_size, given.population
    pairs = stratified_pairs(given.positives, given.shortlisted, first, last, *drawn)
    if given.replayed is not None:
        pairs = given.replayed.weigh(pairs, first)
    if given.mean_point is not None:
        pairs = given.mean_point.add_to(pairs, first, len(latent) - 1)
    offset = latent_offsets(pairs, latent, loadings[first:last], bias[first:last], OFFSET_SHARE)
    block = given.weights.block(first, last)
    if given.prior is None:
        prior = block.prior_of_training(given.scales[first:last])
    else:
        own = slice(*given.weights.indptr[[first, last]])
        prior = WeightsPrior(*(array[own] for array in given.prior))
    bounds = update_label_weights(pairs, offset, features, block, prior, rounds, CG_STEPS)
    return bounds, block.mean, block.log_variance


class SweepData:
    """What the sweeps of a run share.

    The features, N×D, are weighted; the row of a `MeanPoint` may follow. `factors` returns the `LatentMap`, Φ and b; it
    is called for the first step, when they have their final values. Sweeps change the `LabelWeights` in place. The
    prior is an earlier posterior of W, or by default N(0, ρ_k τ_d) with τ that sweeps update. `mean_point` returns the
    `MeanPoint`, given this object. The first points may be replayed, with `PairWeights`. Pairs beside positives and
    shortlists are with points drawn from all, or from the rows `drawn_from`, which are a sample of a `population`.
    """

    def __init__(
        self,
        work,
        seed,
        features,
        labels,
        factors,
        weights,
        prior=None,
        mean_point=None,
        replayed=None,
        drawn_from=None,
        population=None,
    ):
        self.work = work
        self.seed = seed
        self.features = features
        self.weights = weights
        self.prior = prior
        self.replayed = replayed
        self.drawn_from = drawn_from
        self.population = population
        self._make_factors = factors
        self._mean_point = mean_point
        N, K = labels.shape
        #: Negatives of each point; −1 after the last of a point that has fewer.
        self.shortlist = np.full((N, shortlist_length(N, K)), -1, np.int32)

    @functools.cached_property
    def factors(self):
        """The `_Factors`, once the stages before have ended."""
        latent_map, loadings, bias = self._make_factors()
        return _Factors(sparse_of(self.features), self._latent_means(latent_map), loadings, bias)

    @functools.cached_property
    def mean_point(self):
        """The `MeanPoint`, or None."""
        return self._mean_point and self._mean_point(self)

    def _latent_means(self, latent_map):
        N = self.features.shape[0]
        latent = self.work.empty((N, latent_map.sparse.shape[1]), latent_map.sparse.dtype)
        blocks = [slice(start, min(start + LATENT_BLOCK, N)) for start in range(0, N, LATENT_BLOCK)]
        parts = self.work.map(_latent_means, ((rows,) for rows in blocks), (self.features, latent_map))
        for rows, part in zip(blocks, parts, strict=True):
            latent[rows] = part
        return latent


def _latent_means(shared, rows):
    features, latent_map = shared
    return latent_map.means(consecutive_rows(features, rows))


class Sweep(Inference):
    """One sweep over the labels, a stage: closed-form updates of q(W) (`xmlgp.label_weights.updates`).

    First each block of points gets shortlists of negatives, by utilities with W as it was before the sweep; then the
    weights of each block of labels are updated. The offsets of the updates have `OFFSET_SHARE` of Φ h, without
    variance, because the bound of Jaakkola and Jordan is loose for uncertain utilities. The bound in the history is
    that one, given these offsets and estimated from stratified pairs.

    Blocks of points and of labels are blocks of work, which may be ahead of the steps: a step takes the result of its
    block.

    `make_data` returns the `SweepData` of the run, the same for all sweeps, when the sweep begins. `number` and `count`
    are those of this sweep, from 0, and of all; `rounds` are updates of ξ. Points that are `left_out` are held out.
    Those that are `listed` get shortlists, all by default; the others keep those of the sweep before. Shortlists are by
    utilities with W x if `with_weights`; τ is updated at the end if `updates_prior`. The time of steps depends on P and
    on the mean memory of the features of a point.
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
        self._factor_count = factor_count
        self._row_bytes = row_bytes
        self._make_data = make_data
        self._labels = labels
        self._number = number
        self._count = count
        self._rounds = rounds
        self._with_weights = with_weights
        self._updates_prior = updates_prior
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
        pairs = (last - first) * (sample_size(K) + (self._labels.nnz + N * shortlist_length(N, K)) / K)
        return self._rounds * UPDATE_COST * pairs * self._row_bytes

    def step(self, epoch, done):
        """Find the shortlists of a block of points, or update a block of labels and return the estimated bound."""
        if done < len(self._point_blocks):
            self._list_negatives(done)
            return None
        bounds = self._update_weights(done - len(self._point_blocks))
        if done == self.steps_per_epoch - 1 and self._updates_prior:
            self._data.weights.update_prior_variances(self._scales())
        return float(bounds.sum()) * len(self._label_blocks)

    def _list_negatives(self, number):
        data = self._data
        if self._listed is None:
            weights = data.weights if self._with_weights else None
            shared = _Points(data.factors, self._seen_labels(), weights, data.shortlist.shape[1])
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
        block = slice(*data.weights.indptr[list(self._label_blocks[number])])
        data.weights.mean[block], data.weights.log_variance[block] = changed
        return bounds

    def _shared_by_labels(self):
        data = self._data
        (N, K) = self._labels.shape
        by_label = positives_by_label(self._seen_labels()), shortlisted_by_label(data.shortlist, K)
        points = data.drawn_from
        size = sample_size(K)
        if points is None:
            points = np.setdiff1d(np.arange(N, dtype=np.int32), self._left_out)
        else:
            # Each of these few is drawn nearly always.
            size = min(size, 4 * len(points))
        draws = [data.seed, 3, self._number], points.astype(np.int32), size, data.population
        others = data.mean_point, data.replayed
        return _Labels(data.factors, data.weights, self._scales(), data.prior, *by_label, *draws, *others)

    def _seen_labels(self):
        """Return Y without the labels of points that are left out."""
        if self._seen is None:
            self._seen = without_labels_of(self._labels, self._left_out) if len(self._left_out) else self._labels
        return self._seen

    def _scales(self):
        """Return ρ, K."""
        counts = np.bincount(self._seen_labels().indices, minlength=self._labels.shape[1])
        return prior_scales(counts, self._data.factors.loadings.dtype)

    @property
    def shortlist(self):
        """The shortlists, once the sweep has ended."""
        return self._data.shortlist

    def arrays(self):
        """Return the arrays that steps change, by name."""
        weights = self._data.weights.parameters()
        kept = ("label_weights.mean", "label_weights.log_variance", "label_weights.log_prior")
        return {f"parameters.{name}": weights[name] for name in kept} | {"shortlist": self._data.shortlist}

    def parameters(self, epochs):
        """Return the label weights by name; steps may change these arrays."""
        return self._data.weights.parameters()
