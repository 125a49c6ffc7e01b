"""All measures of scores against the true labels: of rankings, of binary data and of assigned labels."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csr_array

from xmlgp.metrics.assignment import evaluate_assignment
from xmlgp.metrics.auc import multilabel_roc_auc
from xmlgp.metrics.binary import evaluate_binary
from xmlgp.metrics.calibration import (
    Bin,
    expected_calibration_error,
    log_loss,
    reliability_by_frequency,
    reliability_by_rank,
    top_calibration_errors,
)
from xmlgp.metrics.ranking import evaluate_ranking

__all__ = ["Evaluation", "evaluate"]


@dataclass(frozen=True)
class Evaluation:
    """Measures of scores against the true labels.

    Attributes
    ----------
    kind : str
        What was evaluated: "ranking", "binary", for data of one label, or "assignment".
    measures : dict of str to float
        By their names. Of a ranking those of `evaluate_ranking`, `multilabel_roc_auc` and, of probabilities,
        `log_loss`, `ECE` and `ECE@k`; of binary data those of `evaluate_binary` and `ECE`; of assigned labels those of
        `evaluate_assignment`.
    reliability : dict of str to list of Bin
        Probabilities beside how often they come true, by "rank" and by "training points" of the label; empty unless it
        is asked for.
    """

    kind: str
    measures: dict[str, float]
    reliability: dict[str, list[Bin]] = field(default_factory=dict)


def evaluate(
    scores: csr_array,
    labels: csr_array,
    *,
    ks: Sequence[int] = (1, 3, 5),
    propensities: np.ndarray | None = None,
    counts: np.ndarray | None = None,
    auc: bool = False,
    calibration: bool = False,
    reliability: bool = False,
    assigned: bool = False,
) -> Evaluation:
    """Evaluate scores against the true labels (`Evaluation`).

    Parameters
    ----------
    scores : csr_array of float, N×K
        Scores of the predicted labels; a stored score of 0 is predicted, a label that is not stored is not.
    labels : csr_array of bool, N×K
        The true labels.
    ks : sequence of int
        Values of k of the measures @k, in ascending order.
    propensities : ndarray of float, K, optional
        For the propensity-scored measures (`xmlgp.metrics.propensity`).
    counts : ndarray of int, K, optional
        The number of training points of each label, for reliability.
    auc : bool
        Whether to compute the area under the ROC curve of multi-label data.
    calibration : bool
        Whether to compute log loss, ECE and ECE@k; the scores must be probabilities.
    reliability : bool
        Whether to compute reliability, of the labels up to the greatest k; the scores must be probabilities.
    assigned : bool
        Whether all labels in `scores` are assigned, whatever their scores. Nothing else has an effect then; for binary
        data, only `calibration` has.

    Raises
    ------
    SettingsError
        If the shapes disagree or a measure is undefined.
    """
    if assigned:
        return Evaluation("assignment", evaluate_assignment(scores, labels))
    if scores.shape[1] == labels.shape[1] == 1:
        measures = evaluate_binary(scores, labels)
        if calibration:
            measures["ECE"] = expected_calibration_error(scores, labels)
        return Evaluation("binary", measures)
    measures, curves = evaluate_ranking(scores, labels, ks, propensities), {}
    if auc:
        measures |= multilabel_roc_auc(scores, labels)
    if calibration:
        measures["log_loss"] = log_loss(scores, labels)
        measures["ECE"] = expected_calibration_error(scores, labels)
        measures |= top_calibration_errors(scores, labels, ks)
    if reliability:
        curves["rank"] = reliability_by_rank(scores, labels, ks[-1]).filled
        if counts is not None:
            curves["training points"] = reliability_by_frequency(scores, labels, ks[-1], counts).filled
    return Evaluation("ranking", measures, curves)
