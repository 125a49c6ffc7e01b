"""Sweeps over the labels: shortlists of negatives for every point, then closed-form updates of the label weights."""

from __future__ import annotations

from collections.abc import Generator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.data.dataset import consecutive_rows
from xmlgp.gp.weight_space import MEAN
from xmlgp.linear_algebra import sparse
from xmlgp.metrics.ranking import top_entries
from xmlgp.models.mlgpf.held_out import without_labels_of
from xmlgp.models.mlgpf.label_weights.pairs import (
    Strata,
    latent_offsets,
    sample_size,
    shortlist_length,
    shortlist_negatives,
    stratified_pairs,
)
from xmlgp.models.mlgpf.label_weights.posterior import LabelWeights, initial_label_weights, prior_scales
from xmlgp.models.mlgpf.label_weights.updates import update_label_weights
from xmlgp.models.mlgpf.label_weights.utilities import linear_utilities
from xmlgp.models.mlgpf.methods import Parameters, Problem
from xmlgp.models.mlgpf.predictor import word_scales
from xmlgp.models.mlgpf.settings import WEIGHT_SPACE, MLGPFSettings
from xmlgp.neighbours.predictions import labels_of_points, scaled_words
from xmlgp.neighbours.search import PointIndex, build_index, nearest
from xmlgp.prediction.terms import Utilities
from xmlgp.runtime.random_streams import Stream
from xmlgp.training.inference import Inference

__all__ = ["OFFSET_SHARE", "SWEEPS", "Sweep", "SweepData", "sweep_count"]

#: Sweeps over the labels, with the last one, which adds the held-out points. The first makes shortlists by Φ h alone.
#: On six data sets, one more ranks held-out points no better.
SWEEPS = 2

#: Features per latent function from which on label weights are used by default where labels are more than features.
#: With fewer, Φ h spans all directions that matter: with them, half of Delicious (D=500, K=983, P=100) loses 0.7 of P@1
#: and gains 0.9 of macro-F1@5. On three sets with D from 442 to 1,836 and fewer labels they lose nothing.
FEATURES_PER_FACTOR = 10

#: Most pairs of points and labels for a second sweep. With more, it gains little, and its shortlists would take most of
#: the time.
SECOND_SWEEP_LIMIT = 10**11

#: Share of Φ h in the offsets of the updates. Φ h fits the points it was trained on better than new
#: ones: with all of it little is left for W to explain.
OFFSET_SHARE = 0.85

#: Points whose latent functions are a block of work.
LATENT_BLOCK = 1 << 15

#: Points whose shortlists are a block of work.
POINT_BLOCK = 1 << 12

#: Most pairs of points and labels of which all are scored for shortlists. With 4.8e9, that takes 31 s of processor
#: time, and the search of the nearest points 18 s.
MOST_SCORED = 12 * 10**8

#: The nearest points whose labels are the candidates for the shortlist of a point, and the words of largest magnitude
#: by which they are found. With 490,000 points and 77 words a point, 10 words take a tenth of the time of all, and find
#: two thirds of the same points. With 21 words a point, P@k and PSP@k of test points change by less than 0.1, with 6
#: words by 0.3.
NEAREST = 30
HEAVIEST = 10

#: Labels whose updates are a block of work.
LABEL_BLOCK = 1 << 9

#: Updates of ξ in a sweep. More of them do not change precision.
ROUNDS = 2

#: Conjugate gradient steps after each update of ξ. More of them do not change precision.
CG_STEPS = 3


def sweep_count(settings: MLGPFSettings, N: int, D: int, K: int) -> int:
    """Return the number of sweeps over the labels; 0 without label weights."""
    has_weights = settings.label_weights
    if has_weights is None:
        has_weights = min(FEATURES_PER_FACTOR * settings.factor_count, K) <= D
    if settings.method is not WEIGHT_SPACE or not has_weights:
        return 0
    return SWEEPS if N * K <= SECOND_SWEEP_LIMIT else 1


class Factors(NamedTuple):
    """X, sparse, the means of the latent functions, N×P, Φ and b, which sweeps do not change."""

    features: csr_array
    latent: NDArray[np.floating]
    loadings: NDArray[np.floating]
    bias: NDArray[np.floating]


