"""The measures of binary data, against scikit-learn."""

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from tests.metrics.problems import listed
from xmlgp.metrics.binary import binary_statistics
from xmlgp.metrics.statistics import values
from xmlgp.runtime.errors import SettingsError


def column(values):
    return listed(np.reshape(np.asarray(values, float), (-1, 1)))


def truth_of(values):
    return csr_array(np.reshape(np.asarray(values, bool), (-1, 1)))


SCORES = st.sampled_from([0.0, 0.25, 0.5, 1.0]) | st.floats(0, 1) | st.sampled_from([-1.0]) | st.floats(-1e9, 1e9)


@given(st.lists(st.tuples(st.floats(0, 1) | SCORES, st.booleans()), min_size=1, max_size=30))
def test_binary_measures_agree_with_scikit_learn(case):
    scores, truth = zip(*case, strict=True)
    result = values(binary_statistics(column(scores), truth_of(truth)))
    probabilities = min(scores) >= 0 and max(scores) <= 1
    threshold = 0.5 if probabilities else 0
    expected = {"accuracy": 100 * sklearn.metrics.accuracy_score(truth, np.array(scores) > threshold)}
    if probabilities:
        expected["log_loss"] = sklearn.metrics.log_loss(truth, scores, labels=[False, True])
    if len(set(truth)) == 2:
        expected["AUC"] = sklearn.metrics.roc_auc_score(truth, scores)
    assert result == pytest.approx(expected)
    assert list(result) == list(expected)


def test_hand_worked_example():
    # The last score equals the threshold, so it predicts no; positives win three and a half of the four pairs.
    result = values(binary_statistics(column([0.9, 0.5, 0.1, 0.5]), truth_of([1, 0, 0, 1])))
    assert result["accuracy"] == 75
    assert result["AUC"] == 3.5 / 4
    assert result["log_loss"] == pytest.approx(-(2 * np.log(0.9) + 2 * np.log(0.5)) / 4)


@pytest.mark.parametrize(
    ("scores", "truth", "sentence"),
    [
        (column([1, 0]), [1], "the scores are 2×1, the true labels 1×1"),
        (column([]), [], "there are no points to evaluate"),
    ],
)
def test_binary_data_that_cannot_be_evaluated_are_refused(scores, truth, sentence):
    with pytest.raises(SettingsError) as caught:
        binary_statistics(scores, truth_of(truth))
    assert str(caught.value) == sentence
