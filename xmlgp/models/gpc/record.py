"""The record of GPC in the table of models; its training and its predictor are imported when they are used."""

from __future__ import annotations

from collections.abc import Iterator
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from xmlgp.data.formats import LIBSVM
from xmlgp.models.gpc.settings import GPCSettings
from xmlgp.models.model import Model, imported_on_call
from xmlgp.runtime.errors import SettingsError

if TYPE_CHECKING:
    from xmlgp.data.dataset import Dataset

__all__ = ["GPC"]


def _check_data(dataset: Dataset) -> None:
    """Raise SettingsError unless there is one label, which the points of the second class have."""
    if dataset.K != 1:
        raise SettingsError(f"gpc is for two classes: the training data must have one label (K is {dataset.K})")


def _notes(settings: GPCSettings, dataset: Dataset) -> Iterator[str]:
    """Yield the sentences that `Model.notes` shows before training."""
    if dataset.labels.nnz in (0, dataset.N):
        only_class = "second" if dataset.labels.nnz else "first"
        yield f"all training points belong to the {only_class} class"


GPC = Model(
    settings=GPCSettings,
    preprocess=imported_on_call("xmlgp.features.pipeline:standardise_features"),
    train=imported_on_call("xmlgp.models.gpc.train:train"),
    load_predictor=lambda: resolve_name("xmlgp.models.gpc.predictor:GPCPredictor"),
    epoch="iteration",
    check_data=_check_data,
    data_format=LIBSVM,
    notes=_notes,
    default_values=imported_on_call("xmlgp.models.gpc.train:default_values"),
    review=imported_on_call("xmlgp.models.gpc.train:review"),
)
