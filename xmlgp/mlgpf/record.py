"""The record of MLGPF."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from xmlgp.mlgpf.learning import learn
from xmlgp.mlgpf.predictor import MLGPFPredictor
from xmlgp.mlgpf.replay import ReplayBuffer
from xmlgp.mlgpf.replay_selection import replays_all
from xmlgp.mlgpf.settings import FACTORS, WEIGHT_SPACE, MLGPFSettings
from xmlgp.mlgpf.stochastic import default_rate
from xmlgp.mlgpf.train import train
from xmlgp.mlgpf.weight_space import sweep_count
from xmlgp.model import MemoryPart, Model
from xmlgp.preprocess.pipeline import find_inducing_inputs
from xmlgp.regression.fitting import bytes_of_adding
from xmlgp.runtime.plurals import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xmlgp.data.dataset import Dataset
    from xmlgp.training.trained import Earlier

__all__ = ["MLGPF"]


def _unset(settings: MLGPFSettings, N: int, D: int, K: int) -> dict[str, object]:
    """Return what training uses where settings are unset."""
    settings = settings.for_shape(N, D, K)
    return {
        "inducing": settings.inducing,
        "inducing_start": settings.inducing_start,
        "factors": settings.factors,
        "label_weights": settings.inducing == "features" and sweep_count(settings, N, D, K) > 0,
        "negatives": "all",
        "optimiser": settings.optimiser or settings.method.optimiser,
        "learning_rate": default_rate(settings),
        "epochs": settings.epoch_count(N),
    }


def _memory_of_learning(earlier: Earlier[MLGPFSettings], dataset: Dataset) -> list[MemoryPart]:
    """Return the largest arrays of learning on: copies of those of the model, and those of the batch."""
    parameters = earlier.parameters
    n, D, K = dataset.shape
    advice = "a smaller batch lowers that"
    buffer = ReplayBuffer.of(parameters, D, K)
    copies = 0
    if dataset.labels.nnz:
        # The result; where steps over all points follow, whitened parameters and those before these steps.
        copies = 3 if buffer and replays_all(buffer, n) else 1
    kept = sum(value.nbytes for name, value in parameters.items() if not name.startswith("regression."))
    # Rows of T and Φ: those that steps move, and all if there are new ones. Latent functions have rows of points.
    present, used = (np.unique(matrix.indices) for matrix in (dataset.labels, dataset.features.sparse))
    rows = n + len(present) + len(used)
    if D > earlier.D or K > earlier.K:
        rows += D + K
    size = copies * kept + rows * parameters["loadings"][:1].nbytes
    parts = [
        MemoryPart("copies of the parameters", size, advice),
        MemoryPart("the features of the batch", 8 * dataset.features.sparse.nnz, advice),
    ]
    if n and "regression.weights" in parameters:
        size = bytes_of_adding(earlier.N, n, K, sum(dataset.features.widths))
        parts.append(MemoryPart("the covariances of exact GP regression", size, advice))
    return parts


def _faster(settings: MLGPFSettings) -> str | None:
    """Return what is faster than many latent functions, as docs/performance/index.md has it."""
    if settings.inducing == "features" and settings.factor_count > FACTORS:
        return f"--factors {FACTORS} takes about half the time, and lowers P@1 or P@5 by about half a percentage point"
    return None


def _details(description: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what happened in a training, as titles and texts."""
    if "parameters.regression.weights" in description["arrays"]:
        yield "pooled", "with exact GP regression on all points, whose rows it contains"
    if weights := description["arrays"].get("parameters.replay.weights"):
        yield "memory", f"rows of {counted(math.prod(weights['shape']), 'point')}, for learning on"
    if rate := description["history"][-1].get("learning_rate"):
        yield "rate", f"learning rate {rate:g}, because training diverged with the one of the settings"


MLGPF = Model(
    settings=MLGPFSettings,
    summary="Gaussian-process factor model",
    preprocess=find_inducing_inputs,
    train=train,
    predictor=MLGPFPredictor,
    takes_dense=lambda settings: settings.method is WEIGHT_SPACE,
    memory=lambda settings, dataset: settings.load_method().memory(dataset),
    memory_of_learning=_memory_of_learning,
    unset=_unset,
    faster=_faster,
    details=_details,
    learn=learn,
    on_cluster=True,
    takes_unknown=True,
)