class SweepData:
    """What the sweeps of a run share, computed when one begins, after the stochastic `steps`.

    Sweeps change the label weights and the shortlists in place. There are none if `total` is 0.
    """

    def __init__(self, problem: Problem, steps: Inference, total: int) -> None:
        self.executor = problem.executor
        self.seed = problem.settings.seed
        self.labels = problem.labels
        self.total = total
        self._coordinates = problem.coordinates
        self._steps = steps

    def parameters(self) -> Parameters:
        """Return the parameters of the model so far, by name; later steps may change these arrays."""
        return self._steps.parameters(0) | (self.weights.parameters() if self.total else {})

    @cached_property
    def features(self) -> csr_array:
        """The weighted features, N×D."""
        return self._coordinates.weighted(slice(None)).sparse

    @cached_property
    def weights(self) -> LabelWeights:
        """The label weights."""
        bias = self._steps.parameters(0)["bias"]
        return initial_label_weights(self.features, self.labels, bias, self._coordinates.dtype)

    @cached_property
    def shortlist(self) -> NDArray[np.int32]:
        """Negatives of each point, N×S; −1 after the last of a point that has fewer."""
        return np.full((self.labels.shape[0], shortlist_length(*self.labels.shape)), -1, np.int32)

    @cached_property
    def factors(self) -> Factors:
        """The latent functions at the points, Φ and b."""
        parameters = self._steps.parameters(0)
        weights = parameters[MEAN]
        N = self.features.shape[0]
        latent = self.executor.empty((N, weights.shape[1]), weights.dtype)
        blocks = [slice(start, min(start + LATENT_BLOCK, N)) for start in range(0, N, LATENT_BLOCK)]
        means = self.executor.map(_latent_means, ((rows,) for rows in blocks), (self.features, weights))
        for rows, block_means in zip(blocks, means, strict=True):
            latent[rows] = block_means
        return Factors(self.features, latent, parameters["loadings"], parameters["bias"])

    def release(self) -> None:
        """Free what is large and the next sweep computes again."""
        vars(self).pop("factors", None)

    def index(self) -> PointIndex | None:
        """Return the index of the points by their scaled words where labels are many; None otherwise.

        The labels of the points nearest to a point are then those among which its shortlist is.
        """
        if np.prod(self.labels.shape) <= MOST_SCORED:
            return None
        return build_index(scaled_words(self.features, word_scales(self._steps.parameters(0), self.features.shape[1])))


def _latent_means(shared: tuple[csr_array, NDArray[np.floating]], rows: slice) -> NDArray[np.floating]:
    features, weights = shared
    return sparse.product(consecutive_rows(features, rows), weights)


class _ShortlistTask(NamedTuple):
    """What shortlists follow from: Y, whose pairs are on none, W or None, the length of a shortlist, and an index."""

    factors: Factors
    labels: csr_array
    weights: LabelWeights | None
    length: int
    nearby: PointIndex | None

    def prepare_shared(self) -> tuple[_ShortlistTask, Utilities]:
        return self, linear_utilities(self.factors.loadings, self.factors.bias, self.weights)


