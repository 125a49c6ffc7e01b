"""Evidence: what is gathered does not depend on blocks, the rules assign as predict does, and the sample has both."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from tests.report.problems import labels_of, random_problem, ranked
from xmlgp.errors import SettingsError
from xmlgp.metrics.calibration import reliability_by_rank, reliability_curve
from xmlgp.prediction.assignment import AssignmentRule
from xmlgp.prediction.expected_f1 import highest_expected_f1
from xmlgp.prediction.scores_file import Scores
from xmlgp.report import evidence as module
from xmlgp.report.evidence import Evidence


def gathered(p, labels, blocks=1, k=None, **options):
    evidence = Evidence(labels.shape[1], **options)
    scores = ranked(p, k)
    texts = [f"text {i}" for i in range(len(p))]
    for rows in np.array_split(np.arange(len(p)), blocks):
        a, b = rows[0], rows[-1] + 1
        evidence.add(scores.rows(a, b), labels[a:b], csr_array(p[a:b]), texts[a:b])
    return evidence


def same(left, right):
    for name in ("top", "assigned"):
        for part in ("indptr", "labels", "scores"):
            np.testing.assert_array_equal(getattr(getattr(left, name), part), getattr(getattr(right, name), part))
    assert left.labels.shape == right.labels.shape
    assert (left.labels != right.labels).nnz == 0
    assert left.sample.points.tolist() == right.sample.points.tolist()
    assert left.sample.texts == right.sample.texts
    for name in ("reliability", "reliability_by_rank"):
        for a, b in zip(getattr(left, name), getattr(right, name), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)


def test_blocks_and_pieces_make_no_difference(monkeypatch):
    p, labels = random_problem(90, 12)
    whole = gathered(p, labels)
    same(whole, gathered(p, labels, blocks=7))
    monkeypatch.setattr(module, "PAIRS", 30)
    same(whole, gathered(p, labels, blocks=2))


def test_reliability_is_that_of_all_listed_labels():
    p, labels = random_problem(60, 30)
    evidence = gathered(p, labels, blocks=3, k=20)
    matrix = ranked(p, 20).matrix
    for found, expected in (
        (evidence.reliability, reliability_curve(matrix, labels)),
        (evidence.reliability_by_rank, reliability_by_rank(matrix, labels, 10)),
    ):
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)
    assert evidence.longest == 20


@pytest.mark.parametrize(
    ("rule", "sizes"),
    [
        (AssignmentRule(0.5, None), [2, 0, 1]),
        (AssignmentRule(0.5, 1), [1, 0, 1]),
        (AssignmentRule(None, 3), [3, 3, 3]),
    ],
)
def test_thresholds_and_limits(rule, sizes):
    p = np.array([[0.9, 0.5, 0.1, 0.0], [0.1, 0.2, 0.3, 0.4], [0.0, 0.0, 0.75, 0.25]])
    evidence = gathered(p, labels_of([{0}, {1}, {2}], 4), rule=rule)
    assert np.diff(evidence.assigned.indptr).tolist() == sizes


def test_without_a_rule_the_expected_f1_is_highest():
    p, labels = random_problem(40, 8)
    evidence = gathered(p, labels)
    expected, _ = highest_expected_f1(-np.sort(-p, axis=1))
    np.testing.assert_array_equal(np.diff(evidence.assigned.indptr), expected)


def test_points_with_lists_of_different_lengths():
    # The second point has no list at all, and neither has the last.
    scores = Scores(np.array([0, 2, 2, 3, 3]), np.array([1, 0, 2], np.int32), np.array([0.9, 0.4, 0.6]), 3)
    evidence = Evidence(3, sampled=8)
    evidence.add(scores, labels_of([{1}, {2}, {0}, {1}], 3))
    assert evidence.sample.points.tolist() == [0, 1, 2, 3]
    assert evidence.sample.right.tolist() == [True, False, False, False]
    assert np.diff(evidence.sample.scores.indptr).tolist() == [2, 0, 1, 0]
    assert evidence.reliability.count.sum() == 3


def test_the_sample_is_half_right_and_half_wrong_if_there_are_enough_of_both():
    p, labels = random_problem(200, 9)
    sample = gathered(p, labels, sampled=20).sample
    assert sample.right.tolist().count(True) == 10
    assert (np.diff(sample.points) > 0).all()
    first = p.argmax(axis=1)
    assert [labels[[i]].toarray()[0, first[i]] for i in sample.points] == sample.right.tolist()
    assert sample.texts == [f"text {i}" for i in sample.points]
    np.testing.assert_array_equal(sample.features.toarray(), p[sample.points])
    assert np.all(np.diff(sample.labels.indptr) > 0)


@pytest.mark.parametrize(("n_right", "n_wrong", "expected"), [(3, 30, (3, 7)), (30, 0, (10, 0)), (2, 1, (2, 1))])
def test_a_sample_of_what_there_is(n_right, n_wrong, expected):
    p = np.tile([0.9, 0.1], (n_right + n_wrong, 1))
    labels = labels_of([{0}] * n_right + [{1}] * n_wrong, 2)
    right = gathered(p, labels, sampled=10).sample.right
    assert (np.count_nonzero(right), np.count_nonzero(~right)) == expected


def test_another_seed_gives_another_sample():
    p, labels = random_problem(200, 9)
    samples = [gathered(p, labels, seed=seed).sample.points.tolist() for seed in (0, 0, 1)]
    assert samples[0] == samples[1] != samples[2]


def test_five_to_ten_labels_are_shown():
    p = np.tile(np.linspace(1, 0, 15), (2, 1))
    sample = gathered(p, labels_of([{0}, {0}], 15), rule=AssignmentRule(None, 2)).sample
    assert np.diff(sample.scores.indptr).tolist() == [5, 5]
    sample = gathered(p, labels_of([{0}, {0}], 15), rule=AssignmentRule(None, 12)).sample
    assert np.diff(sample.scores.indptr).tolist() == [10, 10]


@pytest.mark.parametrize("value", [1.5, -0.5, np.nan])
def test_scores_that_are_no_probabilities(value):
    with pytest.raises(SettingsError, match=r"a probability is not in \[0, 1\]"):
        Evidence(2, AssignmentRule(0.5)).add(ranked([[value, 0.5]]), labels_of([{0}], 2))


def test_labels_of_another_shape():
    with pytest.raises(SettingsError, match="scores of 1 points and 2 labels, but 1 points with 3 true labels"):
        Evidence(2).add(ranked([[0.9, 0.5]]), labels_of([{0}], 3))
