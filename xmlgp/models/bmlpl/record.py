"""The record of BMLPL; its training and its predictor are imported when they are used."""

from __future__ import annotations

from collections.abc import Iterator
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from xmlgp.models.bmlpl.settings import DEFAULT_TOPICS, BMLPLSettings
from xmlgp.models.model import Model, imported_on_call

if TYPE_CHECKING:
    from xmlgp.data.dataset import Dataset

__all__ = ["BMLPL"]


def _notes(settings: BMLPLSettings, dataset: Dataset) -> Iterator[str]:
    """Yield what a user should know before training."""
    if (settings.topics or 0) > dataset.K:
        yield f"there are only {dataset.K} labels, so {dataset.K} topics are used"


BMLPL = Model(
    settings=BMLPLSettings,
    preprocess=imported_on_call("xmlgp.features.pipeline:weight_features"),
    train=imported_on_call("xmlgp.models.bmlpl.train:train"),
    load_predictor=lambda: resolve_name("xmlgp.models.bmlpl.predictor:BMLPLPredictor"),
    objective="log_posterior",
    epoch="iteration",
    notes=_notes,
    default_values=lambda settings, N, D, K: {
        "topics": min(DEFAULT_TOPICS, K),
        "iterations": settings.passes,
        "burn_in": settings.burned,
    },
    topics=imported_on_call("xmlgp.models.bmlpl.parameters:list_topics"),
)
