"""Training of MLGPF: stochastic gradient ascent on the bound, and the stages that follow it.

The training loop runs the stages.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.data.dataset import Features, widen
from xmlgp.features.inputs import Inputs
from xmlgp.features.pipeline import Preprocessed
from xmlgp.models.mlgpf.costs import expected_costs
from xmlgp.models.mlgpf.held_out import HeldOutChoices, calibration_points
from xmlgp.models.mlgpf.methods import MLGPFMethod, Parameters, Problem, load_method
from xmlgp.models.mlgpf.settings import WEIGHT_SPACE, MLGPFSettings
from xmlgp.models.mlgpf.sweep import Sweep, SweepData, sweep_count
from xmlgp.neighbours.label_texts import TextWords
from xmlgp.runtime.executor import LOCAL_EXECUTOR, Executor
from xmlgp.runtime.progress import Progress, silent
from xmlgp.training.checkpoints import CheckpointWriter
from xmlgp.training.inference import Inference, Stages
from xmlgp.training.loop import EpochHook, Loop, TrainingDiverged
from xmlgp.training.minibatches import make_batch
from xmlgp.training.optimisers import OPTIMISERS, falling_rate
from xmlgp.training.result import HeldOutMeasures, TrainingResult, label_counts

__all__ = ["BOUND_EVERY", "RETRY_RATE", "Stochastic", "Training", "default_values", "run_inference", "train"]
__all__ += ["training_rate"]

#: From so many points on, and so many for each label, the default learning rate of weight space is `LONG_RATE`: 0.1
#: moves parameters too slowly for the few epochs there. Loadings have no prior, so those of rare labels grow too large
#: with a higher rate: with one point a label, 0.15 loses 4 of P@1 on held-out points.
LONG_POINTS = 100_000
LONG_POINTS_PER_LABEL = 4
LONG_RATE = 0.15

#: Steps from one evaluation of the bound to the next; its gradients alone are cheaper.
BOUND_EVERY = 10

#: Factor of the learning rate in the second attempt, after training diverged.
RETRY_RATE = 0.25

#: The fall of the score that ends the steps, as a share of the best so far. On parts of seven sets, chance is up to
#: 0.013, and documents of few words lose 0.014 to 0.04 from a sixth or a third of the epochs on.
LEAST_FALL = 0.014

#: Updates of ξ in the last sweep, which adds the held-out points. More of them do not change precision.
LAST_ROUNDS = 1


def default_values(settings: MLGPFSettings, N: int, D: int, K: int) -> dict[str, object]:
    """Return what training uses where settings are unset; see `Model.default_values`."""
    settings = settings.for_shape(N, D, K)
    return {
        "inducing": settings.inducing,
        "inducing_start": settings.inducing_start,
        "factors": settings.factors,
        "label_weights": sweep_count(settings, N, D, K) > 0,
        "negatives": "all",
        "optimiser": settings.optimiser or settings.method.optimiser,
        "label_sample": settings.sampled_labels(K),
        "learning_rate": training_rate(settings, N, K),
        "epochs": settings.epoch_count(N),
    }


def training_rate(settings: MLGPFSettings, N: int, K: int) -> float:
    """Return the learning rate of training on N points with K labels: by default `LONG_RATE` where both are many."""
    has_many = N >= LONG_POINTS and N >= LONG_POINTS_PER_LABEL * K
    if has_many and settings.learning_rate is None and settings.method is WEIGHT_SPACE and not settings.optimiser:
        return LONG_RATE
    return settings.learning_rate or OPTIMISERS[settings.optimiser or settings.method.optimiser].default_rate


class Stochastic(Inference):
    """Maximise a `Bound` by Adam, AdaGrad or AdaDelta over minibatches of N points, of almost equal size.

    Parameters that the bound does not fix are changed in place. The number of epochs is that for `all_points`, with
    those that are held out. The learning rate is `rate` for half of the steps, then
    falls to zero.

    With a `score` of parameters, the steps end where it falls by `LEAST_FALL`, before one of the
    `checked_epochs` of the settings, with the parameters of the highest one. The steps that remain then do nothing.
    """

    random: np.random.Generator

    def __init__(
        self,
        method: MLGPFMethod,
        coordinates: Inputs,
        labels: csr_array,
        inducing: NDArray[np.floating] | None,
        rate: float,
        all_points: int,
        score: Callable[[Parameters], float] | None = None,
    ) -> None:
        settings = method.settings
        N = labels.shape[0]
        self.random = np.random.default_rng(settings.seed)
        self.epochs = settings.epoch_count(all_points)
        self._method = method
        self._coordinates = coordinates
        self._labels = labels
        self._rate = rate
        self._choose_pairs = method.pairs(labels)
        self._bound = method.bound(coordinates)
        self._parameters = method.initial(coordinates, labels, inducing, self.random)
        fixed = self._bound.fixed
        self._moving = {name: value for name, value in self._parameters.items() if name not in fixed}
        optimiser = OPTIMISERS[settings.optimiser or settings.method.optimiser]
        self._optimiser = optimiser(self._moving, self._bound.latent.relative)
        self.steps_per_epoch = -(-N // settings.points_in_batch(N))
        #: Points in the order in which the current epoch visits them.
        self._order = np.zeros(N, np.int64)
        self._score = score
        self._checks = settings.checked_epochs(all_points) if score else frozenset()
        #: The parameters of highest score, this score, and whether the steps have ended.
        self._best = {name: value.copy() for name, value in self._moving.items()} if self._checks else {}
        self._best_score = np.full(1, -1.0)
        self._has_ended = np.zeros(1, bool)

    def step(self, epoch: int, done: int) -> float | None:
        """Update with one minibatch; at every `BOUND_EVERY`-th step return an estimate of the bound before.

        Nothing but the random generator has changed if the gradients cannot be computed.
        """
        if not done and epoch in self._checks and not self._has_ended:
            self._check()
        if self._has_ended:
            return None
        order = self._order if done else self.random.permutation(len(self._order))
        number = epoch * self.steps_per_epoch + done
        bound_needed = not done or number % BOUND_EVERY == 0
        rows = np.array_split(order, self.steps_per_epoch)[done]
        batch = make_batch(self._coordinates, self._labels, rows, lambda y: self._choose_pairs(y, self.random))
        value, gradients = self._bound.value_and_gradients(self._parameters, batch, bound_needed, for_step=True)
        if not done:
            self._order[:] = order
        self._optimiser.step_count = number
        rate = self._rate * falling_rate(number / (self.epochs * self.steps_per_epoch))
        self._optimiser.step(self._parameters, gradients, rate)
        return value if bound_needed else None

    def _check(self) -> None:
        """Keep the parameters if they rank held-out points best so far; end with the best if these rank them worse."""
        score = self._score(self.parameters()) if self._score else 0.0
        self._has_ended |= score < (1 - LEAST_FALL) * self._best_score
        if self._has_ended or score > self._best_score:
            source, target = (self._best, self._moving) if self._has_ended else (self._moving, self._best)
            for name, value in source.items():
                target[name][:] = value
            self._best_score[:] = score

    def check_restored(self, epoch: int, done: int) -> None:
        """Raise ValueError unless an epoch that has begun has each point once, and the score is finite."""
        if done and not np.array_equal(np.sort(self._order), np.arange(len(self._order))):
            raise ValueError("the order does not have each point once")
        if not np.isfinite(self._best_score).all():
            raise ValueError("the highest score is not a number")

    def end(self) -> None:
        """Free the state of the optimiser."""
        self._optimiser.state.clear()

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that steps change, by name."""
        arrays = {f"parameters.{name}": value for name, value in self._moving.items()}
        arrays |= {f"optimiser.{name}": value for name, value in self._optimiser.state.items()}
        arrays |= {f"best.{name}": value for name, value in self._best.items()}
        return arrays | {"order": self._order, "best.score": self._best_score, "ended": self._has_ended}

    def parameters(self, epochs: int = 0) -> Parameters:
        """Return the parameters of the model by name; steps may change these arrays."""
        return self._method.trained(self._parameters)


