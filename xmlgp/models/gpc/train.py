"""Training of GPC, and what is said of it afterwards."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from xmlgp.data.dataset import Features
from xmlgp.features.inputs import Inputs
from xmlgp.features.pipeline import Preprocessed
from xmlgp.models.gpc.inference import TOLERANCE
from xmlgp.models.gpc.settings import GPCSettings
from xmlgp.runtime.progress import Progress, silent
from xmlgp.training.checkpoints import CheckpointWriter
from xmlgp.training.loop import EpochHook, Loop
from xmlgp.training.optimisers import AdaDelta
from xmlgp.training.result import TrainingResult

__all__ = ["review", "run_inference", "train", "default_values"]

#: A bound this far below zero, in nats a point, is worse than that of a constant prediction: log 2, and a tenth of it
#: for the KL divergence.
WORTHLESS = 1.1 * math.log(2)


def train(
    features: Features,
    labels: csr_array,
    preprocessed: Preprocessed,
    settings: GPCSettings,
    progress: Progress = silent,
    checkpoints: CheckpointWriter | None = None,
) -> TrainingResult:
    """Train GPC on N×1 labels, true for the second class, see `Model.train`; return the `PARAMETER_NAMES`."""
    coordinates = preprocessed.inputs(features, settings.dtype)
    # Never None: `standardise_features` always chooses initial inducing inputs.
    inducing = cast("NDArray[np.floating]", preprocessed.inducing)
    parameters, history = run_inference(coordinates, labels, inducing, settings, progress, checkpoints=checkpoints)
    return TrainingResult(parameters, history)


def run_inference(
    coordinates: Inputs,
    labels: csr_array,
    inducing: ArrayLike,
    settings: GPCSettings,
    progress: Progress = silent,
    after_epoch: EpochHook | None = None,
    checkpoints: CheckpointWriter | None = None,
) -> tuple[dict[str, NDArray[Any]], list[dict[str, Any]]]:
    """Find the posterior and the hyperparameters of GPC from preprocessed points; return parameters and history.

    It takes the `Inputs` of the points in double precision and Z, M×D; `after_epoch` is that of `Loop.run`.
    """
    loop = Loop(settings.method.load(), coordinates, labels.toarray()[:, 0], inducing, settings)
    return loop.run(progress, after_epoch, checkpoints)


def default_values(settings: GPCSettings, N: int, D: int, K: int) -> dict[str, object]:
    """Return what training uses where settings are unset; see `Model.default_values`."""
    return {"iterations": settings.passes, "learning_rate": AdaDelta.default_rate}


def review(settings: GPCSettings, description: Mapping[str, Any]) -> Iterator[str]:
    """Yield reasons to doubt a trained model; see `Model.review`."""
    N = description["data"]["N"]
    bounds = [epoch["bound"] for epoch in description["history"]]
    advice = ", or another learning_rate" if "learning_rate" not in settings.unused() else ""
    if bounds[-1] < -WORTHLESS * N:
        yield f"the bound is lower than that of a constant prediction; try another inference{advice}"
    elif len(bounds) == settings.passes > 1:
        # A single estimate from minibatches is too noisy.
        tail = max(1, len(bounds) // 10)
        gain = statistics.fmean(bounds[-tail:]) - statistics.fmean(bounds[-2 * tail : -tail])
        if gain > TOLERANCE * N * tail:
            yield f"the bound was still rising; more iterations would raise it further{advice}"
