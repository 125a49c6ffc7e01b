"""All measures of scores against the true labels: of rankings, of binary data and of assigned labels."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csr_array

from xmlgp.errors import SettingsError
from xmlgp.metrics.assignment import evaluate_assignment
from xmlgp.metrics.auc import multilabel_roc_auc, roc_auc
from xmlgp.metrics.probabilities import (
    Bin,
    log_loss,
    reliability_by_frequency,
    reliability_by_rank,
    reliability_curve,
    top_calibration_errors,
)
from xmlgp.metrics.ranking import check_shapes, evaluate_ranking

__all__ = ["Evaluation", "are_probabilities", "evaluate", "evaluate_binary"]


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
    """Evaluate scores, N×K, against the true labels, N×K; `xmlgp.api.evaluate` describes the choices.

    `propensities`, K, are those of the propensity-scored measures, and `counts`, K, the numbers of training points of
    the labels, for reliability, which is over the labels up to the greatest k. For assigned labels no other choice has
    an effect, for binary data only `calibration`. SettingsError is raised if the shapes disagree or a measure is
    undefined.
    """
    if assigned:
        return Evaluation("assignment", evaluate_assignment(scores, labels))
    if scores.shape[1] == labels.shape[1] == 1:
        measures = evaluate_binary(scores, labels)
        if calibration:
            measures["ECE"] = reliability_curve(scores, labels).error
        return Evaluation("binary", measures)
    measures, curves = evaluate_ranking(scores, labels, ks, propensities), {}
    if auc:
        measures |= multilabel_roc_auc(scores, labels)
    if calibration:
        measures["log_loss"] = log_loss(scores, labels)
        measures["ECE"] = reliability_curve(scores, labels).error
        measures |= top_calibration_errors(scores, labels, ks)
    if reliability:
        curves["rank"] = reliability_by_rank(scores, labels, ks[-1]).filled
        if counts is not None:
            curves["training points"] = reliability_by_frequency(scores, labels, ks[-1], counts).filled
    return Evaluation("ranking", measures, curves)


def are_probabilities(scores):
    """Return whether all stored scores of a csr_array are in [0, 1]."""
    return bool(np.all((scores.data >= 0) & (scores.data <= 1)))


def evaluate_binary(scores, labels):
    """Evaluate the scores s, N×1, of data with a single label, whose true labels y are a csr_array of bool, N×1.

    - `accuracy`, 1/N Σ_i [y_i = [s_i > t]] in percent, where t is 1/2 if all scores are in [0, 1], which are taken as
      probabilities, and 0 otherwise, for utilities;
    - `log_loss`, −1/N Σ_i [y_i log s_i + (1 − y_i) log(1 − s_i)] in nats, for probabilities only;
    - `AUC`, from 0 to 1, unless all points have the label or none has it.

    SettingsError is raised if the shapes disagree, there are no points, a point has no score or a score is NaN.
    """
    check_shapes(scores, labels)
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
