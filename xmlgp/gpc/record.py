"""The record of GPC; its training and its predictor are imported when they are used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from xmlgp.data.formats import LIBSVM
from xmlgp.errors import SettingsError
from xmlgp.gpc.settings import GPCSettings
from xmlgp.model import MemoryPart, Model
from xmlgp.runtime.late_imports import imported, imported_when_called

if TYPE_CHECKING:
    from xmlgp.data.dataset import Dataset

__all__ = ["GPC"]


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


GPC = Model(
    settings=GPCSettings,
    summary="Gaussian-process classification into two classes, for data with one label",
    preprocess=imported_when_called("xmlgp.preprocess.pipeline:standardise_features"),
    train=imported_when_called("xmlgp.gpc.train:train"),
    load_predictor=lambda: imported("xmlgp.gpc.predictor:GPCPredictor"),
    epoch="iteration",
    papers="[I]",
    check_data=_check_data,
    data_format=LIBSVM,
    takes_unknown=True,
    memory=_memory,
    notes=_notes,
    unset=imported_when_called("xmlgp.gpc.train:values_of_unset"),
    review=imported_when_called("xmlgp.gpc.train:review"),
    hyperparameters=imported_when_called("xmlgp.gpc.train:hyperparameters"),
)
