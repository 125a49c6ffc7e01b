import math

import numpy as np
import pytest
from scipy.sparse import csr_array

from xmlgp.errors import SettingsError
from xmlgp.metrics.ranking import evaluate_ranking
from xmlgp.metrics.selective import first_deviations, precision_by_certainty


def test_hand_worked_halves():
    scores = csr_array(np.array([[0.9, 0.1], [0.2, 0.6], [0.7, 0.3], [0.4, 0.5]]))
    labels = csr_array(np.array([[1, 0], [0, 1], [0, 1], [1, 1]], dtype=bool))
    # Points 2 and 0 are the certain ones: label 0 is right for point 0 alone; points 1 and 3 are both right.
    found = precision_by_certainty(scores, labels, np.array([0.2, 0.4, 0.1, 0.3]), ks=(1, 2))
    assert found == {"P_certain@1": 50.0, "P_certain@2": 50.0, "P_uncertain@1": 100.0, "P_uncertain@2": 75.0}


def test_halves_are_of_the_points_with_a_label_and_the_middle_one_is_of_the_other():
    truth = np.eye(7, dtype=bool)
    truth[[0, 3]] = False
    # Labelled are 1, 2, 4, 5, 6; in order of uncertainty 6, 5 | 4, 2, 1, of which 6, 5 and 4 are right.
    scores = np.where(np.arange(7)[:, None] > 3, np.eye(7), 1 - np.eye(7))
    found = precision_by_certainty(csr_array(scores), csr_array(truth), -np.arange(7.0), ks=(1,))
    assert found == {"P_certain@1": 100.0, "P_uncertain@1": pytest.approx(100 / 3)}


def test_equally_certain_points_stay_in_order():
    scores = csr_array(np.array([[0.9, 0.1]] * 40))
    labels = csr_array(np.array([[True, False]] * 20 + [[False, True]] * 20))
    found = precision_by_certainty(scores, labels, np.zeros(40), ks=(1,))
    assert found == {"P_certain@1": 100.0, "P_uncertain@1": 0.0}


def test_the_halves_together_are_the_whole():
    rng = np.random.default_rng(0)
    scores, truth = csr_array(rng.random((50, 9))), csr_array(rng.random((50, 9)) < 0.4)
    assert truth.sum(axis=1).min() > 0
    found = precision_by_certainty(scores, truth, rng.random(50))
    for name, value in evaluate_ranking(scores, truth).items():
        if name.startswith("P@"):
            k = name.removeprefix("P@")
            assert (found[f"P_certain@{k}"] + found[f"P_uncertain@{k}"]) / 2 == pytest.approx(value)


def test_what_the_model_knows_shows():
    rng = np.random.default_rng(1)
    uncertainty = rng.random(4000)
    right = rng.random(4000) > uncertainty
    truth = csr_array(np.stack([right, ~right], axis=1))
    found = precision_by_certainty(csr_array(np.array([[0.9, 0.1]] * 4000)), truth, uncertainty, ks=(1,))
    assert found["P_certain@1"] == pytest.approx(75, abs=4)
    assert found["P_uncertain@1"] == pytest.approx(25, abs=4)


def test_first_deviations():
    # In no order, with equal scores at point 1 and a stored 0 that is the highest of point 3.
    scores = csr_array(
        (np.array([0.1, 0.8, 0.5, 0.5, 0.0, -1.0]), np.array([2, 0, 2, 1, 0, 1]), np.array([0, 2, 4, 4, 6])), (4, 3)
    )
    found = first_deviations(scores, np.array([10.0, 11.0, 12.0, 13.0, 14.0, 15.0]))
    assert found.tolist() == [11.0, 13.0, math.inf, 14.0]


def test_first_deviations_agree_with_dense_arrays():
    rng = np.random.default_rng(2)
    scores, deviations = rng.standard_normal((30, 8)), rng.random((30, 8))
    expected = deviations[np.arange(30), scores.argmax(axis=1)]
    assert first_deviations(csr_array(scores), deviations.ravel()).tolist() == expected.tolist()


@pytest.mark.parametrize("labelled", [0, 1])
def test_fewer_than_two_points_are_refused(labelled):
    truth = csr_array(np.arange(3)[:, None] < np.array([[labelled, 0]]))
    with pytest.raises(SettingsError, match="no two points with a true label"):
        precision_by_certainty(csr_array(np.ones((3, 2))), truth, np.zeros(3))


def test_disagreeing_shapes_are_refused():
    truth = csr_array(np.ones((3, 2), dtype=bool))
    with pytest.raises(SettingsError, match="the uncertainties are of 2 points, the true labels of 3"):
        precision_by_certainty(csr_array(np.ones((3, 2))), truth, np.zeros(2))
    with pytest.raises(SettingsError, match="the scores are of"):
        precision_by_certainty(csr_array(np.ones((3, 4))), truth, np.zeros(3))


def test_no_number_is_refused():
    truth = csr_array(np.ones((3, 2), dtype=bool))
    with pytest.raises(SettingsError, match="no number"):
        precision_by_certainty(csr_array(np.ones((3, 2))), truth, np.array([0.1, math.nan, 0.2]))
