"""The function that computes all measures: of rankings, of binary data and of assigned labels."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from xmlgp.metrics.assignment import evaluate_assignment
from xmlgp.metrics.auc import multilabel_roc_auc
from xmlgp.metrics.binary import evaluate_binary
from xmlgp.metrics.calibration import (
    expected_calibration_error,
    log_loss,
    reliability_by_frequency,
    reliability_by_rank,
    top_calibration_errors,
)
from xmlgp.metrics.evaluation import evaluate
from xmlgp.metrics.ranking import evaluate_ranking

ALL = {"ks": (1, 2), "auc": True, "calibration": True, "reliability": True}


def problem(K):
    random = np.random.default_rng(0)
    return csr_array(random.random((30, K))), csr_array(random.random((30, K)) < 0.4)


def test_rankings_have_the_chosen_measures():
    scores, labels = problem(5)
    weights, counts = np.full(5, 0.5), np.arange(5)
    found = evaluate(scores, labels, ks=(1, 2), propensities=weights)
    assert (found.kind, found.measures) == ("ranking", evaluate_ranking(scores, labels, (1, 2), weights))
    assert found.reliability == {}
    found = evaluate(scores, labels, propensities=weights, counts=counts, **ALL)
    expected = evaluate_ranking(scores, labels, (1, 2), weights) | multilabel_roc_auc(scores, labels)
    expected |= {"log_loss": log_loss(scores, labels), "ECE": expected_calibration_error(scores, labels)}
    expected |= top_calibration_errors(scores, labels, (1, 2))
    assert list(found.measures.items()) == list(expected.items())
    assert found.reliability == {
        "rank": reliability_by_rank(scores, labels, 2).filled,
        "training points": reliability_by_frequency(scores, labels, 2, counts).filled,
    }


@pytest.mark.parametrize("calibration", [False, True])
def test_binary_data_have_measures_of_classification(calibration):
    scores, labels = problem(1)
    expected = evaluate_binary(scores, labels)
    if calibration:
        expected |= {"ECE": expected_calibration_error(scores, labels)}
    found = evaluate(scores, labels, **ALL | {"calibration": calibration})
    assert (found.kind, found.reliability) == ("binary", {})
    assert list(found.measures.items()) == list(expected.items())


def test_assigned_labels_have_precision_recall_and_f1():
    scores, labels = problem(5)
    found = evaluate(scores, labels, assigned=True, **ALL)
    assert (found.kind, found.reliability) == ("assignment", {})
    assert found.measures == evaluate_assignment(scores, labels)
