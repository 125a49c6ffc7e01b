"""The estimator of MLGPF."""

import numpy as np
from scipy.special import logit
from sklearn.utils.validation import check_is_fitted

from xmlgp.estimators.classifier import Classifier
from xmlgp.mlgpf.record import MLGPF

__all__ = ["MLGPFClassifier"]


class MLGPFClassifier(Classifier, model=MLGPF):
    """Multi-label classification by the Gaussian-process factor model f = Φ h + b ([S] section 3, [L] section 3).

    Utilities are the means f̄, probabilities E σ(f), integrated over the posterior. The setting `ranking` says which of
    them rank labels in `decision_function` and `xmlgp predict`.

    Parameters
    ----------
    **settings
        Those of `xmlgp train --model mlgpf`, with the same names and defaults; see
        `xmlgp.mlgpf.settings.MLGPFSettings`.

    Attributes
    ----------
    parameters_ : dict of str to ndarray
        As described in docs/model-folder.md.
    history_ : list of dict
        For each epoch `epoch`, `bound` and `seconds`.
    n_features_in_ : int
        Number of features, D.
    classes_ : list of ndarray
        [0, 1] for each of the K labels.
    tuned_ : Tuned or None
        What `tune` or `xmlgp tune` chose, and for which scores.
    assignment_rule_ : AssignmentRule or None
        The threshold and the limit of `tuned_`.
    names_ : Names
        What the model folder calls labels and features, and what maps text to these; None each after `fit`.
    learned_ : list of dict
        What each `partial_fit` or `xmlgp learn` added after training: `N` points, `D` features and `K` labels, their
        `fingerprint` and `history`, with entries as in `history_`.
    """

    def decision_function(self, X):
        """Return the numbers that labels are ranked by, N×K.

        They are the log odds of the probabilities, or the utilities if the setting `ranking` was "utility" in `fit`.
        """
        check_is_fitted(self)
        output = self._predictor.default_output
        scores = self._score(X, output)
        if output == "utility":
            return scores
        # The log odds of a probability that is rounded to 0 or 1 would be infinite.
        rounding = np.finfo(scores.dtype)
        return logit(np.clip(scores, rounding.tiny, 1 - rounding.epsneg))
