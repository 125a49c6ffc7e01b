"""Training of GPC: from points of two classes to the posterior and the hyperparameters."""

from xmlgp.runtime.progress import silent
from xmlgp.training.loop import Loop

__all__ = ["run_inference", "train"]


def train(features, labels, preprocessed, settings, progress=silent, checkpoints=None):
    """Train GPC on N×1 labels, the points of the second class; see `Model.train`.

    The parameters are those that `GPC.parameter_names` lists.
    """
    coordinates = preprocessed.inputs(features, settings.dtype)
    return run_inference(coordinates, labels, preprocessed.inducing, settings, progress, checkpoints=checkpoints)


def run_inference(coordinates, labels, inducing, settings, progress=silent, after_epoch=None, checkpoints=None):
    """Find the posterior and the hyperparameters of GPC from preprocessed points; return parameters and history.

    Arguments are those of `train`, with the `Inputs` of the points in double precision and Z, M×D; `after_epoch`
    is that of `Loop.run`.
    """
    loop = Loop(settings.method.load(), coordinates, labels.toarray()[:, 0], inducing, settings)
    return loop.run(progress, after_epoch, checkpoints)
