"""Evidence: what is gathered does not depend on blocks, the rules assign as predict does, and the sample has both."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from tests.report.problems import labels_of, random_problem, ranked
from xmlgp.errors import SettingsError
from xmlgp.metrics.probabilities import reliability_by_rank, reliability_curve
from xmlgp.prediction.assignment import AssignmentRule
from xmlgp.prediction.expected_f1 import highest_expected_f1
from xmlgp.prediction.scores_file import Scores
from xmlgp.reporting import evidence as module
from xmlgp.reporting.evidence import Evidence


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
    assert numbers(left.sample) == numbers(right.sample)
    assert [point.text for point in left.sample] == [point.text for point in right.sample]
    same_curve(left.reliability, right.reliability)
    same_curve(left.reliability_by_rank, right.reliability_by_rank)


def same_curve(left, right):
    assert left.names == right.names
    np.testing.assert_allclose(left.sums, right.sums, rtol=1e-12)


def numbers(sample):
    return [point.number for point in sample]


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
    same_curve(evidence.reliability, reliability_curve(matrix, labels))
    same_curve(evidence.reliability_by_rank, reliability_by_rank(matrix, labels, 10))
    assert evidence.longest == 20


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
    assert numbers(evidence.sample) == [0, 1, 2, 3]
    assert [point.right for point in evidence.sample] == [True, False, False, False]
    assert [len(point.shown.labels) for point in evidence.sample] == [2, 0, 1, 0]
    assert evidence.reliability.count.sum() == 3


def test_the_sample_is_half_right_and_half_wrong_if_there_are_enough_of_both():
    p, labels = random_problem(200, 9)
    sample = gathered(p, labels, sampled=20).sample
    assert [point.right for point in sample].count(True) == 10
    assert numbers(sample) == sorted(numbers(sample))
    first, truth = p.argmax(axis=1), labels.toarray()
    for point in sample:
        assert truth[point.number, first[point.number]] == point.right
        assert point.text == f"text {point.number}"
        np.testing.assert_array_equal(point.features.toarray()[0], p[point.number])
        assert point.labels == np.flatnonzero(truth[point.number]).tolist() != []


@pytest.mark.parametrize(("n_right", "n_wrong", "expected"), [(3, 30, (3, 7)), (30, 0, (10, 0)), (2, 1, (2, 1))])
def test_a_sample_of_what_there_is(n_right, n_wrong, expected):
    p = np.tile([0.9, 0.1], (n_right + n_wrong, 1))
    labels = labels_of([{0}] * n_right + [{1}] * n_wrong, 2)
    right = [point.right for point in gathered(p, labels, sampled=10).sample]
    assert (right.count(True), right.count(False)) == expected


def test_another_seed_gives_another_sample():
    p, labels = random_problem(200, 9)
    samples = [numbers(gathered(p, labels, seed=seed).sample) for seed in (0, 0, 1)]
    assert samples[0] == samples[1] != samples[2]


def test_five_to_ten_labels_are_shown():
    p, labels = np.tile(np.linspace(1, 0, 15), (2, 1)), labels_of([{0}, {0}], 15)
    for limit, shown in (2, 5), (7, 7), (12, 10):
        sample = gathered(p, labels, rule=AssignmentRule(None, limit)).sample
        assert [len(point.shown.labels) for point in sample] == [shown, shown]


@pytest.mark.parametrize("value", [1.5, np.nan])
def test_scores_that_are_no_probabilities_or_of_other_labels(value):
    with pytest.raises(SettingsError, match=r"a probability is not in \[0, 1\]"):
        Evidence(2, AssignmentRule(0.5)).add(ranked([[value, 0.5]]), labels_of([{0}], 2))
    with pytest.raises(SettingsError, match="scores of 1 points and 2 labels, but 1 points with 3 true labels"):
        Evidence(2).add(ranked([[0.9, 0.5]]), labels_of([{0}], 3))
