"""GPC as the rest of xmlgp sees it: its training and its record."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from xmlgp.data.dataset import Dataset
from xmlgp.data.features import Features
from xmlgp.data.formats import LIBSVM
from xmlgp.errors import SettingsError
from xmlgp.gp.log_parameters import bounded_exp
from xmlgp.gpc.inference import TOLERANCE
from xmlgp.gpc.predictor import GPCPredictor
from xmlgp.gpc.settings import GPCSettings
from xmlgp.model import MemoryPart, Model
from xmlgp.preprocess.inputs import Inputs, Selected
from xmlgp.preprocess.pipeline import Preprocessed, standardise_features
from xmlgp.runtime.progress import Progress, silent
from xmlgp.training.checkpoints import CheckpointWriter
from xmlgp.training.loop import EpochHook, Loop
from xmlgp.training.optimisers import AdaDelta
from xmlgp.training.trained import Trained

__all__ = ["GPC", "run_inference", "train"]

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
    unknown: csr_array | None = None,
) -> Trained:
    """Train GPC on N×1 labels, true for the second class, see `Model.train`; return the `PARAMETER_NAMES`.

    Points whose label is unknown are left out.
    """
    if unknown is not None:
        judged = np.flatnonzero(np.diff(unknown.indptr) == 0)
        features = features[judged]
        labels = labels[judged]
    coordinates = preprocessed.inputs(features, settings.dtype)
    # Never None: `standardise_features` always chooses initial inducing inputs.
    inducing = cast("NDArray[np.floating]", preprocessed.inducing)
    parameters, history = run_inference(coordinates, labels, inducing, settings, progress, checkpoints=checkpoints)
    return Trained(parameters, history)


def run_inference(
    coordinates: Inputs | Selected,
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


def _check_data(dataset: Dataset) -> None:
    if dataset.K != 1:
        raise SettingsError(f"gpc is for two classes: the training data must have one label (K is {dataset.K})")


def _memory(settings: GPCSettings, dataset: Dataset) -> list[MemoryPart]:
    """Return the arrays that grow with the number of features."""
    N, D, _ = dataset.shape
    size = np.dtype(np.float64).itemsize
    inducing = size * min(settings.inducing_count, N) * D
    return [
        MemoryPart("the inducing inputs", inducing, "a smaller inducing_count lowers that"),
        # Means, scales, and the sums that they are computed from.
        MemoryPart("the scales of features", size * 6 * D),
    ]


def _notes(settings: GPCSettings, dataset: Dataset) -> Iterator[str]:
    """Yield what a user should know before training."""
    if dataset.labels.nnz in (0, dataset.N):
        side = "second" if dataset.labels.nnz else "first"
        yield f"all training points belong to the {side} class"


def _review(settings: GPCSettings, description: Mapping[str, Any]) -> Iterator[str]:
    """Yield reasons to doubt a trained model."""
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


def _hyperparameters(parameters: Mapping[str, NDArray[np.floating]]) -> dict[str, NDArray[np.floating]]:
    """Return the learned hyperparameters, in the units of the (standardised) features."""
    names = {"σ²": "kernel.se.log_variance", "ℓ": "kernel.se.log_lengthscale", "ν²": "kernel.noise.log_variance"}
    return {symbol: bounded_exp(parameters[name]) for symbol, name in names.items()}


GPC = Model(
    settings=GPCSettings,
    summary="Gaussian-process classification into two classes, for data with one label",
    preprocess=standardise_features,
    train=train,
    predictor=GPCPredictor,
    epoch="iteration",
    check_data=_check_data,
    data_format=LIBSVM,
    takes_unknown=True,
    memory=_memory,
    notes=_notes,
    unset=lambda settings, N, D, K: {"iterations": settings.passes, "learning_rate": AdaDelta.default_rate},
    review=_review,
    hyperparameters=_hyperparameters,
)
