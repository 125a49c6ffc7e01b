"""The stages that train a model on a batch, where its posterior is the prior."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from xmlgp.data.blocks import stacked
from xmlgp.label_weights.posterior import LabelWeights, hidden_label_weights
from xmlgp.mlgpf.held_out import CALIBRATION_MOST, Recalibration, without_labels_of
from xmlgp.mlgpf.learned_sweep import learned_sweep_data
from xmlgp.mlgpf.method import MLGPFMethod, Parameters, Problem
from xmlgp.mlgpf.replay import NOT_LISTED, Ranked
from xmlgp.mlgpf.stochastic import Schedule, Stochastic, default_rate
from xmlgp.mlgpf.sweep import Sweep, SweepData, SweepPlan
from xmlgp.preprocess.inputs import Inputs
from xmlgp.training.inference import Stages
from xmlgp.training.minibatches import hold_out

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from xmlgp.data.blocks import Blocks
    from xmlgp.mlgpf.replaying import Replayed

__all__ = ["IncrementalTraining", "LearningProblem"]

#: Least number of passes over the batch by stochastic steps.
LEAST_EPOCHS = 4

#: Loadings of a new label move if the batch has so many points without it. Otherwise nothing would keep them from
#: raising the utility of the label for all points.
LEAST_NEGATIVES = 20

#: Learning rate of these steps relative to that of training: they start near where they end.
RATE_SHARE = 0.5

#: Updates of ξ in the sweep, of which there is one where training has two, if no points are replayed.
ROUNDS = 4

#: The same if all points are replayed.
ROUNDS_OF_ALL = 2

#: The same if those points are replayed that matter to some labels, which hardly move then.
ROUNDS_OF_SOME = 1

#: Share of the steps over the batch that are made where steps over all points follow: all of them rank no better then.
STEPS_SHARE = 0.5

#: Share of earlier points that get new shortlists, where all are replayed. The others keep those from before.
LISTED_AGAIN = 1 / 16

#: Where all earlier points are replayed, there is an epoch of steps over all points for so many epochs of training.
REFINEMENT_SHARE = 8

#: Learning rate of these steps relative to that of training.
REFINEMENT_RATE = 0.25


@dataclass(eq=False)
class LearningProblem:
    """What the stages of learning on need: the `Problem` of a batch, n points, which comes after N points.

    `parameters` are those of the model, with rows for new labels and features.
    """

    method: MLGPFMethod
    batch: Problem
    parameters: Parameters
    N: int
    replayed: Replayed | None

    @property
    def n(self) -> int:
        """The number of points of the batch."""
        return self.batch.labels.shape[0]

    @property
    def replays_all(self) -> bool:
        """Whether all earlier points are replayed."""
        return self.replayed is not None and self.replayed.all

    @property
    def replayed_count(self) -> int:
        """The number of points that are replayed."""
        return self.replayed.points.size if self.replayed else 0

    def random(self, stream: int) -> np.random.Generator:
        """Return the generator of a stream of random numbers, another one than those of the earlier points."""
        return np.random.default_rng([self.batch.settings.seed, stream, self.N])

    @functools.cached_property
    def features(self) -> csr_array | Blocks:
        """The weighted features of the batch."""
        return self.batch.coordinates.weighted(slice(None))

    @functools.cached_property
    def all_features(self) -> csr_array | Blocks:
        """The weighted features of the points that are replayed and those of the batch."""
        return stacked([self.replayed.features, self.features]) if self.replayed else self.features

    @functools.cached_property
    def all_labels(self) -> csr_array:
        """Y of the points that are replayed and those of the batch."""
        return stacked([self.replayed.points.labels, self.batch.labels]) if self.replayed else self.batch.labels

    @functools.cached_property
    def counts(self) -> NDArray[np.int64]:
        """How many points of the batch have each label, K."""
        return np.bincount(self.batch.labels.indices, minlength=self.batch.labels.shape[1])

    @property
    def counts_before(self) -> NDArray[np.int64]:
        """How many earlier points have each label, K."""
        return self.parameters["statistics.labels"] - self.counts

    @functools.cached_property
    def present(self) -> NDArray[np.int64]:
        """The labels of the batch."""
        return np.flatnonzero(self.counts)

    @property
    def swept(self) -> NDArray[np.int64]:
        """The labels that sweeps are over."""
        return self.replayed.swept if self.replayed else self.present

    @functools.cached_property
    def ranked(self) -> Ranked | None:
        """What the model keeps of the points that were held out before."""
        return Ranked.of(self.parameters)

    @functools.cached_property
    def split(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Points of the batch that stages before the calibration train on, and those that are held out.

        As large a share as before is held out, if all earlier points are replayed; otherwise none.
        """
        share = 0.0
        if self.replays_all and self.ranked and "calibration" in self.parameters:
            share = min(len(self.ranked.correct) / self.N, CALIBRATION_MOST / (self.N + self.n))
        return hold_out(self.n, share, self.random(11))


