"""Measures of binary data: of points with a single label."""

import numpy as np
from scipy.sparse import csr_array

from xmlgp.metrics.auc import pooled_area
from xmlgp.metrics.probabilities import are_probabilities, calibration_statistics
from xmlgp.metrics.ranking import check_shapes
from xmlgp.metrics.statistics import Statistic, ratio
from xmlgp.runtime.errors import SettingsError

__all__ = ["binary_statistics"]


def binary_statistics(scores: csr_array, labels: csr_array) -> dict[str, Statistic]:
    """Return measures of the scores s, N×1, of data with a single label, as statistics of the points.

    - `accuracy`, 1/N Σ_i [y_i = [s_i > t]] in percent. Scores that are all in [0, 1] are probabilities (see
      `are_probabilities`), and t is 1/2; other scores are utilities, and t is 0;
    - `log_loss`, −1/N Σ_i [y_i log s_i + (1 − y_i) log(1 − s_i)] in nats, for probabilities only;
    - `AUC`, from 0 to 1, unless all points have the label or none has it.

    Each point has a score. The true labels y are a csr_array of bool, N×1. SettingsError is raised if the shapes
    disagree or there are no points.
    """
    check_shapes(scores, labels)
    if not scores.shape[0]:
        raise SettingsError("there are no points to evaluate")
    probabilities = are_probabilities(scores)
    true = np.diff(labels.indptr) > 0
    correct = (scores.data > (0.5 if probabilities else 0)) == true
    statistics = {"accuracy": ratio(correct, np.ones(len(correct)))}
    if probabilities:
        statistics["log_loss"] = calibration_statistics(scores, labels)["log_loss"]
    auc = pooled_area(scores, labels)
    return statistics if auc is None else statistics | {"AUC": auc}
