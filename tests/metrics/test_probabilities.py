import numpy as np
import pytest
import sklearn.metrics
from scipy.sparse import csr_array
from sklearn.calibration import calibration_curve

from tests.metrics.problems import listed
from xmlgp.metrics.probabilities import (
    calibration_statistics,
    frequency_groups,
    reliability,
    top_calibration_statistics,
)


def test_log_loss_and_reliability_of_listed_entries_agree_with_scikit_learn():
    random = np.random.default_rng(1)
    p = random.random((30, 8))
    # Certain and wrong, which is finite.
    p[:5] = np.round(p[:5])
    truth, which = random.random((30, 8)) < p**2, random.random((30, 8)) < 0.7
    frequency, confidence = calibration_curve(truth[which], p[which], n_bins=10)
    _, entries, means, shares = zip(*reliability(listed(p, which), csr_array(truth), 10), strict=True)
    assert sum(entries) == which.sum()
    assert means == pytest.approx(confidence)
    assert shares == pytest.approx(frequency)
    for dtype in (np.float32, np.float64):
        expected = sklearn.metrics.log_loss(truth[which], p[which].astype(dtype))
        found = calibration_statistics(listed(p.astype(dtype), which), csr_array(truth))["log_loss"].value
        assert found == pytest.approx(expected, rel=1e-6)


def test_hand_worked_calibration():
    # Two bins. Below 0.5: 0.1 (false) and 0.3 (true), mean 0.2, half true. From 0.5 on: 0.5, 0.7, 1 and 1, all true.
    probabilities = csr_array(np.array([[0.1, 0.3, 0.5], [0.7, 1.0, 1.0]]))
    truth = csr_array(np.array([[False, True, True], [True, True, True]]))
    found = reliability(probabilities, truth, 2)
    assert [row[:2] for row in found] == [("0 to 50 %", 2), ("50 to 100 %", 4)]
    assert [row[2:] for row in found] == [pytest.approx((0.2, 0.5)), pytest.approx((0.8, 1))]
    # Empty bins are left out.
    assert reliability(csr_array([[0.95]]), csr_array([[True]]), 4) == [("75 to 100 %", 1, 0.95, 1)]


def test_calibration_error_is_the_weighted_gap_of_fifteen_bins():
    random = np.random.default_rng(2)
    p = random.random((40, 6))
    p[0, 0] = 1
    truth = random.random((40, 6)) < p**2
    which = random.random((40, 6)) < 0.7
    bins = np.minimum((15 * p[which]).astype(int), 14)
    gaps = [abs((truth[which] - p[which])[bins == b].sum()) for b in range(15)]
    statistics = calibration_statistics(listed(p, which), csr_array(truth))
    assert statistics["ECE"].value == pytest.approx(sum(gaps) / which.sum())


def test_errors_of_the_first_labels_are_those_of_ten_bins():
    random = np.random.default_rng(3)
    probabilities = np.where(random.random((50, 8)) < 0.7, random.integers(1, 100, (50, 8)) / 100, 0)
    probabilities[0] = 0
    truth = random.random((50, 8)) < 0.5
    errors = top_calibration_statistics(csr_array(probabilities), csr_array(truth), (1, 3, 100))
    for k in (1, 3, 100):
        entries = []
        for p, y in zip(probabilities, truth, strict=True):
            labels = sorted(np.flatnonzero(p), key=lambda label, p=p: (-p[label], label))
            entries += [(p[label], y[label]) for label in labels[:k]]
        p, y = np.array(entries).T
        bins = np.minimum((10 * p).astype(int), 9)
        gaps = [abs((p - y)[bins == b].sum()) for b in range(10)]
        assert errors[f"ECE@{k}"].value == pytest.approx(sum(gaps) / len(p))


def test_groups_of_labels_have_twice_as_many_training_points_as_the_one_before():
    names, groups = frequency_groups(np.array([0, 1, 2, 3, 4, 7, 8, 9]))
    assert (names, groups.tolist()) == (["0", "1", "2-3", "4-7", "8-15"], [0, 1, 2, 2, 3, 3, 4, 4])
