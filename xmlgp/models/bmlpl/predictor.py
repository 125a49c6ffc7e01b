"""Predictions of BMLPL in closed form: the activations are integrated out over their prior given the features."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmlgp.data.dataset import Features
from xmlgp.features.pipeline import Preprocessed
from xmlgp.linear_algebra import sparse
from xmlgp.linear_algebra.array_groups import arrays_fit
from xmlgp.models.bmlpl.parameters import ARRAYS
from xmlgp.models.bmlpl.settings import BMLPLSettings
from xmlgp.prediction.predictor import Predictor
from xmlgp.training.result import LABEL_COUNTS

__all__ = ["BMLPLPredictor"]

#: ψ is clipped to this absolute value, so that e^ψ and its square are finite in single precision.
LARGEST_LOG_ODDS = 40

#: The largest z = v e^ψ for which one, two or three terms of the series log(1 + z) = z − z²/2 + z³/3 − … have a
#: relative error of at most 7e-6.
SERIES_LIMITS = (1.35e-5, 4.5e-3, 0.03)

#: Above this weight v of a label in a topic, log(1 + v e^ψ) is computed exactly. Such weights are few, because those of
#: a topic sum to one.
LARGE_WEIGHT = 1e-3


class BMLPLPredictor(Predictor):
    """A trained BMLPL, which scores points ([B] (19)).

    Given activations, p(y_k = 1 | u) = 1 − e^(−λ_k) with the rates λ_k = Σ_t v_kt u_t. With u_t ~ Gamma(r_t, scale
    e^ψ_t), p(y_k = 1 | x) = 1 − e^(−s_k) with s_k = Σ_t r_t log(1 + v_kt e^ψ_t). The probability has the standard
    deviation of 1 − e^(−λ) over the activations. The utility is s = −log(1 − p), which gives the same ranking and keeps
    its precision where p is close to one; its standard deviation is that of the rate λ.
    """

    def __init__(
        self,
        settings: BMLPLSettings,
        preprocessed: Preprocessed,
        parameters: Mapping[str, NDArray[Any]],
        feature_count: int,
    ) -> None:
        super().__init__(feature_count, len(parameters["topics"]), settings.dtype)
        self._preprocessed = preprocessed
        self._weights = np.ascontiguousarray(parameters["weights"], self.dtype)
        self._intercepts = np.ascontiguousarray(parameters["intercepts"], self.dtype)
        self._shapes = np.ascontiguousarray(parameters["shapes"], self.dtype)
        #: Vᵀ, T×K.
        self._topics = np.ascontiguousarray(parameters["topics"].T, self.dtype)
        #: The elements of Vᵀ up to `LARGE_WEIGHT`, zero elsewhere, T×K.
        self._small_weights = np.where(self._topics <= LARGE_WEIGHT, self._topics, 0)

    @classmethod
    def parameters_fit(cls, settings: BMLPLSettings, parameters: Mapping[str, NDArray[Any]], D: int, K: int) -> bool:
        """Return whether arrays can be the parameters of such a model; see `Predictor`."""
        sizes = {"D": D, "K": K}
        if not arrays_fit(parameters, {ARRAYS: True, LABEL_COUNTS: None}, sizes):
            return False
        # K may have grown since training, so there may be fewer topics than min(topics, K).
        return 0 < sizes["T"] <= min(settings.topics or K, K)

    def prepare(self, features: Features, output: str, with_std: bool) -> NDArray[np.floating]:
        """Return e^ψ, the scales of activations, B×T; see `Predictor`."""
        features = self._preprocessed.weigh(features).sparse.astype(self.dtype, copy=False)
        log_odds = sparse.product(features, self._weights)
        log_odds += self._intercepts
        np.clip(log_odds, -LARGEST_LOG_ODDS, LARGEST_LOG_ODDS, out=log_odds)
        np.exp(log_odds, out=log_odds)
        return log_odds

    def scores(self, scales: NDArray[np.floating], labels: slice, output: str) -> NDArray[np.floating]:
        """Return the scores of a block of labels, B×L; see `Predictor`.

        The utilities are s_k = Σ_t r_t log(1 + z_kt) with z_kt = v_kt e^ψ_t. Where z is small, log(1 + z) is computed
        as a series, whose sums over topics are matrix products. It is computed exactly for large weights v_kt, and for
        the small weights of a topic whose scale e^ψ_t at the point is too large for the series.
        """
        small = np.ascontiguousarray(self._small_weights[:, labels])
        largest = small.max(axis=1, initial=0)
        # The largest z of each point and topic, B×T, where the series is used; zero elsewhere.
        largest_z = scales * largest
        is_exact = largest_z > SERIES_LIMITS[-1]
        largest_z[is_exact] = 0
        # The number of terms after the first, at most 2.
        more_terms = np.searchsorted(SERIES_LIMITS, largest_z.max(initial=0))
        # z is `largest_z` times relative weights of at most one, because powers of the scales could overflow.
        relative = small / np.maximum(largest, np.finfo(small.dtype).tiny)[:, None]
        series = self._shapes * largest_z
        utilities: NDArray[np.floating] = series @ relative
        power = relative
        for divisor in (-2, 3)[:more_terms]:
            series *= largest_z
            power = power * relative
            utilities += (series / divisor) @ power
        for t, shape in enumerate(self._shapes):
            points = np.flatnonzero(is_exact[:, t])
            utilities[points] += shape * np.log1p(scales[points, t, None] * small[t])
            weights = self._topics[t, labels]
            large = np.flatnonzero(weights > LARGE_WEIGHT)
            utilities[:, large] += shape * np.log1p(scales[:, t, None] * weights[large])
        if output == "probability":
            np.negative(np.expm1(-utilities), out=utilities)
        return utilities

    def std(self, scales: NDArray[np.floating], labels: NDArray[np.int32], output: str) -> NDArray[np.floating]:
        """Return the standard deviations of the scores of some labels of each point, B×k; see `Predictor`.

        With z_t = v_kt e^ψ_t and d = Σ_t r_t log(1 + z_t²/(1 + 2 z_t)), under the prior of the activations
        Var λ_k = Σ_t r_t z_t² and Var e^(−λ_k) = e^(−2 s_k) (e^d − 1), because E e^(−λ_k) = e^(−s_k).
        """
        utility = np.zeros(labels.shape)
        # d, or the variance of λ if the scores are utilities.
        d = np.zeros(labels.shape)
        for t, shape in enumerate(self._shapes.astype(np.float64)):
            z = scales[:, t, None].astype(np.float64) * self._topics[t][labels]
            utility += shape * np.log1p(z)
            d += shape * (np.log1p(z * z / (1 + 2 * z)) if output == "probability" else z * z)
        # √(e^(−2s) (e^d − 1)), without e^d, which could overflow.
        std = np.exp(0.5 * d - utility) * np.sqrt(-np.expm1(-d)) if output == "probability" else np.sqrt(d)
        return std.astype(scales.dtype)
