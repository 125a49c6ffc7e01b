"""Training of BMLPL: from labels and features to topics."""

import numpy as np

from xmlgp.bmlpl.initial import reveal_labels
from xmlgp.runtime.progress import silent
from xmlgp.training.loop import Loop
from xmlgp.training.statistics import statistics_of
from xmlgp.training.trained import Trained

__all__ = ["run_inference", "train"]


def train(features, labels, preprocessed, settings, progress=silent, checkpoints=None):
    """Train BMLPL; see `Model.train`.

    The parameters are `topics` V, K×T; `weights` W, D×T; `intercepts`, T; `shapes` r, T; `precisions` τ, D; `shares`, T
    (`bmlpl.topics.topic_shares`); and the counts of `xmlgp.training.statistics`.
    """
    coordinates = preprocessed.inputs(features, settings.dtype)
    parameters, history = run_inference(coordinates, labels, settings, progress, checkpoints=checkpoints)
    return Trained(parameters | statistics_of(features, labels), history)


def run_inference(coordinates, labels, settings, progress=silent, after_epoch=None, checkpoints=None):
    """Infer the parameters of BMLPL from points whose features are weighted; return the parameters and the history.

    Arguments are those of `train`, with the `Inputs` of the points; `after_epoch` is that of `Loop.run`.
    """
    labels = reveal_labels(labels, settings.revealed, np.random.default_rng([settings.seed, 1]))
    loop = Loop(settings.method.load(), coordinates, labels, settings, np.random.default_rng(settings.seed))
    return loop.run(progress, after_epoch, checkpoints)
