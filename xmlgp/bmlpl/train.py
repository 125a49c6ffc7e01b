"""Training of BMLPL."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.bmlpl.counts import reveal_labels
from xmlgp.bmlpl.inference import Problem
from xmlgp.bmlpl.settings import DEFAULT_TOPICS, BMLPLSettings
from xmlgp.data.dataset import Dataset
from xmlgp.data.features import Features
from xmlgp.model import MemoryPart
from xmlgp.preprocess.inputs import Inputs, Selected
from xmlgp.preprocess.pipeline import Preprocessed
from xmlgp.runtime.progress import Progress, silent
from xmlgp.runtime.random_streams import Stream, random_stream
from xmlgp.training.checkpoints import CheckpointWriter
from xmlgp.training.loop import EpochHook, Loop
from xmlgp.training.trained import Trained, statistics_of

__all__ = ["memory", "run_inference", "train"]


def train(
    features: Features,
    labels: csr_array,
    preprocessed: Preprocessed,
    settings: BMLPLSettings,
    progress: Progress = silent,
    checkpoints: CheckpointWriter | None = None,
    unknown: csr_array | None = None,
) -> Trained:
    """Train BMLPL; see `Model.train`. Pairs that are `unknown`, N×K, are left out.

    The parameters are `topics` V, K×T; `weights` W, D×T; `intercepts`, T; `shapes` r, T; `precisions` τ, D; `shares`, T
    (`topic_shares`); and the counts of `xmlgp.training.trained`.
    """
    coordinates = preprocessed.inputs(features, settings.dtype)
    parameters, history = run_inference(
        coordinates, labels, settings, progress, checkpoints=checkpoints, unknown=unknown
    )
    return Trained(parameters | statistics_of(features, labels), history)


def run_inference(
    coordinates: Inputs | Selected,
    labels: csr_array,
    settings: BMLPLSettings,
    progress: Progress = silent,
    after_epoch: EpochHook | None = None,
    checkpoints: CheckpointWriter | None = None,
    unknown: csr_array | None = None,
) -> tuple[dict[str, NDArray[Any]], list[dict[str, Any]]]:
    """Infer the parameters of BMLPL from the `Inputs` of points; return the parameters and the history.

    `after_epoch` is that of `Loop.run`.
    """
    labels = reveal_labels(labels, settings.revealed, random_stream(settings.seed, Stream.REVEALED_LABELS))
    problem = Problem(coordinates, labels, settings, unknown)
    loop = Loop(settings.method.load(), problem, np.random.default_rng(settings.seed))
    return loop.run(progress, after_epoch, checkpoints)


def memory(settings: BMLPLSettings, dataset: Dataset) -> list[MemoryPart]:
    """Return the largest arrays of an iteration: those T wide by feature, label or point; see `Model.memory`."""
    N, D, K = dataset.shape
    advice = "fewer topics lower that"
    row = np.dtype(settings.dtype).itemsize * min(settings.topics or DEFAULT_TOPICS, K)
    parts = [
        # W and the arrays of conjugate gradients or Adam; topics and counts.
        MemoryPart("the weights and counts of topics", row * (4 * D + 2 * K), advice)
    ]
    if settings.inference != "online-em":
        # Counts, activations and the arrays of `LeastSquares`.
        parts.append(MemoryPart("the topics of the points", row * 6 * N, advice))
    return parts
