"""The stages that train a model on a batch, where its posterior is the prior."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from xmlgp.label_weights.posterior import LabelWeights, hidden_label_weights
from xmlgp.mlgpf.held_out import Recalibration, without_labels_of
from xmlgp.mlgpf.learned_sweep import learned_sweep_data
from xmlgp.mlgpf.learning_steps import BatchSteps, Refinement
from xmlgp.mlgpf.replay import NOT_LISTED
from xmlgp.mlgpf.sweep import Sweep, SweepPlan
from xmlgp.mlgpf.sweep_data import SweepData
from xmlgp.runtime.random_streams import Stream
from xmlgp.training.inference import Stages
from xmlgp.training.minibatches import hold_out

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from xmlgp.mlgpf.learning_problem import LearningProblem
    from xmlgp.mlgpf.method import Parameters

__all__ = ["IncrementalTraining"]

#: Updates of ξ in the sweep, of which there is one where training has two, if no points are replayed.
ROUNDS = 4

#: The same if all points are replayed: one sweep adds the held-out points as well. With a sweep before they join, as in
#: training, test points are ranked equally well, and learning takes a quarter more.
ROUNDS_OF_ALL = 1

#: The same if those points are replayed that matter to some labels, which hardly move then.
ROUNDS_OF_SOME = 1

#: Share of earlier points that get new shortlists, where all are replayed. The others keep those from before.
LISTED_AGAIN = 1 / 16


class IncrementalTraining(Stages):
    """The stages that train a model on a batch: stochastic steps, then a sweep.

    The sweep moves the weights of the labels of the batch and of those that `Replayed` adds, if the model has label
    weights, so that the cost depends on the batch. If all earlier points are replayed, steps over all points come
    before the sweep, and the sweep moves the weights of all labels. The calibration goes on as well: some points of the
    batch are held out of what is before it, as in training, and a last sweep adds them. Where all are replayed, that is
    the only one.
    """

    advice = "train again on all points"

    def __init__(self, problem: LearningProblem) -> None:
        self._problem = problem
        #: Rows of the held-out points among those that are replayed and the batch.
        self._held_out = problem.replayed_count + problem.split[1]
        random = problem.random(Stream.LEARNING)
        self._steps = BatchSteps(problem, random)
        self._refinement = Refinement(problem, self._steps.model, random) if problem.replays_all else None
        self._recalibration = self._make_recalibration()
        self._make_sweep_data: Callable[[], SweepData] | None = None
        weights = LabelWeights.of(problem.parameters)
        first, last = self._make_sweeps(weights) if weights else (None, None)
        stages = self._steps, self._refinement, first, self._recalibration, last
        super().__init__([stage for stage in stages if stage])

    def _make_sweeps(self, weights: LabelWeights) -> tuple[Sweep | None, Sweep | None]:
        """Return the sweep without held-out points, and the one that adds them; either may be None."""
        problem = self._problem
        labels = csr_array(problem.all_labels[:, problem.swept])
        self._make_sweep_data = functools.cache(
            functools.partial(learned_sweep_data, problem, weights, labels.shape, lambda: self._stepped)
        )
        sweep = functools.partial(Sweep, self._make_sweep_data, labels)
        rounds = ROUNDS
        if problem.replayed:
            rounds = ROUNDS_OF_ALL if problem.replays_all else ROUNDS_OF_SOME
        unlisted = _unlisted_points(problem)
        if problem.replays_all:
            return None, sweep(SweepPlan(rounds), shortlisted=unlisted)
        if not len(self._held_out):
            return sweep(SweepPlan(rounds), shortlisted=unlisted), None
        # The last sweep makes one of the rounds.
        first = sweep(SweepPlan(rounds - 1, total=2), left_out=self._held_out, shortlisted=unlisted)
        return first, sweep(SweepPlan(1, number=1, total=2), shortlisted=self._held_out)

    def _make_recalibration(self) -> Recalibration | None:
        """Return the stage of the calibration, if points are held out."""
        problem = self._problem
        ranked = problem.ranked
        if ranked is None or not len(self._held_out):
            return None
        seen_labels = without_labels_of(problem.all_labels, self._held_out)

        @contextmanager
        def current_parameters() -> Iterator[Parameters]:
            parameters = self._current_parameters()
            parameters.pop("calibration")
            with hidden_label_weights(parameters, problem.all_features.sparse, seen_labels):
                yield parameters

        share = problem.n / (problem.N + problem.n)
        seed = [problem.batch.settings.seed, Stream.RECALIBRATION, problem.N]
        return Recalibration(problem.batch, problem.split[1], seen_labels, ranked, share, seed, current_parameters)

    @functools.cached_property
    def _stepped(self) -> Parameters:
        """The parameters of the model after all stochastic steps, when these have ended."""
        parameters = self._steps.model()
        return parameters | self._refinement.parameters() if self._refinement else parameters

    def _current_parameters(self) -> Parameters:
        """Return the parameters of the model with what was learned, and the calibration of before."""
        parameters = dict(self._stepped)
        weights = LabelWeights.of(parameters)
        if weights and self._make_sweep_data:
            parameters |= weights.put(self._problem.swept, self._make_sweep_data().weights).parameters()
        return parameters

    def model(self) -> Parameters:
        """Return the parameters of the model with what was learned."""
        return self._current_parameters() | (self._recalibration.fitted() if self._recalibration else {})

    @property
    def shortlist(self) -> NDArray[np.int32] | None:
        """The shortlists of all points from a sweep over all labels, or None."""
        if self._make_sweep_data is None or not self._problem.replays_all:
            return None
        return self._make_sweep_data().shortlist


def _unlisted_points(problem: LearningProblem) -> NDArray[np.int64]:
    """Return the points that need shortlists, of those that are replayed and the batch.

    Where all earlier points are replayed, those without a shortlist need one, and a share of the others gets a new one.
    """
    M = problem.replayed_count
    batch = M + np.arange(problem.n)
    replayed = problem.replayed
    if replayed is None or not replayed.all or replayed.points.shortlist is None:
        return batch
    unlisted = replayed.points.shortlist[:, 0] == NOT_LISTED
    _, renewed = hold_out(M, LISTED_AGAIN, problem.random(Stream.RELISTED))
    unlisted[renewed] = True
    return np.append(np.flatnonzero(unlisted), batch)
