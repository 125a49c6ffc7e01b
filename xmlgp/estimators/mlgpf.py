"""The estimator of MLGPF."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logit
from sklearn.utils.validation import check_is_fitted

from xmlgp.estimators.classifier import Classifier
from xmlgp.mlgpf.record import MLGPF

if TYPE_CHECKING:
    from xmlgp.estimators.classifier import Matrix

__all__ = ["MLGPFClassifier"]


class MLGPFClassifier(Classifier, model=MLGPF):
    """Multi-label classification by the Gaussian-process factor model f = Φ h + b ([S] section 3, [L] section 3).

    Utilities are the means f̄, probabilities E σ(f), integrated over the posterior. The setting `ranking` says which of
    them rank labels in `decision_function` and `xmlgp predict`. See `Classifier` for the other methods and attributes.

    Parameters
    ----------
    **settings
        Those of `xmlgp train --model mlgpf`, with the same names and defaults; see
        `xmlgp.mlgpf.settings.MLGPFSettings`.
    """

    def decision_function(self, X: Matrix) -> np.ndarray:
        """Return the numbers that labels are ranked by, N×K.

        They are the log odds of the probabilities, or the utilities if the setting `ranking` was "utility" in `fit`.
        """
        check_is_fitted(self)
        output = self.model_.predictor.default_output
        scores = self._score(X, output)
        if output == "utility":
            return scores
        # The log odds of a probability that is rounded to 0 or 1 would be infinite.
        rounding = np.finfo(scores.dtype)
        return logit(np.clip(scores, rounding.tiny, 1 - rounding.epsneg))
