"""Training of MLGPF: the stages of its method, run by the training loop."""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from xmlgp.mlgpf.held_out import HeldOutChoices, calibration_points
from xmlgp.mlgpf.replay import Replay, bounded
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.mlgpf.stochastic import Stochastic, default_rate
from xmlgp.mlgpf.sweep import Sweep
from xmlgp.runtime.progress import silent
from xmlgp.training.inference import Stages
from xmlgp.training.loop import Loop, TrainingDiverged
from xmlgp.training.trained import Trained, statistics_of
from xmlgp.work import THIS_MACHINE

__all__ = ["RETRY_RATE", "Problem", "Training", "run_inference", "train"]

#: Factor of the learning rate in the second attempt, after training diverged.
RETRY_RATE = 0.25


class Problem(NamedTuple):
    """What the stages of a training need.

    `coordinates` are the `Inputs` of the N points, `labels` Y, N×K, and `inducing` the initial A or Z or None. Where
    points are held out, `features` are X as read, and `preprocessed` is needed.
    """

    settings: MLGPFSettings
    coordinates: object
    labels: sp.csr_array
    inducing: object
    features: object = None
    preprocessed: object = None
    work: object = THIS_MACHINE
    progress: Callable = silent


class Training(Stages):
    """The stages that train on a `Problem`: stochastic steps, and what the method has after them.

    A learning rate that is not that of the settings is in the history.
    """

    advice = "try a lower learning_rate or another weighting"
    advice_at_start = "try another weighting, lengthscale or diagonal"

    def __init__(self, method, problem, rate=None):
        settings = problem.settings
        coordinates = problem.coordinates
        labels = problem.labels
        default = default_rate(settings)
        self._other_rate = {} if rate in (None, default) else {"learning_rate": rate}
        trained, held = calibration_points(settings, labels)
        if len(held):
            coordinates = coordinates.select(trained)
            labels = labels[trained]
        N = labels.shape[0]
        random = np.random.default_rng(settings.seed)
        steps = Stochastic(
            method,
            *method.start(coordinates, labels, problem.inducing, random),
            coordinates,
            labels,
            random,
            batch_size=settings.points_in_batch(N),
            epochs=settings.epoch_count(N),
            rate=rate or default,
        )
        later = method.later_stages(problem, steps, trained, held)
        self._sweeps = [stage for stage in later if isinstance(stage, Sweep)]
        self._choices = [stage for stage in later if isinstance(stage, HeldOutChoices)]
        super().__init__([steps, *later])

    @property
    def shortlist(self):
        """The shortlists of the points from the last sweep, N×S, or None."""
        return self._sweeps[-1].shortlist if self._sweeps else None

    @property
    def held_out(self):
        """What was measured on held-out points (`HeldOut`), or None."""
        return next((stage.measured for stage in self._choices), None)

    def notes(self):
        """Return the notes of the stages, and the learning rate if it is not that of the settings."""
        return self._other_rate | super().notes()


def train(features, labels, preprocessed, settings, progress=silent, checkpoints=None, work=THIS_MACHINE):
    """Train MLGPF as its settings say; see `Model.train`.

    Some points are held out (`calibration_points`). On them probabilities are calibrated, and in weight space it is
    decided whether regression on all points joins (`HeldOutChoices`). If training diverges, it restarts once with
    `RETRY_RATE` times the learning rate. `work` computes the sweeps of weight space; stochastic steps are made here.

    Raises TrainingDiverged if a computation becomes non-finite in the second attempt as well, ModelFolderError if the
    checkpoint is damaged, and ClusterError if the cluster is lost.
    """
    # Held-out points do not change the number of epochs.
    settings = dataclasses.replace(settings, epochs=settings.epoch_count(labels.shape[0]))
    method = settings.load_method()
    coordinates = method.coordinates(features, preprocessed, work)
    problem = Problem(settings, coordinates, labels, preprocessed.inducing, features, preprocessed, work, progress)
    parameters, history, training = _train_twice(method, problem, progress, checkpoints)
    parameters |= statistics_of(features, labels)
    if settings.replays:
        memory = Replay.of_points(features, labels, training.shortlist)
        parameters |= bounded(memory, parameters["statistics.labels"], labels.shape[0], settings).parameters()
    return Trained(parameters, history, training.held_out)


def _train_twice(method, problem, progress, checkpoints):
    """Train; if that diverges, train once more with a lower learning rate. Return parameters, history and `Training`.

    Training that diverges before its first step is not repeated: its starting point would be the same. Checkpoints hold
    the learning rate in use, and how the first attempt failed.
    """
    rate = default_rate(problem.settings)
    failure = None
    resume_from = checkpoints and checkpoints.resume_from
    if resume_from:
        with resume_from.checked():
            rate = resume_from.facts["learning_rate"]
            failure = resume_from.facts["first_failure"]
            if type(rate) not in (int, float) or not (failure is None or isinstance(failure, str)):
                raise ValueError("the learning rate is not a number, or the failure no text")
    while True:
        facts = {"learning_rate": rate, "first_failure": failure}
        try:
            loop = Loop(Training, method, problem, rate)
            return *loop.run(progress, None, checkpoints, facts), loop.inference
        except TrainingDiverged as error:
            if failure is not None:
                raise TrainingDiverged(f"{error.reason} ({failure})", error.steps, error.advice) from error
            if not error.steps:
                raise
            failure = f"a first attempt with learning rate {rate:g} diverged {error.when}"
        rate *= RETRY_RATE


def run_inference(coordinates, labels, inducing, settings, after_epoch=None):
    """Maximise the bound over all points, without held-out points, regression or a second attempt; see `Loop.run`.

    `coordinates` are the `Inputs` of the N points, `labels` Y, N×K, and `inducing` the initial A or Z.
    """
    settings = dataclasses.replace(settings, calibration=False, regression_points=0)
    problem = Problem(settings, coordinates, labels, inducing)
    return Loop(Training, settings.load_method(), problem).run(after_epoch=after_epoch)
