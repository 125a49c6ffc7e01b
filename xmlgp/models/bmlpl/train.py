"""Training of BMLPL."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.data.dataset import Features
from xmlgp.features.inputs import Inputs
from xmlgp.features.pipeline import Preprocessed
from xmlgp.models.bmlpl.counts import reveal_labels
from xmlgp.models.bmlpl.inference import Problem
from xmlgp.models.bmlpl.settings import BMLPLSettings
from xmlgp.runtime.progress import Progress, silent
from xmlgp.runtime.random_streams import Stream, random_stream
from xmlgp.training.checkpoints import CheckpointWriter
from xmlgp.training.loop import EpochHook, Loop
from xmlgp.training.result import TrainingResult, label_counts

__all__ = ["run_inference", "train"]


def train(
    features: Features,
    labels: csr_array,
    preprocessed: Preprocessed,
    settings: BMLPLSettings,
    progress: Progress = silent,
    checkpoints: CheckpointWriter | None = None,
) -> TrainingResult:
    """Train BMLPL; see `Model.train`.

    The parameters are `topics` V, K×T; `weights` W, D×T; `intercepts`, T; `shapes` r, T; `precisions` τ, D; `shares`, T
    (see `parameters.topic_shares`); and the label counts (`LABEL_COUNTS` of `xmlgp.training.result`).
    """
    coordinates = preprocessed.inputs(features, settings.dtype)
    parameters, history = run_inference(coordinates, labels, settings, progress, checkpoints=checkpoints)
    return TrainingResult(parameters | label_counts(labels), history)


def run_inference(
    coordinates: Inputs,
    labels: csr_array,
    settings: BMLPLSettings,
    progress: Progress = silent,
    after_epoch: EpochHook | None = None,
    checkpoints: CheckpointWriter | None = None,
) -> tuple[dict[str, NDArray[Any]], list[dict[str, Any]]]:
    """Infer the parameters of BMLPL from preprocessed points and Y, N×K; return the parameters and the history.

    If the setting `revealed` is below one, only that share of the positive labels is used. `after_epoch` is that of
    `Loop.run`.
    """
    labels = reveal_labels(labels, settings.revealed, random_stream(settings.seed, Stream.REVEALED_LABELS))
    problem = Problem(coordinates, labels, settings)
    loop = Loop(settings.method.load(), problem, np.random.default_rng(settings.seed))
    return loop.run(progress, after_epoch, checkpoints)
