"""Evidence: what is gathered does not depend on blocks, the rules assign as predict does, and the sample has both."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from tests.report.problems import labels_of, random_problem, ranked
from xmlgp.data.features import Features
from xmlgp.errors import SettingsError
from xmlgp.metrics.probabilities import reliability_by_rank, reliability_curve
from xmlgp.prediction.assignment import AssignmentRule, highest_expected_f1
from xmlgp.prediction.scores_file import Scores
from xmlgp.reporting import evidence as module
from xmlgp.reporting.evidence import Evidence


def gathered(p, labels, blocks=1, k=None, **options):
    evidence = Evidence(labels.shape[1], **options)
    scores = ranked(p, k)
    texts = [f"text {i}" for i in range(len(p))]
    for rows in np.array_split(np.arange(len(p)), blocks):
        a, b = rows[0], rows[-1] + 1
        evidence.add(scores.rows(a, b), labels[a:b], Features(csr_array(p[a:b])), texts[a:b])
    return evidence


def numbers(sample):
    return [point.number for point in sample]


@pytest.mark.parametrize(("blocks", "pairs"), [(1, 1 << 20), (7, 1 << 20), (2, 30)])
def test_what_is_gathered_does_not_depend_on_blocks(monkeypatch, blocks, pairs):
    p, labels = random_problem(90, 12)
    whole = gathered(p, labels, k=11)
    monkeypatch.setattr(module, "PAIRS", pairs)
    found, scores = gathered(p, labels, blocks, 11), ranked(p, 11)
    assert (found.longest, found.point_count) == (11, 90)
    assert (found.labels != labels).nnz == 0
    # Without a rule, the expected F1 is highest.
    sizes, _ = highest_expected_f1(scores.table())
    for part, counts in ((found.top, np.full(90, 5)), (found.assigned, sizes)):
        for name in ("indptr", "labels", "scores"):
            np.testing.assert_array_equal(getattr(part, name), getattr(scores.first(counts), name))
    for curve, expected in (
        (found.reliability, reliability_curve(scores.matrix, labels)),
        (found.reliability_by_rank, reliability_by_rank(scores.matrix, labels, 10)),
    ):
        assert curve.names == expected.names
        np.testing.assert_allclose(curve.sums, expected.sums, rtol=1e-12)
    assert [(point.number, point.text) for point in found.sample] == [
        (point.number, point.text) for point in whole.sample
    ]


def test_points_with_lists_of_different_lengths():
    # The second point has no list at all, and neither has the last.
    scores = Scores(np.array([0, 2, 2, 3, 3]), np.array([1, 0, 2], np.int32), np.array([0.9, 0.4, 0.6]), 3)
    evidence = Evidence(3, sampled=8)
    evidence.add(scores, labels_of([{1}, {2}, {0}, {1}], 3))
    assert numbers(evidence.sample) == [0, 1, 2, 3]
    assert [point.right for point in evidence.sample] == [True, False, False, False]
    assert [len(point.shown.labels) for point in evidence.sample] == [2, 0, 1, 0]
    assert evidence.reliability.count.sum() == 3


@pytest.mark.parametrize(
    ("n_right", "n_wrong", "expected"), [(90, 90, (5, 5)), (3, 30, (3, 7)), (30, 0, (10, 0)), (2, 1, (2, 1))]
)
def test_half_of_a_sample_is_right_if_there_are_enough_of_both(n_right, n_wrong, expected):
    p, truth = np.tile([0.9, 0.1], (n_right + n_wrong, 1)), [{0}] * n_right + [{1}] * n_wrong
    sample = gathered(p, labels_of(truth, 2), sampled=10).sample
    assert ([point.right for point in sample].count(True), len(sample)) == (expected[0], sum(expected))
    assert numbers(sample) == sorted(numbers(sample))
    for point in sample:
        assert (point.right, point.labels) == (point.number < n_right, list(truth[point.number]))
        assert point.text == f"text {point.number}"
        np.testing.assert_array_equal(point.features.sparse.toarray()[0], p[point.number])


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
    with pytest.raises(SettingsError, match="scores of 1 points and 2 labels, but 1 points with 1 true labels"):
        Evidence(2).add(ranked([[0.9, 0.5]]), labels_of([{0}], 1))
