"""The function that computes all measures, for multi-label and for binary data."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from xmlgp.metrics.auc import multilabel_roc_auc
from xmlgp.metrics.binary import evaluate_binary
from xmlgp.metrics.calibration import expected_calibration_error, log_loss, top_calibration_errors
from xmlgp.metrics.evaluation import evaluate_scores
from xmlgp.metrics.ranking import evaluate_ranking


def problem(K):
    random = np.random.default_rng(0)
    return csr_array(random.random((30, K))), csr_array(random.random((30, K)) < 0.4)


@pytest.mark.parametrize("auc", [False, True])
@pytest.mark.parametrize("calibration", [False, True])
def test_multilabel_data_have_the_chosen_measures(auc, calibration):
    scores, labels = problem(5)
    expected = evaluate_ranking(scores, labels, (1, 2), np.full(5, 0.5))
    if auc:
        expected |= multilabel_roc_auc(scores, labels)
    if calibration:
        expected |= {"log_loss": log_loss(scores, labels), "ECE": expected_calibration_error(scores, labels)}
        expected |= top_calibration_errors(scores, labels, (1, 2))
    found = evaluate_scores(scores, labels, (1, 2), np.full(5, 0.5), auc, calibration)
    assert list(found.items()) == list(expected.items())


@pytest.mark.parametrize("calibration", [False, True])
def test_binary_data_have_measures_of_classification(calibration):
    scores, labels = problem(1)
    expected = evaluate_binary(scores, labels)
    if calibration:
        expected |= {"ECE": expected_calibration_error(scores, labels)}
    found = evaluate_scores(scores, labels, (1, 2), np.full(1, 0.5), True, calibration)
    assert list(found.items()) == list(expected.items())
