"""Training of BMLPL: from labels and features to topics."""

import numpy as np

from xmlgp.bmlpl.initial import reveal_labels
from xmlgp.runtime.progress import silent
from xmlgp.training.loop import Loop
from xmlgp.training.statistics import statistics_of
from xmlgp.training.trained import Trained

__all__ = ["run_inference", "train"]


def train(features, labels, preprocessed, settings, progress=silent, checkpoints=None):
    """Train BMLPL as its settings say.

    Parameters
    ----------
    features : csr_array, N×D
        X as read.
    labels : csr_array of bool, N×K
        Y.
    preprocessed : Preprocessed
    settings : BMLPLSettings
    progress : callable
        See `xmlgp.runtime.progress`.
    checkpoints : CheckpointWriter, optional
        Writes checkpoints, and holds the one to resume from.

    Returns
    -------
    Trained
        With the parameters `topics` V, K×T; `weights` W, D×T; `intercepts`, T; `shapes` r, T; `precisions` τ, D;
        `shares`, T (`bmlpl.topics.label_shares`),
        and the counts of `xmlgp.training.statistics`.

    Raises
    ------
    SettingsError
        If inference em would need more memory for its exact M-steps than a machine has.
    TrainingDiverged
        If the log posterior or a parameter becomes non-finite.
    ModelFolderError
        If the checkpoint is damaged.
    """
    coordinates = preprocessed.coordinates(features, settings.dtype)
    parameters, history = run_inference(coordinates, labels, settings, progress, checkpoints=checkpoints)
    return Trained(parameters | statistics_of(features, labels), history)


def run_inference(coordinates, labels, settings, progress=silent, after_epoch=None, checkpoints=None):
    """Infer the parameters of BMLPL from points whose features are weighted.

    Parameters
    ----------
    coordinates : Coordinates
        Of the N training points, without a basis.
    labels : csr_array of bool, N×K
        Y.
    settings, progress, checkpoints
        As in `train`.
    after_epoch : callable, optional
        See `Loop.run`.

    Returns
    -------
    parameters : dict of str to ndarray
    history : list of dict

    Raises
    ------
    SettingsError, TrainingDiverged, ModelFolderError
        As `train` does.
    """
    labels = reveal_labels(labels, settings.revealed, np.random.default_rng([settings.seed, 1]))
    loop = Loop(settings.method.load(), coordinates, labels, settings, np.random.default_rng(settings.seed))
    return loop.run(progress, after_epoch, checkpoints)
