"""The estimator of MLGPF, the Gaussian-process factor model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from xmlgp.data.dataset import Features
from xmlgp.estimators.classifier import Classifier
from xmlgp.estimators.from_settings import with_settings_of
from xmlgp.models.mlgpf.record import MLGPF

__all__ = ["MLGPFClassifier"]


@with_settings_of(MLGPF)
class MLGPFClassifier(Classifier):
    """Multi-label classification by the Gaussian-process factor model f = Φ h + b ([S] section 3, [L] section 3).

    Utilities are the means f̄, probabilities E σ(f), integrated over the posterior. The setting `ranking` says which of
    them rank labels in `xmlgp predict`; `decision_function` returns the log odds of the probabilities, or these
    utilities. See `Classifier` for the other methods and attributes.
    """

    def _decide(self, features: Features) -> NDArray[np.floating]:
        output = self.model_.predictor.default_output
        scores = self._score(features, output)
        if output == "utility":
            return scores
        # The log odds of a probability that is rounded to 0 or 1 would be infinite.
        rounding = np.finfo(scores.dtype)
        log_odds: NDArray[np.floating] = logit(np.clip(scores, rounding.tiny, 1 - rounding.epsneg))
        return log_odds
