"""Assigned labels: those of a full ranking that the rule says, and of the highest expected F1 of all sets."""

import functools
import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import f1_score

from tests.grids import each_value
from tests.prediction.test_predictor import NEW as ALL
from tests.prediction.test_predictor import WEIGHTS, D, K, Linear
from xmlgp.data.dataset import Features
from xmlgp.prediction import assignment as module
from xmlgp.prediction.assignment import AssignmentRule, assign, highest_expected_f1
from xmlgp.prediction.scores_file import Scores
from xmlgp.runtime.errors import NumericalError, SettingsError

NEW = ALL[:20]
UTILITIES = NEW.sparse.toarray() @ WEIGHTS
ORDER = np.argsort(-UTILITIES, axis=1, kind="stable")
RANKED = np.take_along_axis(UTILITIES, ORDER, axis=1)


def probability(utilities):
    return 1 / (1 + np.exp2(8 - utilities))


class Probable(Linear):
    """The same with probabilities."""

    def scores(self, points, labels, output):
        utilities = super().scores(points, labels, "utility")
        return utilities if output == "utility" else probability(utilities)


@each_value(
    rule=[*map(AssignmentRule, [-100, 1, 9.5, 100]), AssignmentRule(), AssignmentRule(expected_f1=True)],
    limit=[None, 1, 2, 30, 1000],
    listed=[64, 2, 1],
    memory=[1 << 28, 0],
    with_std=[False, True],
)
def test_assigned_labels_are_the_first_of_a_full_ranking(monkeypatch, rule, limit, listed, memory, with_std):
    monkeypatch.setattr(module, "LISTED", listed)
    rule, scores = rule._replace(limit=limit), RANKED.astype(np.float32)
    if rule.expected_f1:
        # The default output of utilities makes no difference.
        scores = probability(scores)
        sizes, _ = highest_expected_f1(scores, limit)
    else:
        lowest = -np.inf if rule.threshold is None else rule.threshold
        sizes = np.minimum((lowest <= UTILITIES).sum(axis=1), limit or K)
    # Chunks of some points, or of each point.
    monkeypatch.setattr("xmlgp.prediction.predictor.MEMORY", memory)
    blocks = list(assign(Probable(), NEW, rule, None, with_std))
    assert all(block.N for block in blocks)
    assert memory or max(block.N for block in blocks) == 1
    found, kept = Scores.stack(blocks), np.arange(K) < sizes[:, None]
    np.testing.assert_array_equal(np.diff(found.indptr), sizes)
    np.testing.assert_array_equal(found.labels, ORDER[kept])
    np.testing.assert_array_equal(found.scores, scores[kept])
    assert (found.std is not None) == with_std
    if with_std:
        spread = NEW.sparse.toarray() @ np.abs(WEIGHTS)
        np.testing.assert_array_equal(found.std, np.take_along_axis(spread, ORDER, axis=1)[kept])
    assert list(assign(Linear(), NEW[:0], rule)) == []


@pytest.mark.parametrize(
    ("rule", "sizes"),
    [
        (AssignmentRule(0.5, None), [2, 0, 1]),
        (AssignmentRule(0.5, 1), [1, 0, 1]),
        (AssignmentRule(None, 3), [3, 0, 2]),
        (AssignmentRule(), [4, 0, 2]),
    ],
)
def test_the_first_labels_of_lists_of_any_length_are_assigned(rule, sizes):
    values = np.array([0.9, 0.5, 0.1, 0, 0.75, 0.25])
    scores = Scores(np.array([0, 4, 4, 6]), np.array([3, 1, 0, 2, 0, 3], np.int32), values, 4)
    assert rule.sizes(scores).tolist() == sizes
    table = np.array([[0.9, 0.5, 0.1, 0], [0, 0, 0, 0], [0.75, 0.25, 0, 0]])
    expected, _ = highest_expected_f1(table, 3)
    assert AssignmentRule(limit=3, expected_f1=True).sizes(scores).tolist() == expected.tolist()


@pytest.mark.parametrize("rule", [AssignmentRule(0.5), AssignmentRule(expected_f1=True)])
def test_a_score_that_is_not_finite_raises_instead_of_counting_as_low(rule):
    points = np.zeros((3, D), np.float32)
    points[2] = np.inf
    with np.errstate(invalid="ignore"), pytest.raises(NumericalError, match=r"for point 2 is not finite$"):
        list(assign(Probable(), Features(sp.csr_array(points)), rule, "probability"))


def expected_f1_of_all_sets(p):
    """Return the expected F1 of every set of labels, as a mapping of sets, by scikit-learn on every outcome."""
    outcomes = np.array(list(itertools.product([False, True], repeat=len(p))))
    weights = np.where(outcomes, p, 1 - p).prod(axis=1)
    values = {}
    for chosen in itertools.product([0, 1], repeat=len(p)):
        f1 = [f1_score(outcome, chosen, zero_division=0) for outcome in outcomes.astype(int)]
        values[tuple(np.flatnonzero(chosen))] = weights @ f1
    return values


# Even, steep, small, with certain and impossible labels, of a single label.
@pytest.mark.parametrize("p", [[0.97, 0.6, 0.1], [0.12, 0.1, 0.08], [1, 0.5, 0], [0, 0], [0.4]], ids=str)
def test_no_set_has_a_higher_expected_f1(p):
    values = expected_f1_of_all_sets(np.array(p))
    for limit in (None, *range(len(p) + 2)):
        (size,), (value,) = highest_expected_f1(np.array([p], float), limit)
        allowed = [found for chosen, found in values.items() if limit is None or len(chosen) <= limit]
        assert limit is None or size <= limit
        assert [value, values[tuple(range(size))]] == pytest.approx([max(allowed)] * 2, abs=1e-12)


def expected_f1_of_sizes(p):
    """Return the expected F1 of the first k labels for k = 0, 1, …, from sums over the numbers of true labels."""

    def counts(p):
        return functools.reduce(np.convolve, ([1 - one, one] for one in p), np.ones(1))

    values = [0]
    for k in range(1, len(p) + 1):
        first, others = counts(p[:k]), counts(p[k:])
        hits, rest = np.arange(len(first))[:, None], np.arange(len(others))
        values.append(first @ (2 * hits / (k + hits + rest)) @ others)
    return np.array(values)


@pytest.mark.parametrize(("K", "mean", "dtype"), [(50, 3, np.float64), (300, 40, np.float32), (300, 150, np.float64)])
def test_values_agree_with_sums_over_numbers_of_true_labels(K, mean, dtype):
    random = np.random.default_rng(K + mean)
    p = np.sort(random.beta(0.5, 0.5 * (K / mean - 1), size=(2, K)).astype(dtype), axis=1)[:, ::-1].copy()
    sizes, values = highest_expected_f1(p)
    for row, size, value in zip(p.astype(float), sizes, values, strict=True):
        expected = expected_f1_of_sizes(row)
        # Quadrature is not exact for hundreds of true labels.
        assert value == pytest.approx(expected.max(), abs=1e-7)
        assert expected[size] == pytest.approx(expected.max(), abs=1e-7)


def test_no_points_and_no_probabilities():
    sizes, values = highest_expected_f1(np.empty((0, 3)))
    assert sizes.shape == values.shape == (0,)
    for wrong in (-0.1, 1.5, np.nan):
        with pytest.raises(SettingsError, match=r"^a probability is not in \[0, 1\]$"):
            highest_expected_f1(np.array([[0.5, wrong]]))
