"""The learned hyperparameters of an MLGPF model in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmlgp.gp.weight_space import DENSE
from xmlgp.regression.kernel import LENGTHSCALE
from xmlgp.regression.regression import POOL_WEIGHT
from xmlgp.runtime.plurals import counted

__all__ = ["hyperparameters"]


def hyperparameters(parameters: Mapping[str, NDArray[Any]], widths: Mapping[str, int]) -> Iterator[str]:
    """Yield lines about lengthscales and weights of what is pooled, and about the functions of dense features.

    `widths` are those of the blocks of features by name, of the words first, which may be 0.
    """
    if "regression.weights" in parameters:
        lengthscales = parameters.get("regression.lengthscales", np.array([LENGTHSCALE]))
        weight = 1 - float(parameters.get("regression.pool_weight", POOL_WEIGHT))
        yield f"regression: ℓ {_by_block(lengthscales, widths)}; weight {weight:.4g} in the pool"
    if "neighbours.weight" in parameters:
        lengthscales = parameters["neighbours.lengthscales"]
        weight = float(parameters["neighbours.weight"])
        yield f"neighbours: ℓ {_by_block(lengthscales, widths)}; weight {weight:.4g} in the pool"
    if f"{DENSE}.mean" in parameters:
        means = parameters[f"{DENSE}.mean"]
        count = np.count_nonzero(means.any(axis=0))
        yield f"{count} of {counted(means.shape[1], 'latent function')} see dense features"


def _by_block(lengthscales: NDArray[Any], widths: Mapping[str, int]) -> str:
    """Return the lengthscale of each block, from those of the words and of each dense column, 1+E, or the first alone.

    ValueError if the blocks have other widths.
    """
    _, *dense = widths.values()
    starts = np.cumsum([0, 1, *dense])
    if len(lengthscales) not in (1, starts[-1]):
        raise ValueError(f"{len(lengthscales)} lengthscales for dense blocks of widths {dense}")
    blocks = zip(widths.items(), starts.tolist(), strict=False)
    return ", ".join(
        f"{lengthscales[start]:.4g} of {name}" for (name, width), start in blocks if width and start < len(lengthscales)
    )
