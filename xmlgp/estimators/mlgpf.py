"""The estimator of MLGPF, the Gaussian-process factor model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from xmlgp.data.features import Features
from xmlgp.estimators.classifier import Classifier
from xmlgp.estimators.estimator import RandomState
from xmlgp.models.mlgpf.record import MLGPF

__all__ = ["MLGPFClassifier"]


@dataclass(kw_only=True, eq=False, repr=False)
class MLGPFClassifier(Classifier, model=MLGPF):
    """Multi-label classification by the Gaussian-process factor model f = Φ h + b ([S] section 3, [L] section 3).

    Utilities are the means f̄, probabilities E σ(f), integrated over the posterior. The setting `ranking` says which of
    them rank labels in `xmlgp predict`; `decision_function` returns the log odds of the probabilities, or these
    utilities. The parameters are the settings of `MLGPFSettings`, with `random_state` for `seed`,
    `n_jobs` and `keep_points`. See `Classifier` for the other methods and attributes.
    """

    weighting: str = "root-idf"
    inducing: str | None = None
    basis_size: int = 1000
    inducing_count: int = 200
    inducing_start: str | None = None
    inducing_fixed: bool = False
    kernel: str = "linear"
    ard: bool = True
    lengthscale: float = 0.7
    posterior: str = "shared-diagonal"
    diagonal: float = 1.0
    start: str = "newton"
    factors: int | None = None
    label_weights: bool | None = None
    neighbours: bool = True
    nodes: int = 10
    ranking: str = "probability"
    negatives: int | None = None
    label_sample: int | None = None
    optimiser: str | None = None
    learning_rate: float | None = None
    epochs: int | None = None
    calibration: bool = True
    batch_size: int = 500
    dtype: str = "float32"
    random_state: RandomState = 0
    n_jobs: int | None = None
    keep_points: bool = True

    def _decide(self, features: Features) -> NDArray[np.floating]:
        output = self.model_.predictor.default_output
        scores = self._score(features, output)
        if output == "utility":
            return scores
        # The log odds of a probability that is rounded to 0 or 1 would be infinite.
        rounding = np.finfo(scores.dtype)
        log_odds: NDArray[np.floating] = logit(np.clip(scores, rounding.tiny, 1 - rounding.epsneg))
        return log_odds
