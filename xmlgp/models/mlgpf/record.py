"""The record of MLGPF; its training and its predictor are imported when they are used."""

from __future__ import annotations

from pkgutil import resolve_name

from xmlgp.models.mlgpf.settings import MLGPFSettings
from xmlgp.models.model import Model, late

__all__ = ["MLGPF"]


MLGPF = Model(
    settings=MLGPFSettings,
    preprocess=late("xmlgp.features.pipeline:find_inducing_inputs"),
    train=late("xmlgp.models.mlgpf.train:train"),
    load_predictor=lambda: resolve_name("xmlgp.models.mlgpf.predictor:MLGPFPredictor"),
    has_neighbours=lambda settings: settings.pools_neighbours,
    unset=late("xmlgp.models.mlgpf.train:values_of_unset"),
    join=late("xmlgp.models.mlgpf.join:join"),
    on_cluster=True,
)
