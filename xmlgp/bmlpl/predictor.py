"""Predictions of BMLPL, in closed form."""

import numpy as np

from xmlgp.bmlpl.parameters import are_valid_parameters
from xmlgp.bmlpl.predictive import Predictive
from xmlgp.prediction.predictor import Predictor
from xmlgp.training.statistics import STATISTICS, are_valid

__all__ = ["BMLPLPredictor"]


class BMLPLPredictor(Predictor):
    """A trained BMLPL, which scores points.

    The probability of a label is p = 1 − Π_t (1 + v_t e^ψ_t)^(−r_t), with activations integrated out ([B] (19)); its
    standard deviation is that of 1 − e^(−λ) over the activations. The utility is −log(1 − p), which gives the same
    ranking and keeps its precision where p is close to one; its standard deviation is that of the rate λ.
    """

    def __init__(self, settings, preprocessed, parameters, feature_count):
        super().__init__(feature_count, len(parameters["topics"]), settings.dtype)
        self._preprocessed = preprocessed
        self._predictive = Predictive(parameters, self.dtype)

    @classmethod
    def parameters_fit(cls, settings, parameters, D, K):
        """Return whether arrays can be the parameters of such a model; see `Predictor`."""
        T = len(parameters["shapes"])
        topics = settings.topics
        # A model that has learned new labels has fewer topics than it would have if trained anew.
        own = {name: value for name, value in parameters.items() if name not in STATISTICS}
        return (
            T > 0
            and (topics is None or min(topics, K) >= T)
            and are_valid_parameters(own, (D, K, T))
            and are_valid(parameters, D, K)
        )

    def prepare(self, features, output, with_std):
        """Return the scales of activations, B×T; see `Predictor`."""
        return self._predictive.scales(self._preprocessed.weigh(features))

    def scores(self, points, labels, output):
        """Return the scores of a block of labels, B×L; see `Predictor`."""
        rates = self._predictive.rates(points, labels)
        return rates if output == "utility" else -np.expm1(-rates)

    def std(self, points, labels, output):
        """Return the standard deviations of the scores of some labels of each point, B×k; see `Predictor`."""
        return self._predictive.std(points, labels, output == "probability")

    def bytes_per_point(self, output, with_std):
        """Return the memory that scoring takes per point; see `Predictor`."""
        return 6 * self._predictive.topic_count * self.dtype.itemsize