class BatchSteps(Stochastic):
    """Stochastic steps over the batch alone.

    They move q(u), or q(t) of the features of the batch in weight space, and the loadings of labels of which the batch
    has at least as many points as came before, and `LEAST_NEGATIVES` without.
    """

    def __init__(self, problem: LearningProblem, random: np.random.Generator) -> None:
        settings = problem.batch.settings
        present = problem.present
        trained, _ = problem.split
        n = len(trained)
        counts = problem.counts[present]
        before = problem.counts_before[present]
        moving = {name: problem.parameters[name][present] for name in ("loadings", "bias")}
        # What a label without points has was drawn at random.
        moving["loadings"][before == 0] = 0
        start = problem.method.learning_start(
            problem.features[trained], problem.batch.coordinates, problem.parameters, problem.N
        )
        steps = problem.method.learning_steps * (STEPS_SHARE if problem.replays_all else 1)
        epochs = max(LEAST_EPOCHS, min(math.ceil(steps / -(-n // settings.batch_size)), n))
        super().__init__(
            problem.method,
            start.bound,
            start.parameters | moving,
            start.coordinates,
            csr_array(problem.batch.labels[trained][:, present]),
            random,
            Schedule(settings.batch_size, epochs, RATE_SHARE * default_rate(settings)),
            free=(before <= counts) & (n - counts >= LEAST_NEGATIVES),
        )
        self._model = problem.parameters
        self._rows = {"loadings": present, **start.rows}

    def model(self) -> Parameters:
        """Return the parameters of the model, with what the steps changed."""
        parameters = dict(self._model)
        trained = self.parameters()
        for name, rows in self._rows.items():
            parameters[name] = self._model[name].copy("K")
            parameters[name][rows] = trained[name]
        return parameters


class Refinement(Stochastic):
    """Stochastic steps over all points, replayed ones and those of the batch, which move T, Φ and b as in training.

    They begin where the steps over the batch end, whose parameters `start` returns.
    """

    def __init__(self, problem: LearningProblem, start: Callable[[], Parameters], random: np.random.Generator) -> None:
        settings = problem.batch.settings
        method = problem.method
        M = problem.replayed_count
        rows = np.append(np.arange(M), M + problem.split[0])
        coordinates = Inputs(problem.all_features[rows], None, settings.dtype, sparse=True)
        batch_size = settings.points_in_batch(len(rows))
        epochs = settings.epoch_count(problem.N)
        super().__init__(
            method,
            method.bound(coordinates),
            method.whitened(start()),
            coordinates,
            problem.all_labels[rows],
            random,
            Schedule(
                batch_size,
                -(-epochs // REFINEMENT_SHARE),
                REFINEMENT_RATE * default_rate(settings),
                earlier_steps=epochs * -(-len(rows) // batch_size),
            ),
        )
        self._start: Callable[[], Parameters] | None = start

    def begin(self, epoch: int) -> None:
        """Take the parameters, before the first epoch."""
        if self._start:
            for name, value in self._method.whitened(self._start()).items():
                self._parameters[name][...] = value
            self._start = None


class IncrementalTraining(Stages):
    """The stages that train a model on a batch: stochastic steps, then a sweep.

    The sweep moves the weights of the labels of the batch and of those that `Replayed` adds, if the model has label
    weights, so that the cost depends on the batch. If all earlier points are replayed, steps over all points come
    before the sweep, and the sweep moves the weights of all labels. The calibration goes on as well: some points of the
    batch are held out of what is before it, as in training, and a last sweep adds them.
    """

    advice = "train again on all points"

    def __init__(self, problem: LearningProblem) -> None:
        self._problem = problem
        self._has_weights = LabelWeights.of(problem.parameters) is not None
        #: Rows of the held-out points among those that are replayed and the batch.
        self._held_out = problem.replayed_count + problem.split[1]
        random = problem.random(5)
        self._steps = BatchSteps(problem, random)
        self._refinement = Refinement(problem, self._steps.model, random) if problem.replays_all else None
        self._recalibration = self._make_recalibration()
        stages = self._steps, self._refinement, self._first_sweep(), self._recalibration, self._last_sweep()
        super().__init__([stage for stage in stages if stage])

    def _first_sweep(self) -> Sweep | None:
        """Return the sweep without held-out points, if the model has label weights."""
        if not self._has_weights:
            return None
        rounds = ROUNDS
        if self._problem.replayed:
            rounds = ROUNDS_OF_ALL if self._problem.replays_all else ROUNDS_OF_SOME
        total = 1
        if len(self._held_out):
            # The last sweep makes one of the rounds.
            rounds -= 1
            total += 1
        plan = SweepPlan(rounds, total=total)
        return Sweep(
            self._make_sweep_data,
            self._swept_labels,
            plan,
            left_out=self._held_out,
            shortlisted=_unlisted_points(self._problem),
        )

    def _last_sweep(self) -> Sweep | None:
        """Return the sweep that adds the held-out points, if there are any and the model has label weights."""
        if not (self._has_weights and len(self._held_out)):
            return None
        plan = SweepPlan(rounds=1, number=1, total=2)
        return Sweep(self._make_sweep_data, self._swept_labels, plan, shortlisted=self._held_out)

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
            with hidden_label_weights(parameters, problem.all_features, seen_labels):
                yield parameters

        share = problem.n / (problem.N + problem.n)
        seed = [problem.batch.settings.seed, 10, problem.N]
        return Recalibration(problem.batch, problem.split[1], seen_labels, ranked, share, seed, current_parameters)

    @functools.cached_property
    def _swept_labels(self) -> csr_array:
        """Y of the points of a sweep and its labels."""
        return csr_array(self._problem.all_labels[:, self._problem.swept])

    @functools.cached_property
    def _sweep_data(self) -> SweepData:
        return learned_sweep_data(self._problem, self._swept_labels.shape, lambda: self._stepped)

    def _make_sweep_data(self) -> SweepData:
        return self._sweep_data

    @functools.cached_property
    def _stepped(self) -> Parameters:
        """The parameters of the model after all stochastic steps, when these have ended."""
        parameters = self._steps.model()
        return parameters | self._refinement.parameters() if self._refinement else parameters

    def _current_parameters(self) -> Parameters:
        """Return the parameters of the model with what was learned, and the calibration of before."""
        parameters = dict(self._stepped)
        if weights := LabelWeights.of(parameters):
            parameters |= weights.put(self._problem.swept, self._sweep_data.weights).parameters()
        return parameters

    def model(self) -> Parameters:
        """Return the parameters of the model with what was learned."""
        return self._current_parameters() | (self._recalibration.fitted() if self._recalibration else {})

    @property
    def shortlist(self) -> NDArray[np.int32] | None:
        """The shortlists of all points from a sweep over all labels, or None."""
        return self._sweep_data.shortlist if self._has_weights and self._problem.replays_all else None


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
    _, renewed = hold_out(M, LISTED_AGAIN, problem.random(12))
    unlisted[renewed] = True
    return np.append(np.flatnonzero(unlisted), batch)
