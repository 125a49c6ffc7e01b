"""The learned hyperparameters of an MLGPF model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmlgp.gp.weight_space import DENSE
from xmlgp.regression.kernel import LENGTHSCALE
from xmlgp.regression.neighbours import FAR
from xmlgp.regression.regression import POOL_WEIGHT

__all__ = ["hyperparameters"]


def hyperparameters(parameters: Mapping[str, NDArray[Any]], widths: Mapping[str, int]) -> dict[str, dict[str, float]]:
    """Return lengthscales and weights of what is pooled, and how many latent functions have weights of dense features.

    `widths` are those of the blocks of features by name, of the words first, which may be 0.
    """
    parts: dict[str, dict[str, float]] = {}
    if "regression.weights" in parameters:
        lengthscales = parameters.get("regression.lengthscales", np.array([LENGTHSCALE]))
        weight = 1 - float(parameters.get("regression.pool_weight", POOL_WEIGHT))
        parts["regression"] = _by_block(lengthscales, widths) | {"weight in the pool": weight}
    if "neighbours.weight" in parameters:
        weight = float(parameters["neighbours.weight"])
        parts["neighbours"] = _by_block(parameters["neighbours.lengthscales"], widths) | {"weight in the pool": weight}
    if f"{DENSE}.mean" in parameters:
        means = parameters[f"{DENSE}.mean"]
        count = np.count_nonzero(means.any(axis=0))
        parts["latent functions"] = {"number": means.shape[1], "of which see dense features": int(count)}
        if "joint.weight" in parameters:
            parts["latent functions"]["their weight"] = float(parameters["joint.weight"])
    return parts


def _by_block(lengthscales: NDArray[Any], widths: Mapping[str, int]) -> dict[str, float]:
    """Return the lengthscale of each block, from those of the words and of each dense column, 1+E, or the first alone.

    Blocks that are dropped have none.
    ValueError if the blocks have other widths.
    """
    _, *dense = widths.values()
    starts = np.cumsum([0, 1, *dense])
    if len(lengthscales) not in (1, starts[-1]):
        raise ValueError(f"{len(lengthscales)} lengthscales for dense blocks of widths {dense}")
    blocks = zip(widths.items(), starts.tolist(), strict=False)
    return {
        f"ℓ of {name}": float(lengthscales[start])
        for (name, width), start in blocks
        if width and start < len(lengthscales) and lengthscales[start] != FAR
    }