class Training(Stages):
    """The stages that train on a `Problem`, always in the same order; each says whether it applies.

    A learning rate that is not that of the settings is in the history.
    """

    advice = "try a lower learning_rate or another weighting"
    advice_at_start = "try another weighting, lengthscale or diagonal"

    _choices: HeldOutChoices

    def __init__(self, method: MLGPFMethod, problem: Problem, rate: float | None = None) -> None:
        settings = problem.settings
        N, K = problem.labels.shape
        default = training_rate(settings, N, K)
        self._retry_notes = {} if rate in (None, default) else {"learning_rate": rate}
        trained, held_out = calibration_points(settings, problem.labels, problem.groups)
        holds_out = len(held_out) > 0
        coordinates: Inputs = problem.coordinates
        labels = problem.labels
        if holds_out:
            coordinates = problem.coordinates.select(trained)
            labels = labels[trained]

        score = self._score if holds_out else None
        inducing = problem.preprocessed.inducing
        steps = Stochastic(method, coordinates, labels, inducing, rate or default, N, score)
        sweeps = sweep_count(settings, N, problem.coordinates.feature_count, K)
        data = SweepData(problem, steps, sweeps)
        # Where a last sweep follows, the one before leaves the prior to it: one more update would widen the prior.
        first = Sweep(data, 0, applies=sweeps > 0, updates_prior=not holds_out, left_out=held_out)
        second = Sweep(data, 1, applies=sweeps > 1 and not holds_out)
        self._choices = HeldOutChoices(problem, (trained, held_out), data.parameters, settings.pools_neighbours)
        # With the held-out points, which are neighbours now as well.
        last = Sweep(data, 1, applies=sweeps > 0 and holds_out, rounds=LAST_ROUNDS, shortlisted=held_out)
        self.costs = expected_costs(settings, problem.features, problem.labels, len(held_out))
        super().__init__([steps, first, second, self._choices, last])

    def _score(self, parameters: Parameters) -> float:
        return self._choices.score(parameters)

    @property
    def held_out(self) -> HeldOutMeasures | None:
        """What was measured on held-out points, or None."""
        return self._choices.measured

    def notes(self) -> dict[str, Any]:
        """Return the notes of the stages, and the learning rate if it is not that of the settings."""
        return self._retry_notes | super().notes()


