"""A sweep over the labels: shortlists of negatives for every point, then closed-form updates of the label weights."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from xmlgp.models.mlgpf.held_out import without_labels_of
from xmlgp.models.mlgpf.label_weights.pairs import (
    Strata,
    latent_offsets,
    sample_size,
    shortlist_negatives,
    stratified_pairs,
)
from xmlgp.models.mlgpf.label_weights.posterior import LabelWeights, prior_scales
from xmlgp.models.mlgpf.label_weights.updates import update_label_weights
from xmlgp.models.mlgpf.label_weights.utilities import UtilityMoments
from xmlgp.models.mlgpf.sweep_data import Factors, SweepData
from xmlgp.neighbours.predictions import labels_of_points
from xmlgp.neighbours.search import PointIndex, nearest
from xmlgp.runtime.random_streams import Stream
from xmlgp.training.inference import Inference

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from xmlgp.models.mlgpf.method import Parameters

__all__ = ["OFFSET_SHARE", "Sweep", "SweepPlan"]

#: Share of Φ h in the offsets of the updates. Φ h fits the points it was trained on better than new
#: ones: with all of it little is left for W to explain.
OFFSET_SHARE = 0.85

#: Points whose shortlists are a block of work.
POINT_BLOCK = 1 << 12

#: The nearest points whose labels are the candidates for the shortlist of a point.
NEAREST = 30

#: Labels whose updates are a block of work.
LABEL_BLOCK = 1 << 9

#: Conjugate gradient steps after each update of ξ. More of them do not change precision.
CG_STEPS = 3


class _ShortlistTask(NamedTuple):
    """What shortlists follow from: Y, whose pairs are on none, W or None, the length of a shortlist, and an index."""

    factors: Factors
    labels: csr_array
    weights: LabelWeights | None
    length: int
    nearby: PointIndex | None

    def opened(self) -> tuple[_ShortlistTask, UtilityMoments]:
        return self, UtilityMoments(self.factors.loadings, self.factors.bias, self.weights)


def _shortlists(shared: tuple[_ShortlistTask, UtilityMoments], rows: slice | NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the shortlists of some points, B×S."""
    task, utilities = shared
    features, latent, _, _ = task.factors
    among = None
    if task.nearby is not None:
        found, _ = nearest(task.nearby, task.nearby.rows[rows], NEAREST)
        among = labels_of_points(found, task.labels)
    return shortlist_negatives(utilities, latent[rows], features[rows], task.labels[rows], task.length, among)


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


class SweepPlan(NamedTuple):
    """What a sweep does: it is the `number`th of `total`, counted from 0, and makes `rounds` updates of ξ.

    Shortlists are by utilities with W x if `with_weights`; τ is updated at the end if `updates_prior`.
    """

    rounds: int
    number: int = 0
    total: int = 1
    with_weights: bool = True
    updates_prior: bool = False


class Sweep(Inference):
    """One sweep over the labels, a stage: closed-form updates of q(W) (`xmlgp.models.mlgpf.label_weights.updates`).

    First each block of points gets shortlists of negatives, by utilities with W as it was before the sweep; then the
    weights of each block of labels are updated. The offsets of the updates have `OFFSET_SHARE` of Φ h, without
    variance, because the bound of Jaakkola and Jordan is loose for uncertain utilities. The bound in the history is
    that one, given these offsets and estimated from stratified pairs.

    Blocks of points and of labels are blocks of work, which may be ahead of the steps: a step takes the result of its
    block.

    `make_data` returns the `SweepData` of the run, the same for all sweeps, when the sweep begins. The labels of points
    that are `left_out` are not used. The points `shortlisted` get shortlists,
    all by default; the others keep those of the sweep before.
    """

    def __init__(
        self,
        make_data: Callable[[], SweepData],
        labels: csr_array,
        plan: SweepPlan,
        *,
        left_out: NDArray[np.int64] | None = None,
        shortlisted: NDArray[np.int64] | None = None,
    ) -> None:
        self._make_data = make_data
        self._labels = labels
        self._plan = plan
        self._left_out = np.zeros(0, np.int64) if left_out is None else left_out
        N, K = labels.shape
        points = np.arange(N) if shortlisted is None else shortlisted
        self._point_blocks = np.split(points, range(POINT_BLOCK, len(points), POINT_BLOCK))
        self._label_blocks = [(start, min(start + LABEL_BLOCK, K)) for start in range(0, K, LABEL_BLOCK)]
        self.steps_per_epoch = len(self._point_blocks) + len(self._label_blocks)
        self._data: SweepData
        #: The results of blocks of points, and of labels.
        self._shortlists: Generator[Any, None, None] | None = None
        self._updates: Generator[Any, None, None] | None = None

    def place(self, epoch: int) -> dict[str, str]:
        """Return the number of the sweep."""
        return {"sweep": f"{self._plan.number + 1}/{self._plan.total}"}

    def notes(self) -> dict[str, int]:
        """Return the number of the sweep, counted from 1."""
        return {"sweep": self._plan.number + 1}

    def begin(self, epoch: int) -> None:
        """Make or take the data."""
        self._data = self._make_data()

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
        if done == self.steps_per_epoch - 1 and self._plan.updates_prior:
            self._data.weights.update_prior_variances(self._scales())
        return bound * len(self._label_blocks)

    def _list_negatives(self, number: int) -> None:
        data = self._data
        if self._shortlists is None:
            weights = data.weights if self._plan.with_weights else None
            task = _ShortlistTask(data.factors, self._seen_labels, weights, data.shortlist.shape[1], data.index)
            self._shortlists = data.work.map(_shortlists, ((rows,) for rows in self._point_blocks[number:]), task)
        data.shortlist[self._point_blocks[number]] = next(self._shortlists)
        data.shortlist[self._left_out] = -1

    def _update_weights(self, number: int) -> float:
        """Update the weights of a block of labels; return the sum of their bounds."""
        weights = self._data.weights
        if self._updates is None:
            # The shortlists are complete.
            self.end()
            blocks = ((*block, self._plan.rounds) for block in self._label_blocks[number:])
            self._updates = self._data.work.map(_updated_weights, blocks, self._update_task())
        block = slice(*weights.indptr[list(self._label_blocks[number])])
        bounds, weights.mean[block], weights.log_variance[block] = next(self._updates)
        return float(bounds.sum())

    def _update_task(self) -> _UpdateTask:
        data = self._data
        N, K = self._labels.shape
        return _UpdateTask(
            data.factors,
            data.weights,
            self._scales(),
            Strata.of(self._seen_labels, data.shortlist),
            [data.seed, Stream.SWEEP, self._plan.number],
            np.setdiff1d(np.arange(N), self._left_out).astype(np.int32),
            sample_size(K),
        )

    @functools.cached_property
    def _seen_labels(self) -> csr_array:
        """Y without the labels of points that are left out."""
        return without_labels_of(self._labels, self._left_out) if len(self._left_out) else self._labels

    def _scales(self) -> NDArray[np.floating]:
        """Return ρ, K."""
        counts = np.bincount(self._seen_labels.indices, minlength=self._labels.shape[1])
        return prior_scales(counts, self._data.factors.loadings.dtype)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that steps change, by name."""
        weights = self._data.weights.parameters()
        changed = ("label_weights.mean", "label_weights.log_variance", "label_weights.log_prior")
        return {f"parameters.{name}": weights[name] for name in changed} | {"shortlist": self._data.shortlist}

    def parameters(self, epochs: int = 0) -> Parameters:
        """Return the label weights by name, which steps may change."""
        return self._data.weights.parameters()
