"""Training of GPC: from points of two classes to the posterior and the hyperparameters."""

from xmlgp.runtime.progress import silent
from xmlgp.training.loop import Loop
from xmlgp.training.trained import Trained

__all__ = ["run_inference", "train"]


def train(features, labels, preprocessed, settings, progress=silent, checkpoints=None):
    """Train GPC as its settings say.

    Parameters
    ----------
    features : csr_array, N×D
        X as read.
    labels : csr_array of bool, N×1
        Which points are of the second class.
    preprocessed : Preprocessed
    settings : GPCSettings
    progress : callable
        See `xmlgp.runtime.progress`.
    checkpoints : CheckpointWriter, optional
        Writes checkpoints, and holds the one to resume from.

    Returns
    -------
    Trained
        With the parameters that `GPC.parameter_names` lists.

    Raises
    ------
    TrainingDiverged
        If the bound or a parameter becomes non-finite.
    ModelFolderError
        If the checkpoint is damaged.
    """
    coordinates = preprocessed.coordinates(features, settings.dtype)
    return Trained(
        *run_inference(coordinates, labels, preprocessed.inducing, settings, progress, checkpoints=checkpoints)
    )


def run_inference(coordinates, labels, inducing, settings, progress=silent, after_epoch=None, checkpoints=None):
    """Find the posterior and the hyperparameters of GPC from preprocessed points.

    Parameters
    ----------
    coordinates : Coordinates
        Of the N training points, in double precision.
    labels : csr_array of bool, N×1
        Which points are of the second class.
    inducing : ndarray, M×D
        Z.
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
    TrainingDiverged, ModelFolderError
        As `train` does.
    """
    loop = Loop(settings.method.load(), coordinates, labels.toarray()[:, 0], inducing, settings)
    return loop.run(progress, after_epoch, checkpoints)
