import math

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.sparse import csr_array
from sklearn.metrics import roc_auc_score

from tests.metrics.problems import listed, sparse, sparse_problems
from xmlgp.metrics.auc import auc_statistics, pooled_area
from xmlgp.metrics.intervals import intervals
from xmlgp.metrics.statistics import values
from xmlgp.runtime.errors import SettingsError


def reference(scores, truth):
    """The areas according to scikit-learn, for an array in which every entry has a score."""
    # A constant point has no area; scikit-learn would warn and return NaN.
    mixed_points = truth.any(axis=1) & ~truth.all(axis=1)
    of_points = [roc_auc_score(truth[i], scores[i]) for i in np.flatnonzero(mixed_points)]
    return {"AUC_micro": roc_auc_score(truth.ravel(), scores.ravel()), "AUC_instance": np.mean(of_points)}


def test_hand_worked_example():
    # Three labels. Labels 0 and 2 of point 0 are true, and label 1 of point 1, which lists only 0.9 for label 0.
    result = values(auc_statistics(sparse([{1: 0.5, 0: 0.5, 2: 0.2}, {0: 0.9}], 3), sparse([[2, 0], [1]], 3, bool)))
    # Point 0: 0.5 ties with 0.5, 0.2 loses. Point 1: unlisted loses against 0.9 and ties with unlisted.
    assert result["AUC_instance"] == pytest.approx((0.5 / 2 + 0.5 / 2) / 2)
    # Negatives are 0.5, 0.9 and unlisted: 0.5 beats one and a half, 0.2 beats one, unlisted beats a half.
    assert result["AUC_micro"] == pytest.approx((1.5 + 1 + 0.5) / 9)


#: Infinite scores are still above unlisted entries.
@settings(max_examples=20, deadline=None)
@given(sparse_problems([-math.inf, -1.5, -0.0, 0.0, 0.5, math.inf]))
def test_agrees_with_scikit_learn_where_the_area_is_defined(problem):
    scores, truth, n_labels = problem
    rank_of = {-math.inf: 1, -1.5: 2, 0.0: 3, 0.5: 4, math.inf: 5}
    filled = np.array([[rank_of[row[k]] if k in row else 0 for k in range(n_labels)] for row in scores])
    dense = np.array([[k in row for k in range(n_labels)] for row in truth])
    arguments = sparse(scores, n_labels), sparse(truth, n_labels, bool)
    if (dense.all(axis=1) | ~dense.any(axis=1)).all():
        with pytest.raises(SettingsError, match="is undefined"):
            auc_statistics(*arguments)
    else:
        before = [matrix.indices.tolist() for matrix in arguments]
        assert values(auc_statistics(*arguments)) == pytest.approx(reference(filled, dense), rel=1e-12)
        assert [matrix.indices.tolist() for matrix in arguments] == before


def test_a_huge_label_space_allocates_nothing():
    last = 2**31 - 2
    scores = sparse([{last: 1.0, 3: 0.5}, {3: 0.75}], last + 1)
    result = values(auc_statistics(scores, sparse([[last, 3], []], last + 1, bool)))
    # Label 3 is wrong and the last one right; one of the 2K − 2 negatives beats one of the two positives.
    assert result["AUC_instance"] == 1
    assert result["AUC_micro"] == pytest.approx(1 - 0.5 / (2 * (last + 1) - 2), rel=1e-15)


def test_points_change_the_areas_as_leaving_them_out_does():
    random = np.random.default_rng(4)
    truth = random.random((80, 7)) < 0.25
    # Scores have ties, and four in ten entries are unlisted, positives among them.
    scores = np.round(random.normal(truth, 1), 1)
    arguments = listed(scores, random.random((80, 7)) < 0.6), csr_array(truth)
    statistics = auc_statistics(*arguments)
    rows = [np.delete(np.arange(80), i) for i in range(80)]
    expected = [values(auc_statistics(*(matrix[kept] for matrix in arguments))) for kept in rows]
    for name, statistic in statistics.items():
        columns = np.asarray(csr_array(statistic.columns).todense())
        left_out = statistic.function(columns.sum(axis=0) - columns)
        exact = np.array([areas[name] for areas in expected])
        # To first order they agree; the second order is that of 1/n² of a label's twenty positives.
        assert np.ptp(exact) > 0.005
        np.testing.assert_allclose(left_out, exact, atol=0.03 * np.ptp(exact))


def test_interval_of_one_area_is_that_of_delong():
    random = np.random.default_rng(0)
    truth = random.random(900) < 0.3
    scores = np.round(random.normal(truth, 1.5), 1)
    wins = np.sign(scores[truth][:, None] - scores[~truth]) / 2 + 0.5
    error = math.sqrt(wins.mean(axis=1).var(ddof=1) / truth.sum() + wins.mean(axis=0).var(ddof=1) / (~truth).sum())
    statistic = pooled_area(listed(scores[:, None]), csr_array(truth[:, None]))
    assert statistic.value == pytest.approx(wins.mean(), rel=1e-14)
    low, high = intervals({"AUC": statistic})["AUC"]
    assert (high - low) / 2 == pytest.approx(1.96 * error, rel=0.05)


@pytest.mark.parametrize(
    ("scores", "truth", "message"),
    [
        ([{}, {}], [[0]], "the scores are 2×2, the true labels 1×2$"),
        ([{0: 1.0}] * 2, [[], []], "^every point has all labels, or none has any, so AUC is undefined$"),
        ([{0: 1.0}] * 2, [[0, 1], []], "^every point has all labels or none, so AUC_instance is undefined$"),
    ],
)
def test_what_has_no_area_is_refused(scores, truth, message):
    with pytest.raises(SettingsError, match=message):
        auc_statistics(sparse(scores, 2), sparse(truth, 2, bool))