def _shortlists(shared: tuple[_ShortlistTask, Utilities], rows: slice | NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the shortlists of some points, B×S."""
    task, utilities = shared
    features, latent, _, _ = task.factors
    among = None
    if task.nearby is not None:
        found, _ = nearest(task.nearby, _heaviest(task.nearby.rows[rows]), NEAREST)
        among = labels_of_points(found, task.labels)
    return shortlist_negatives(utilities, latent[rows], features[rows], task.labels[rows], task.length, among)


def _heaviest(words: csr_array) -> csr_array:
    """Return the words of largest magnitude of each point, B×D."""
    chosen = top_entries(abs(words), HEAVIEST)
    chosen.sort_indices()
    return csr_array(words * (chosen > 0))


class _UpdateTask(NamedTuple):
    """What label weights are updated with: W, and ρ of its prior.

    Pairs are made of the strata, the seed, the points to draw from and how many are drawn.
    """

    factors: Factors
    weights: LabelWeights
    scales: NDArray[np.floating]
    strata: Strata
    seed: list[int]
    drawn_from: NDArray[np.int32]
    sample_size: int


def _updated_weights(
    task: _UpdateTask, first: int, last: int, rounds: int
) -> tuple[NDArray[np.floating], NDArray[np.floating], NDArray[np.floating]]:
    """Return the bounds of consecutive labels, and the updated means and log variances of their weights."""
    features, latent, loadings, bias = task.factors
    pairs = stratified_pairs(task.strata, first, last, task.seed, task.drawn_from, task.sample_size)
    offset = latent_offsets(pairs, latent, loadings[first:last], bias[first:last], OFFSET_SHARE)
    block = task.weights.block(first, last)
    precision = block.prior_precision(task.scales[first:last])
    bounds = update_label_weights(pairs, offset, features, block, precision, rounds, CG_STEPS)
    return bounds, block.mean, block.log_variance


class Sweep(Inference):
    """One sweep over the labels, a stage: closed-form updates of q(W) (`xmlgp.models.mlgpf.label_weights.updates`).

    First each block of points gets shortlists of negatives, by utilities with W as it was before the sweep, or by Φ h
    alone in the first sweep (`number` 0); then the weights of each block of labels are updated, by so many `rounds`;
    in the end τ is, if so wanted. The offsets of the updates have `OFFSET_SHARE` of Φ h, without variance, because the
    bound of Jaakkola and Jordan is loose for uncertain utilities. The bound in the history is that one, given these
    offsets and estimated from stratified pairs.

    The labels of points that are `left_out` are not used. The points `shortlisted` get shortlists, all by default; the
    others keep those of the sweep before. Blocks of points and of labels are blocks of work, which may be ahead of the
    steps: a step takes the result of its block.
    """

    def __init__(
        self,
        data: SweepData,
        number: int,
        *,
        applies: bool,
        rounds: int = ROUNDS,
        updates_prior: bool = True,
        left_out: NDArray[np.int64] | None = None,
        shortlisted: NDArray[np.int64] | None = None,
    ) -> None:
        self.epochs = int(applies)
        self._data = data
        self._number = number
        self._rounds = rounds
        self._updates_prior = updates_prior
        self._left_out = np.zeros(0, np.int64) if left_out is None else left_out
        N, K = data.labels.shape
        points = np.arange(N) if shortlisted is None else shortlisted
        self._point_blocks = np.split(points, range(POINT_BLOCK, len(points), POINT_BLOCK))
        self._label_blocks = [(start, min(start + LABEL_BLOCK, K)) for start in range(0, K, LABEL_BLOCK)]
        self.steps_per_epoch = len(self._point_blocks) + len(self._label_blocks)
        #: The results of blocks of points, and of labels.
        self._shortlists: Generator[Any, None, None] | None = None
        self._updates: Generator[Any, None, None] | None = None

    def phase(self, epoch: int, done: int) -> tuple[str, float | None]:
        """Return what the progress shows: a share of the blocks of labels, before which are those of points."""
        share = max(0, done - len(self._point_blocks)) / len(self._label_blocks)
        return "last weights" if self._number else "weights", share or None

    def notes(self) -> dict[str, int]:
        """Return the number of the sweep, counted from 1."""
        return {"sweep": self._number + 1}

    def end(self) -> None:
        """Give up blocks whose results are not needed."""
        for results in self._shortlists, self._updates:
            if results is not None:
                results.close()

    def step(self, epoch: int, done: int) -> float | None:
        """Find the shortlists of a block of points, or update a block of labels and return the estimated bound."""
        if done < len(self._point_blocks):
            self._list_negatives(done)
            return None
        bound = self._update_weights(done - len(self._point_blocks))
        if done == self.steps_per_epoch - 1:
            if self._updates_prior:
                self._data.weights.update_prior_variances(self._scales())
            self._data.release()
        return bound * len(self._label_blocks)

    def _list_negatives(self, number: int) -> None:
        data = self._data
        if self._shortlists is None:
            weights = data.weights if self._number else None
            task = _ShortlistTask(data.factors, self._seen_labels, weights, data.shortlist.shape[1], data.index())
            self._shortlists = data.executor.map(_shortlists, ((rows,) for rows in self._point_blocks[number:]), task)
        data.shortlist[self._point_blocks[number]] = next(self._shortlists)
        data.shortlist[self._left_out] = -1

    def _update_weights(self, number: int) -> float:
        """Update the weights of a block of labels; return the sum of their bounds."""
        data = self._data
        if self._updates is None:
            # The shortlists are complete, and the index of points is not needed any more.
            self.end()
            task = _UpdateTask(
                data.factors,
                data.weights,
                self._scales(),
                Strata.of(self._seen_labels, data.shortlist),
                [data.seed, Stream.SWEEP, self._number],
                np.setdiff1d(np.arange(data.labels.shape[0]), self._left_out).astype(np.int32),
                sample_size(data.labels.shape[1]),
            )
            blocks = ((*block, self._rounds) for block in self._label_blocks[number:])
            self._updates = data.executor.map(_updated_weights, blocks, task)
        weights = data.weights
        block = slice(*weights.indptr[list(self._label_blocks[number])])
        bounds, weights.mean[block], weights.log_variance[block] = next(self._updates)
        return float(bounds.sum())

    @cached_property
    def _seen_labels(self) -> csr_array:
        """Y without the labels of points that are left out."""
        return without_labels_of(self._data.labels, self._left_out) if len(self._left_out) else self._data.labels

    def _scales(self) -> NDArray[np.floating]:
        """Return ρ, K."""
        counts = np.bincount(self._seen_labels.indices, minlength=self._data.labels.shape[1])
        return prior_scales(counts, self._data.factors.loadings.dtype)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that steps change, by name."""
        weights = self._data.weights.parameters()
        changed = ("label_weights.mean", "label_weights.log_variance", "label_weights.log_prior")
        return {f"parameters.{name}": weights[name] for name in changed} | {"shortlist": self._data.shortlist}

    def parameters(self, epochs: int = 0) -> Parameters:
        """Return the label weights by name, which steps may change."""
        return self._data.weights.parameters()
