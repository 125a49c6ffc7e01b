"""Growth of a trained model for a batch: rows for its new labels and features, and the biases of all points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xmlgp.gp.weight_space import POSTERIOR, PRIOR
from xmlgp.label_weights.posterior import LabelWeights
from xmlgp.mlgpf.initial import log_odds
from xmlgp.preprocess.pipeline import with_columns
from xmlgp.training.trained import STATISTICS, add_statistics

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from xmlgp.mlgpf.method import Parameters
    from xmlgp.mlgpf.settings import MLGPFSettings
    from xmlgp.training.trained import Earlier

__all__ = ["grown_parameters"]

#: Parameters with a row for each label.
BY_LABEL = {"loadings", "bias", "regression.loadings", "regression.mean"}

#: The roots of relevances in regressions. New features have those from before training.
SCALES = {"regression.scales", "neighbours.scales"}

#: Parameters with a row for each feature.
BY_FEATURE = {*POSTERIOR, PRIOR, *SCALES}


def grown_parameters(earlier: Earlier[MLGPFSettings], statistics: Parameters, n: int) -> Parameters:
    """Return the parameters of a model with rows for new labels and features, given the `STATISTICS` of n points.

    Biases change as the log odds of the frequencies of labels.
    """
    old = earlier.parameters
    K, D = (len(statistics[name]) for name in STATISTICS)
    # A subspace may have as many dimensions as there were features.
    by_feature = earlier.preprocessed.basis is None
    grown = {}
    for name, value in old.items():
        if name in BY_LABEL:
            grown[name] = _with_rows(value, K, 0.0)
        elif name in BY_FEATURE or (name.endswith("log_relevance") and by_feature):
            grown[name] = _with_rows(value, D, float(name in SCALES))
        else:
            grown[name] = value
    if "inducing" in old and by_feature and D > earlier.D:
        grown["inducing"] = np.asfortranarray(with_columns(old["inducing"], D))
    if weights := LabelWeights.of(old):
        grown |= weights.grown(K, D).parameters()
    grown |= add_statistics(old, statistics)
    change = log_odds(grown["statistics.labels"], earlier.N + n)
    change[: earlier.K] -= log_odds(old["statistics.labels"], earlier.N)
    grown["bias"] = (grown["bias"] + change).astype(old["bias"].dtype)
    return grown


def _with_rows(array: NDArray[Any], count: int, fill: float) -> NDArray[Any]:
    if len(array) == count:
        return array
    return np.concatenate([array, np.full((count - len(array), *array.shape[1:]), fill, array.dtype)])
