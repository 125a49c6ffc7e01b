"""Predictions of GPC."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmlgp.data.dataset import Features
from xmlgp.features.pipeline import Preprocessed
from xmlgp.gp.expectations import expected_sigmoid
from xmlgp.gp.likelihood import Moments
from xmlgp.linear_algebra.array_groups import Array, ArrayGroup, arrays_fit, is_not_empty
from xmlgp.models.gpc.model import PARAMETER_NAMES, POSTERIOR, Predictive
from xmlgp.models.gpc.settings import GPCSettings
from xmlgp.prediction.predictor import Predictor, score_std

__all__ = ["GPCPredictor"]

#: The shapes of the posterior's arrays; hyperparameters are numbers.
SHAPES = dict(zip(POSTERIOR.parameter_names, POSTERIOR.shapes, strict=True))

#: The arrays of a model.
ARRAYS = ArrayGroup(
    inducing=Array("M D", np.float64, is_not_empty),
    **{name: Array(SHAPES.get(name, ""), np.float64) for name in PARAMETER_NAMES if name != "inducing"},
)


class GPCPredictor(Predictor):
    """A trained GPC, which scores its one label.

    The utility is the mean of q(f), the probability is E σ(f) under q ([I] (11)); standard deviations are those of f
    and of σ(f). The inducing inputs are those of the parameters, not those of the preprocessing.
    """

    default_output = "probability"

    def __init__(
        self,
        settings: GPCSettings,
        preprocessed: Preprocessed,
        parameters: Mapping[str, NDArray[Any]],
        feature_count: int,
    ) -> None:
        super().__init__(feature_count, 1, settings.dtype)
        self._preprocessed = preprocessed
        self._predictive = Predictive(parameters)
        self._nodes = settings.nodes

    @classmethod
    def parameters_fit(cls, settings: GPCSettings, parameters: Mapping[str, NDArray[Any]], D: int, K: int) -> bool:
        """Return whether arrays can be the parameters of such a model; see `Predictor`."""
        return arrays_fit(parameters, {ARRAYS: True}, {"D": D, "P": 1})

    def prepare(self, features: Features, output: str, with_std: bool) -> Moments:
        """Return the moments of q(f); see `Predictor`."""
        coordinates = self._preprocessed.inputs(features, self.dtype, dense_limit=0)
        mean, variance = self._predictive(coordinates.rows(slice(None)))
        return Moments(mean[:, None], variance[:, None])

    def scores(self, points: Moments, labels: slice, output: str) -> NDArray[np.floating]:
        """Return the scores of a block of labels, B×L; see `Predictor`."""
        scores = points.mean if output == "utility" else expected_sigmoid(*points, self._nodes)
        return scores[:, labels]

    def std(self, points: Moments, labels: NDArray[np.int32], output: str) -> NDArray[np.floating]:
        """Return the standard deviations of the scores of some labels of each point, B×k; see `Predictor`."""
        return np.take_along_axis(score_std(*points, output, self._nodes), labels, axis=1)
