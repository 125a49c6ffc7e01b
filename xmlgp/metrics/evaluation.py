"""All measures of scores against the true labels, for multi-label and for binary data."""

from xmlgp.metrics.auc import multilabel_roc_auc
from xmlgp.metrics.binary import evaluate_binary
from xmlgp.metrics.calibration import expected_calibration_error, log_loss, top_calibration_errors
from xmlgp.metrics.ranking import evaluate_ranking

__all__ = ["evaluate_scores", "is_binary"]


def is_binary(scores, labels):
    """Return whether scores and labels are of a single label.

    Parameters
    ----------
    scores : csr_array of float, N×K
    labels : csr_array of bool, N×K
    """
    return scores.shape[1] == labels.shape[1] == 1


def evaluate_scores(scores, labels, ks=(1, 3, 5), propensities=None, auc=False, calibration=False):
    """Evaluate scores against the true labels.

    Parameters
    ----------
    scores : csr_array of float, N×K
        Scores of the predicted labels; a stored score of 0 is predicted, a label that is not stored is not.
    labels : csr_array of bool, N×K
        The true labels.
    ks : sequence of int
        Values of k of the ranking measures.
    propensities : ndarray of float, K, optional
        For the propensity-scored measures (`xmlgp.metrics.propensity.propensities`).
    auc : bool
        Whether to compute the area under the ROC curve of multi-label data.
    calibration : bool
        Whether to compute log loss, ECE and ECE@k; the scores must be probabilities.

    Returns
    -------
    dict of str to float
        For binary data (K = 1) the measures of `evaluate_binary`, and `ECE` with `calibration`; `ks`, `propensities`
        and `auc` have no effect. Otherwise the measures of `evaluate_ranking`, of `multilabel_roc_auc` with `auc`, and
        with `calibration` `log_loss`, `ECE`, and `ECE@k` by `top_calibration_errors`.

    Raises
    ------
    SettingsError
        If the shapes disagree or a measure is undefined.
    """
    if is_binary(scores, labels):
        measures = evaluate_binary(scores, labels)
    else:
        measures = evaluate_ranking(scores, labels, ks, propensities)
        if auc:
            measures |= multilabel_roc_auc(scores, labels)
        if calibration:
            measures["log_loss"] = log_loss(scores, labels)
    if calibration:
        measures["ECE"] = expected_calibration_error(scores, labels)
        if not is_binary(scores, labels):
            measures |= top_calibration_errors(scores, labels, ks)
    return measures
