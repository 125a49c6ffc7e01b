"""Measures of binary classification, against scikit-learn."""

import warnings

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from xmlgp.errors import SettingsError
from xmlgp.metrics.binary import are_probabilities, evaluate_binary


def column(values):
    """A csr_array N×1 that stores every value, including zeros."""
    values = np.asarray(values, dtype=np.float64)
    return csr_array((values, np.zeros(len(values), np.int32), np.arange(len(values) + 1)), shape=(len(values), 1))


def truth_of(values):
    return csr_array(np.reshape(np.asarray(values, dtype=bool), (-1, 1)))


def cases(scores):
    return st.lists(st.tuples(scores, st.booleans()), min_size=1, max_size=30)


@given(cases(st.floats(0, 1) | st.sampled_from([0.0, 0.25, 0.5, 1.0])))
def test_probabilities_agree_with_scikit_learn(case):
    scores, truth = zip(*case, strict=True)
    found = evaluate_binary(column(scores), truth_of(truth))
    assert found["accuracy"] == pytest.approx(100 * sklearn.metrics.accuracy_score(truth, np.array(scores) > 0.5))
    assert found["log_loss"] == pytest.approx(sklearn.metrics.log_loss(truth, scores, labels=[False, True]))
    if len(set(truth)) == 2:
        assert found["AUC"] == pytest.approx(sklearn.metrics.roc_auc_score(truth, scores))
    assert list(found) == ["accuracy", "log_loss", "AUC"][: 2 + (len(set(truth)) == 2)]


@given(cases(st.floats(-1e9, 1e9) | st.sampled_from([-1.0, 0.0, 0.25, 1.0])))
def test_utilities_agree_with_scikit_learn(case):
    scores, truth = zip(*case, strict=True)
    assume(min(scores) < 0 or max(scores) > 1)
    found = evaluate_binary(column(scores), truth_of(truth))
    assert found["accuracy"] == pytest.approx(100 * sklearn.metrics.accuracy_score(truth, np.array(scores) > 0))
    if len(set(truth)) == 2:
        assert found["AUC"] == pytest.approx(sklearn.metrics.roc_auc_score(truth, scores))
    assert list(found) == ["accuracy", "AUC"][: 1 + (len(set(truth)) == 2)]


def test_hand_worked_example():
    # The last score equals the threshold, so it predicts no; positives win three and a half of the four pairs.
    found = evaluate_binary(column([0.9, 0.5, 0.1, 0.5]), truth_of([1, 0, 0, 1]))
    assert found["accuracy"] == 75
    assert found["AUC"] == 3.5 / 4
    assert found["log_loss"] == pytest.approx(-(2 * np.log(0.9) + 2 * np.log(0.5)) / 4)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [([0, 1], True), ([0.5], True), ([], True), ([0, 1 + 1e-15], False), ([-1e-300], False), ([np.nan], False)],
)
def test_scores_in_the_unit_interval_are_probabilities(scores, expected):
    assert are_probabilities(column(scores)) is expected


@pytest.mark.parametrize(
    ("scores", "truth", "sentence"),
    [
        (column([1, 0]), truth_of([1]), "there are scores of 2 points, but true labels of 1"),
        (column([]), truth_of([]), "there are no points to evaluate"),
        (csr_array(np.array([[1.0], [0.0], [2.0]])), truth_of([1, 0, 1]), "point 1, counted from 0, has no score"),
        (column([1, np.nan]), truth_of([1, 0]), "a score is NaN"),
    ],
)
def test_errors_say_what_is_wrong(scores, truth, sentence):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(SettingsError) as caught:
            evaluate_binary(scores, truth)
    assert str(caught.value) == sentence
