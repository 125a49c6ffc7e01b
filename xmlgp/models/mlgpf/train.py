"""Training of MLGPF: the stages of its method, run by the training loop."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.data.dataset import Features, widen
from xmlgp.features.inputs import Inputs, Selected
from xmlgp.features.pipeline import Preprocessed
from xmlgp.models.mlgpf.held_out import HeldOutChoices, calibration_points
from xmlgp.models.mlgpf.method import MLGPFMethod, Parameters, Problem, load_method
from xmlgp.models.mlgpf.settings import MLGPFSettings
from xmlgp.models.mlgpf.stochastic import Stochastic, training_rate
from xmlgp.models.mlgpf.sweep import Sweep, SweepData, sweep_count
from xmlgp.neighbours.label_texts import TextWords
from xmlgp.runtime.executor import LOCAL_EXECUTOR, Executor
from xmlgp.runtime.progress import Progress, silent
from xmlgp.training.checkpoints import CheckpointWriter
from xmlgp.training.inference import Stages
from xmlgp.training.loop import EpochHook, Loop, TrainingDiverged
from xmlgp.training.result import HeldOutMeasures, TrainingResult, label_counts

__all__ = ["RETRY_RATE", "Training", "run_inference", "train", "default_values"]

#: Factor of the learning rate in the second attempt, after training diverged.
RETRY_RATE = 0.25

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


class Training(Stages):
    """The stages that train on a `Problem`, always in the same order; each says whether it applies.

    A learning rate that is not that of the settings is in the history.
    """

    advice = "try a lower learning_rate or another weighting"
    advice_at_start = "try another weighting, lengthscale or diagonal"

    def __init__(self, method: MLGPFMethod, problem: Problem, rate: float | None = None) -> None:
        settings = problem.settings
        N, K = problem.labels.shape
        default = training_rate(settings, N, K)
        self._retry_notes = {} if rate in (None, default) else {"learning_rate": rate}
        trained, held_out = calibration_points(settings, problem.labels)
        holds_out = len(held_out) > 0
        coordinates: Inputs | Selected = problem.coordinates
        labels = problem.labels
        if holds_out:
            coordinates = problem.coordinates.select(trained)
            labels = labels[trained]

        steps = Stochastic(method, coordinates, labels, problem.preprocessed.inducing, rate or default)
        sweeps = sweep_count(settings, N, problem.coordinates.feature_count, K)
        data = SweepData(problem, steps, 2 if sweeps and holds_out else sweeps)
        # Where a last sweep follows, the one before leaves the prior to it: one more update would widen the prior.
        first = Sweep(data, 0, applies=sweeps > 0, updates_prior=not holds_out, left_out=held_out)
        second = Sweep(data, 1, applies=sweeps > 1 and not holds_out)
        self._choices = HeldOutChoices(problem, (trained, held_out), data.parameters, settings.pools_neighbours)
        # With the held-out points, which are neighbours now as well.
        last = Sweep(data, 1, applies=sweeps > 0 and holds_out, rounds=LAST_ROUNDS, shortlisted=held_out)
        super().__init__([steps, first, second, self._choices, last])

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
    work: Executor = LOCAL_EXECUTOR,
    label_texts: tuple[csr_array, NDArray[np.int32]] | None = None,
) -> TrainingResult:
    """Train MLGPF as its settings say; see `Model.train`.

    With texts of labels, their words M×(D and more) and the label of each, the last labels that no point has are not
    trained: only their texts speak for them.

    Some points are held out (`calibration_points`). On them probabilities are calibrated, and in weight space the pool
    with the regression on neighbours is chosen (`HeldOutChoices`). If training diverges, it restarts once with
    `RETRY_RATE` times the learning rate. `work` computes the sweeps of weight space; stochastic steps are made here.

    Raises
    ------
    TrainingDiverged
        If a computation becomes non-finite in the second attempt as well.
    ModelFolderError
        If the checkpoint is damaged.
    ClusterError
        If the cluster is lost.
    """
    # Held-out points do not change the number of epochs.
    settings = dataclasses.replace(settings, epochs=settings.epoch_count(labels.shape[0]))
    method = load_method(settings)
    coordinates = method.coordinates(features, preprocessed, work)
    trained = labels if label_texts is None else widen(labels, int(labels.indices.max(initial=-1)) + 1)
    problem = Problem(
        settings, features, trained, preprocessed, coordinates, work, progress, label_texts and TextWords(*label_texts)
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
