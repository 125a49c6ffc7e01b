"""The record of MLGPF; its training and its predictor are imported when they are used."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from xmlgp.mlgpf.settings import FACTORS, WEIGHT_SPACE, MLGPFSettings
from xmlgp.model import Model
from xmlgp.runtime.late_imports import imported, imported_when_called
from xmlgp.runtime.plurals import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MLGPF"]


def _faster(settings: MLGPFSettings) -> str | None:
    """Return what is faster than many latent functions, as docs/performance/index.md has it."""
    if settings.inducing == "features" and settings.factor_count > FACTORS:
        return f"--factors {FACTORS} takes about half the time, and lowers P@1 or P@5 by about half a percentage point"
    return None


def _details(description: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what happened in a training, as titles and texts."""
    if "parameters.regression.weights" in description["arrays"]:
        yield "pooled", "with exact GP regression on all points, whose rows it contains"
    if neighbours := description["arrays"].get("parameters.neighbours.dense"):
        points = counted(neighbours["shape"][0], "point")
        yield "pooled", f"with GP regression on the nearest of {points}, whose rows it contains"
    if weights := description["arrays"].get("parameters.replay.weights"):
        yield "memory", f"rows of {counted(math.prod(weights['shape']), 'point')}, for learning on"
    if rate := description["history"][-1].get("learning_rate"):
        yield "rate", f"learning rate {rate:g}, because training diverged with the one of the settings"


#: What the rows of training points in a model are for, by the array with a row for each of them. docs/learning.md says
#: how to leave them out.
ROWS = {
    "parameters.regression.weights": "for exact regression",
    "parameters.neighbours.dense": "for the regression on neighbours",
    "parameters.replay.weights": "for learning on",
}


def _rows_kept(description: Mapping[str, Any]) -> dict[str, int]:
    """Return the numbers of rows by what they are for."""
    arrays = description["arrays"]
    return {purpose: math.prod(arrays[name]["shape"][:1]) for name, purpose in ROWS.items() if name in arrays}


MLGPF = Model(
    settings=MLGPFSettings,
    summary="Gaussian-process factor model",
    preprocess=imported_when_called("xmlgp.preprocess.pipeline:find_inducing_inputs"),
    train=imported_when_called("xmlgp.mlgpf.train:train"),
    load_predictor=lambda: imported("xmlgp.mlgpf.predictor:MLGPFPredictor"),
    takes_dense=lambda settings: settings.method is WEIGHT_SPACE,
    memory=lambda settings, dataset: settings.load_method().memory(dataset),
    memory_of_learning=imported_when_called("xmlgp.mlgpf.learning:memory_of_learning"),
    unset=imported_when_called("xmlgp.mlgpf.train:values_of_unset"),
    faster=_faster,
    details=_details,
    papers="[S] and [L]",
    rows_kept=_rows_kept,
    hyperparameters=imported_when_called("xmlgp.mlgpf.hyperparameters:hyperparameters"),
    learn=imported_when_called("xmlgp.mlgpf.learning:learn"),
    on_cluster=True,
    takes_unknown=True,
)
