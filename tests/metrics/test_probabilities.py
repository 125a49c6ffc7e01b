import math

import numpy as np
import pytest
import sklearn.metrics
from scipy.sparse import csr_array
from sklearn.calibration import calibration_curve

from tests.metrics.problems import listed
from xmlgp.errors import SettingsError
from xmlgp.metrics import probabilities as module
from xmlgp.metrics.probabilities import (
    Bin,
    ReliabilityCurve,
    calibration_statistics,
    frequency_groups,
    log_loss,
    reliability_by_frequency,
    reliability_by_rank,
    reliability_curve,
    top_calibration_errors,
)


@pytest.mark.parametrize("entries", [20, 1 << 20])
def test_log_loss_and_reliability_of_listed_entries_agree_with_scikit_learn(monkeypatch, entries):
    monkeypatch.setattr(module, "_BLOCK_ENTRIES", entries)
    random = np.random.default_rng(1)
    p = random.random((30, 8))
    # Certain and wrong, which is finite.
    p[:5] = np.round(p[:5])
    truth, which = random.random((30, 8)) < p**2, random.random((30, 8)) < 0.7
    frequency, confidence = calibration_curve(truth[which], p[which], n_bins=10)
    curve = reliability_curve(listed(p, which), csr_array(truth), bins=10)
    assert curve.count.sum() == which.sum()
    assert curve.confidence == pytest.approx(confidence)
    assert curve.frequency == pytest.approx(frequency)
    for dtype in (np.float32, np.float64):
        expected = sklearn.metrics.log_loss(truth[which], p[which].astype(dtype))
        assert log_loss(listed(p.astype(dtype), which), csr_array(truth)) == pytest.approx(expected, rel=1e-6)


def test_hand_worked_calibration():
    # Two bins. Below 0.5: 0.1 (false) and 0.3 (true), mean 0.2, half true. From 0.5 on: 0.5, 0.7, 1 and 1, all true.
    probabilities = csr_array(np.array([[0.1, 0.3, 0.5], [0.7, 1.0, 1.0]]))
    truth = csr_array(np.array([[False, True, True], [True, True, True]]))
    curve = reliability_curve(probabilities, truth, bins=2)
    assert curve.count.tolist() == [2, 4]
    assert curve.confidence == pytest.approx([0.2, 0.8])
    assert curve.frequency == pytest.approx([0.5, 1.0])
    # Empty bins do not count.
    curve = reliability_curve(csr_array([[0.95]]), csr_array([[True]]), bins=4)
    assert curve.count.tolist() == [0, 0, 0, 1]
    assert np.isnan(curve.confidence[:3]).all()


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


@pytest.fixture
def ranked():
    """Return probabilities of some labels of 50 points, in any order, the true labels, and both ranked by hand."""
    random = np.random.default_rng(3)
    listed = random.random((50, 8)) < 0.7
    listed[0] = False
    probabilities = np.where(listed, random.integers(1, 100, (50, 8)) / 100, 0)
    truth = random.random((50, 8)) < 0.5
    entries = []
    for p, y in zip(probabilities, truth, strict=True):
        labels = sorted(np.flatnonzero(p), key=lambda label, p=p: (-p[label], label))
        entries += [(rank, label, p[label], y[label]) for rank, label in enumerate(labels)]
    return csr_array(probabilities), csr_array(truth), [np.array(column) for column in zip(*entries, strict=True)]


def check_curve(result, groups, p, y, names):
    assert result.names == names
    for i in range(len(names)):
        part = groups == i
        assert result.count[i] == part.sum()
        assert result.confidence[i] == pytest.approx(p[part].mean())
        assert result.frequency[i] == pytest.approx(y[part].mean())


def test_reliability_of_the_first_labels(ranked):
    probabilities, truth, (rank, label, p, y) = ranked
    for k, count in [(3, 3), (100, rank.max() + 1)]:
        check_curve(reliability_by_rank(probabilities, truth, k), rank, p, y, [str(i + 1) for i in range(count)])
    counts = np.array([0, 1, 2, 3, 4, 7, 8, 9])
    names, groups = frequency_groups(counts)
    assert (names, groups.tolist()) == (["0", "1", "2-3", "4-7", "8-15"], [0, 1, 2, 2, 3, 3, 4, 4])
    first = rank < 3
    result = reliability_by_frequency(probabilities, truth, 3, counts)
    check_curve(result, groups[label[first]], p[first], y[first], names)
    errors = top_calibration_errors(probabilities, truth, (1, 3, 100))
    for k in (1, 3, 100):
        first = rank < k
        bins = np.minimum((10 * p[first]).astype(int), 9)
        gaps = [abs((p[first] - y[first])[bins == b].sum()) for b in range(10)]
        assert errors[f"ECE@{k}"] == pytest.approx(sum(gaps) / first.sum())


def test_the_curves_of_two_parts_add_up(ranked):
    probabilities, truth, (rank, _, p, y) = ranked
    parts = [reliability_by_rank(probabilities[rows], truth[rows], k) for rows, k in ((slice(9), 2), (slice(9, 50), 9))]
    result = sum(parts, start=ReliabilityCurve.empty())
    first = (rank < 2) | (np.cumsum(rank == 0) > np.count_nonzero(np.diff(probabilities[:9].indptr)))
    check_curve(result, rank[first], p[first], y[first], [str(i + 1) for i in range(rank.max() + 1)])
    assert result.filled[0] == Bin(result.names[0], result.count[0], result.confidence[0], result.frequency[0])


@pytest.mark.parametrize(
    "function", [log_loss, lambda *a: top_calibration_errors(*a, (1, 2)), lambda *a: reliability_by_rank(*a, 2)]
)
def test_unusable_probabilities_are_errors(function):
    truth = csr_array(np.eye(3, dtype=bool))
    with pytest.raises(SettingsError, match="the probabilities are 3×2, the true labels 3×3"):
        function(csr_array(np.ones((3, 2))), truth)
    with pytest.raises(SettingsError, match="there are no probabilities"):
        function(csr_array((3, 3)), truth)
    for wrong in (-0.1, 1.1, math.nan):
        with pytest.raises(SettingsError, match=r"not in \[0, 1\]"):
            function(csr_array(np.full((3, 3), wrong)), truth)
