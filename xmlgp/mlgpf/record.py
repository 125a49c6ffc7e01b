"""The record of MLGPF; its training and its predictor are imported when they are used."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import TYPE_CHECKING

from xmlgp.mlgpf.settings import FACTORS, WEIGHT_SPACE, MLGPFSettings
from xmlgp.model import Model, late

if TYPE_CHECKING:
    pass

__all__ = ["MLGPF"]


def _faster(settings: MLGPFSettings) -> str | None:
    """Return what is faster than many latent functions, as docs/performance/index.md has it."""
    if settings.inducing == "features" and settings.factor_count > FACTORS:
        return f"--factors {FACTORS} takes about half the time, and lowers P@1 or P@5 by about half a percentage point"
    return None


MLGPF = Model(
    settings=MLGPFSettings,
    summary="Gaussian-process factor model",
    preprocess=late("xmlgp.preprocess.pipeline:find_inducing_inputs"),
    train=late("xmlgp.mlgpf.train:train"),
    load_predictor=lambda: resolve_name("xmlgp.mlgpf.predictor:MLGPFPredictor"),
    takes_dense=lambda settings: settings.method is WEIGHT_SPACE,
    unset=late("xmlgp.mlgpf.train:values_of_unset"),
    faster=_faster,
    papers="[S] and [L]",
    on_cluster=True,
)
