"""Measures of scores of one label: accuracy, log loss and the area under the ROC curve."""

import numpy as np

from xmlgp.errors import SettingsError
from xmlgp.metrics.auc import area_under_roc
from xmlgp.metrics.calibration import log_loss

__all__ = ["are_probabilities", "evaluate_binary"]


def are_probabilities(scores):
    """Return whether scores can be probabilities: all are from 0 to 1.

    Parameters
    ----------
    scores : csr_array of float, N×1
    """
    return bool(np.all((scores.data >= 0) & (scores.data <= 1)))


def evaluate_binary(scores, labels):
    """Measure how well scores of one label tell the points that have it from the others.

    With scores s_i and labels y_i of 0 or 1,

    - accuracy = 1/N Σ_i [y_i = [s_i > t]], where t is 1/2 if all scores are from 0 to 1, as probabilities are, and
      otherwise 0, as for utilities,
    - log_loss = −1/N Σ_i [y_i log s_i + (1 − y_i) log(1 − s_i)] of probabilities, see `calibration.log_loss`,
    - AUC, the chance that a point with the label has a higher score than one without it, see `auc.areas_under_roc`.

    Parameters
    ----------
    scores : csr_array of float, N×1
        A score for every point; one of 0 is stored.
    labels : csr_array of bool, N×1
        The true labels.

    Returns
    -------
    dict of str to float
        `accuracy` in percent; `log_loss` in nats, left out for utilities; `AUC` from 0 to 1, left out where all points
        have the label or none.

    Raises
    ------
    SettingsError
        Where there are no points, the shapes disagree, a point has no score or one that is no number.
    """
    if scores.shape != labels.shape:
        raise SettingsError(f"there are scores of {scores.shape[0]} points, but true labels of {labels.shape[0]}")
    if not scores.shape[0]:
        raise SettingsError("there are no points, so there is nothing to measure")
    if np.any(np.diff(scores.indptr) != 1):
        raise SettingsError(f"point {np.argmax(np.diff(scores.indptr) != 1)}, counted from 0, has no score")
    if np.isnan(scores.data).any():
        raise SettingsError("a score that is no number says nothing of a label")
    probable = are_probabilities(scores)
    true = np.diff(labels.indptr) > 0
    right = (scores.data > (0.5 if probable else 0)) == true
    measures = {"accuracy": 100 * float(right.mean())}
    if probable:
        measures["log_loss"] = log_loss(scores, labels)
    area = area_under_roc(scores.data, true)
    return measures if area is None else measures | {"AUC": area}
