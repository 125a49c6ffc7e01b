"""Measures of binary classification: accuracy, log loss and the area under the ROC curve."""

import numpy as np

from xmlgp.errors import SettingsError
from xmlgp.metrics.auc import roc_auc
from xmlgp.metrics.calibration import log_loss

__all__ = ["are_probabilities", "evaluate_binary"]


def are_probabilities(scores):
    """Return whether all stored scores of a csr_array are in [0, 1]."""
    return bool(np.all((scores.data >= 0) & (scores.data <= 1)))


def evaluate_binary(scores, labels):
    """Evaluate scores for data with a single label.

    With scores s_i and labels y_i of 0 or 1,

    - accuracy = 1/N Σ_i [y_i = [s_i > t]], where t is 1/2 if all scores are in [0, 1], which are taken as
      probabilities, and 0 otherwise, for utilities,
    - log_loss = −1/N Σ_i [y_i log s_i + (1 − y_i) log(1 − s_i)] for probabilities, see `calibration.log_loss`,
    - AUC, the probability that a point with the label scores higher than a point without, see `auc.roc_auc`.

    Parameters
    ----------
    scores : csr_array of float, N×1
        A score for every point; a score of 0 is stored.
    labels : csr_array of bool, N×1
        The true labels.

    Returns
    -------
    dict of str to float
        `accuracy` in percent; `log_loss` in nats, for probabilities only; `AUC` from 0 to 1, unless all points have the
        label or none has.

    Raises
    ------
    SettingsError
        If there are no points, the shapes disagree, a point has no score or a score is NaN.
    """
    if scores.shape != labels.shape:
        raise SettingsError(f"there are scores of {scores.shape[0]} points, but true labels of {labels.shape[0]}")
    if not scores.shape[0]:
        raise SettingsError("there are no points to evaluate")
    if np.any(np.diff(scores.indptr) != 1):
        raise SettingsError(f"point {np.argmax(np.diff(scores.indptr) != 1)}, counted from 0, has no score")
    if np.isnan(scores.data).any():
        raise SettingsError("a score is NaN")
    probabilities = are_probabilities(scores)
    true = np.diff(labels.indptr) > 0
    correct = (scores.data > (0.5 if probabilities else 0)) == true
    measures = {"accuracy": 100 * float(correct.mean())}
    if probabilities:
        measures["log_loss"] = log_loss(scores, labels)
    auc = roc_auc(scores.data, true)
    return measures if auc is None else measures | {"AUC": auc}
