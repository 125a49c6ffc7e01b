"""Training of MLGPF: the stages of its method, run by the training loop."""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import scipy.sparse as sp

from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.mlgpf.stochastic import default_rate
from xmlgp.runtime.progress import silent
from xmlgp.training.loop import Loop
from xmlgp.training.retry import RetryOnDivergence
from xmlgp.training.stages import Stages
from xmlgp.training.statistics import statistics_of
from xmlgp.training.trained import Trained
from xmlgp.work import THIS_MACHINE

__all__ = ["Problem", "Training", "run_inference", "train"]


class Problem(NamedTuple):
    """What the stages of a training need.

    Attributes
    ----------
    settings : MLGPFSettings
    coordinates : Inputs
        Of the N training points.
    labels : csr_array, N×K
        Y.
    inducing : ndarray, M×R or M×D, or None
        Initial A or Z.
    features : csr_array, N×D, or None
        X as read, and `preprocessed`, where points are held out.
    work : ThisMachine or DaskCluster
    progress : callable
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
    """The stages of the method that the settings of a `Problem` name.

    Parameters
    ----------
    method : InducingMethod or WeightSpaceMethod
    problem : Problem
    rate : float, optional
        Learning rate, if not that of the settings; the history has it then.
    """

    advice = "try a lower learning_rate or another weighting"
    advice_at_start = "try another weighting, lengthscale or diagonal"

    def __init__(self, method, problem, rate=None):
        super().__init__(method.stages(problem, rate))
        self._other_rate = {} if rate in (None, default_rate(problem.settings)) else {"learning_rate": rate}

    def notes(self):
        """Return the notes of the stages, and the learning rate if it is not that of the settings."""
        return self._other_rate | super().notes()


def train(features, labels, preprocessed, settings, progress=silent, checkpoints=None, work=THIS_MACHINE):
    """Train MLGPF as its settings say.

    Some points are held out (`calibration_points`). On them probabilities are calibrated, and in weight space it is
    decided whether regression on all points joins (`HeldOutChoices`). If training diverges, it restarts once with a
    lower learning rate (`RetryOnDivergence`).

    Parameters
    ----------
    features : csr_array, N×D
        X as read.
    labels : csr_array of bool, N×K
        Y.
    preprocessed : Preprocessed
    settings : MLGPFSettings
    progress : callable
        See `xmlgp.runtime.progress`.
    checkpoints : CheckpointWriter, optional
        Writes checkpoints, and holds the one to resume from.
    work : ThisMachine or DaskCluster
        Computes the sweeps of weight space; stochastic steps are made here.

    Returns
    -------
    Trained

    Raises
    ------
    TrainingDiverged
        If the bound or a parameter becomes non-finite in the second attempt as well.
    ModelFolderError
        If the checkpoint is damaged.
    ClusterError
        If the cluster is lost.
    """
    # Held-out points do not change the number of epochs.
    settings = dataclasses.replace(settings, epochs=settings.epoch_count(labels.shape[0]))
    method = settings.method.load()(settings)
    coordinates = method.coordinates(features, preprocessed, work)
    problem = Problem(settings, coordinates, labels, preprocessed.inducing, features, preprocessed, work, progress)
    attempts = RetryOnDivergence(lambda rate: Loop(Training, method, problem, rate), default_rate(settings))
    parameters, history = attempts.run(progress, None, checkpoints)
    return Trained(parameters | statistics_of(features, labels), history)


def run_inference(coordinates, labels, inducing, settings, progress=silent, after_epoch=None, checkpoints=None):
    """Maximise the bound over all given points, without held-out points, regression or second attempt.

    Parameters
    ----------
    coordinates : Inputs
        Of the N training points.
    labels : csr_array, N×K
        Y.
    inducing : ndarray, M×R or M×D
        Initial A or Z.
    settings, progress, checkpoints
        As in `train`; there is no calibration.
    after_epoch : callable, optional
        See `Loop.run`.

    Returns
    -------
    parameters : dict of str to ndarray
    history : list of dict

    Raises
    ------
    TrainingDiverged, ModelFolderError
        As `train` does.
    """
    settings = dataclasses.replace(settings, calibration=False, regression_points=0)
    method = settings.method.load()(settings)
    problem = Problem(settings, coordinates, labels, inducing, progress=progress)
    return Loop(Training, method, problem).run(progress, after_epoch, checkpoints)
