"""The record of MLGPF; its training and its predictor are imported when they are used."""

from __future__ import annotations

from pkgutil import resolve_name

from xmlgp.models.mlgpf.settings import MLGPFSettings
from xmlgp.models.model import Model, imported_on_call

__all__ = ["MLGPF"]


MLGPF = Model(
    settings=MLGPFSettings,
    preprocess=imported_on_call("xmlgp.features.pipeline:find_inducing_inputs"),
    train=imported_on_call("xmlgp.models.mlgpf.train:train"),
    load_predictor=lambda: resolve_name("xmlgp.models.mlgpf.predictor:MLGPFPredictor"),
    has_neighbours=lambda settings: settings.pools_neighbours,
    notes=imported_on_call("xmlgp.models.mlgpf.held_out:notes"),
    default_values=imported_on_call("xmlgp.models.mlgpf.train:default_values"),
    join=imported_on_call("xmlgp.models.mlgpf.join:join"),
    holds_out=True,
    on_cluster=True,
)