def train(
    features: Features,
    labels: csr_array,
    preprocessed: Preprocessed,
    settings: MLGPFSettings,
    progress: Progress = silent,
    checkpoints: CheckpointWriter | None = None,
    executor: Executor = LOCAL_EXECUTOR,
    label_texts: tuple[csr_array, NDArray[np.int32]] | None = None,
    groups: NDArray[np.int64] | None = None,
) -> TrainingResult:
    """Train MLGPF as its settings say; see `Model.train`.

    With texts of labels, their words M×(D and more) and the label of each, the last labels that no point has are not
    trained: only their texts speak for them.

    Some points are held out (`calibration_points`), of each of the `groups` all or none. On them probabilities are
    calibrated, and in weight space the pool with the regression on neighbours is chosen (`HeldOutChoices`). If training
    diverges, it restarts once with `RETRY_RATE` times the learning rate. `executor` computes the sweeps of weight
    space; the steps are made here.

    Raises
    ------
    TrainingDiverged
        If a computation becomes non-finite in the second attempt as well.
    ModelFolderError
        If the checkpoint is damaged.
    ClusterError
        If the cluster is lost.
    """
    method = load_method(settings)
    coordinates = method.coordinates(features, preprocessed, executor)
    trained = labels if label_texts is None else widen(labels, int(labels.indices.max(initial=-1)) + 1)
    problem = Problem(
        settings,
        features,
        trained,
        preprocessed,
        coordinates,
        executor,
        progress,
        label_texts and TextWords(*label_texts),
        groups,
    )
    parameters, history, training = _train_twice(method, problem, checkpoints)
    return TrainingResult(parameters | label_counts(labels), history, training.held_out)


def _train_twice(
    method: MLGPFMethod, problem: Problem, checkpoints: CheckpointWriter | None
) -> tuple[Parameters, list[dict[str, Any]], Training]:
    """Train; if that diverges, train once more with a lower learning rate. Return parameters, history and `Training`.

    Training that diverges before its first step is not repeated: its starting point would be the same. Checkpoints hold
    the learning rate in use, and how the first attempt failed.
    """
    rate = training_rate(problem.settings, *problem.labels.shape)
    failure = None
    resume_from = checkpoints and checkpoints.resume_from
    if resume_from:
        with resume_from.checked():
            rate = float(resume_from.facts["learning_rate"])
            failure = resume_from.facts["first_failure"]
    while True:
        facts = {"learning_rate": rate, "first_failure": failure}
        try:
            loop = Loop(Training, method, problem, rate)
            return *loop.run(problem.progress, None, checkpoints, facts), loop.inference
        except TrainingDiverged as error:
            if failure is not None:
                raise TrainingDiverged(f"{error.reason} ({failure})", error.steps, error.advice) from error
            if not error.steps:
                raise
            failure = f"a first attempt with learning rate {rate:g} diverged {error.when}"
        rate *= RETRY_RATE


def run_inference(problem: Problem, after_epoch: EpochHook | None = None) -> tuple[Parameters, list[dict[str, Any]]]:
    """Maximise the bound over all points, without held-out points, neighbours or a second attempt; see `Loop.run`."""
    settings = dataclasses.replace(problem.settings, calibration=False, neighbours=False)
    return Loop(Training, load_method(settings), problem._replace(settings=settings)).run(after_epoch=after_epoch)
