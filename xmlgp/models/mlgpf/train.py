"""Training of MLGPF: the stages of its method, run by the training loop."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array

from xmlgp.data.dataset import widened
from xmlgp.models.mlgpf.held_out import HeldOutChoices, calibration_points
from xmlgp.models.mlgpf.method import MLGPFMethod, Parameters, Problem
from xmlgp.models.mlgpf.settings import MLGPFSettings
from xmlgp.models.mlgpf.stochastic import Schedule, Stochastic, training_rate
from xmlgp.models.mlgpf.weight_space import sweep_count
from xmlgp.neighbours.label_texts import TextWords
from xmlgp.runtime.progress import silent
from xmlgp.runtime.work import THIS_MACHINE, Work
from xmlgp.training.inference import Stages
from xmlgp.training.loop import Loop, TrainingDiverged
from xmlgp.training.trained import HeldOut, Trained, label_counts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from xmlgp.data.features import Features
    from xmlgp.features.inputs import Inputs, Selected
    from xmlgp.features.pipeline import Preprocessed
    from xmlgp.runtime.progress import Progress
    from xmlgp.training.checkpoints import CheckpointWriter

__all__ = ["RETRY_RATE", "Training", "run_inference", "train", "values_of_unset"]

#: Factor of the learning rate in the second attempt, after training diverged.
RETRY_RATE = 0.25


def values_of_unset(settings: MLGPFSettings, N: int, D: int, K: int) -> dict[str, object]:
    """Return what training uses where settings are unset; see `Model.unset`."""
    settings = settings.for_shape(N, D, K)
    return {
        "inducing": settings.inducing,
        "inducing_start": settings.inducing_start,
        "factors": settings.factors,
        "label_weights": settings.inducing == "features" and sweep_count(settings, N, D, K) > 0,
        "negatives": "all",
        "optimiser": settings.optimiser or settings.method.optimiser,
        "label_sample": settings.sampled_labels(K),
        "learning_rate": training_rate(settings, N, K),
        "epochs": settings.epoch_count(N),
    }


class Training(Stages):
    """The stages that train on a `Problem`: stochastic steps, and what the method has after them.

    A learning rate that is not that of the settings is in the history.
    """

    advice = "try a lower learning_rate or another weighting"
    advice_at_start = "try another weighting, lengthscale or diagonal"

    def __init__(self, method: MLGPFMethod, problem: Problem, rate: float | None = None) -> None:
        settings = problem.settings
        coordinates: Inputs | Selected = problem.coordinates
        labels = problem.labels
        default = training_rate(settings, *labels.shape)
        self._retry_notes = {} if rate in (None, default) else {"learning_rate": rate}
        trained, held_out = calibration_points(settings, labels)
        if len(held_out):
            coordinates = problem.coordinates.select(trained)
            labels = labels[trained]
        N = labels.shape[0]
        random = np.random.default_rng(settings.seed)
        bound, parameters = method.start(coordinates, labels, problem.preprocessed.inducing, random)
        steps = Stochastic(
            method,
            bound,
            parameters,
            coordinates,
            labels,
            random,
            Schedule(settings.points_in_batch(N), settings.epoch_count(N), rate or default),
        )
        later = method.later_stages(problem, steps, trained, held_out)
        self._choices = [stage for stage in later if isinstance(stage, HeldOutChoices)]
        super().__init__([steps, *later])

    @property
    def held_out(self) -> HeldOut | None:
        """What was measured on held-out points, or None."""
        return next((stage.measured for stage in self._choices), None)

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
    work: Work = THIS_MACHINE,
    label_texts: tuple[csr_array, NDArray[np.int32]] | None = None,
) -> Trained:
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
    method = settings.load_method()
    coordinates = method.coordinates(features, preprocessed, work)
    trained = labels if label_texts is None else widened(labels, int(labels.indices.max(initial=-1)) + 1)
    problem = Problem(
        settings, features, trained, preprocessed, coordinates, work, progress, label_texts and TextWords(*label_texts)
    )
    parameters, history, training = _train_twice(method, problem, checkpoints)
    return Trained(parameters | label_counts(labels), history, training.held_out)


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
            state = resume_from.facts
            rate = float(state["learning_rate"])
            failure = state["first_failure"]
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


def run_inference(
    problem: Problem, after_epoch: Callable[[int, Callable[[], Parameters]], None] | None = None
) -> tuple[Parameters, list[dict[str, Any]]]:
    """Maximise the bound over all points, without held-out points, neighbours or a second attempt; see `Loop.run`."""
    settings = dataclasses.replace(problem.settings, calibration=False, neighbours=False)
    return Loop(Training, settings.load_method(), problem._replace(settings=settings)).run(after_epoch=after_epoch)
