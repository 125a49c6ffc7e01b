"""Tuned thresholds and limits, against every threshold with every limit measured by scikit-learn."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.metrics import f1_score

from xmlgp.errors import NumericalError
from xmlgp.prediction.assignment import AssignmentRule
from xmlgp.prediction.scores_file import Scores
from xmlgp.prediction.tuning import METRICS, Tuned, best_rule


def problem(seed, N=15, K=6, longest=4, values=8):
    """Return the best labels of each point, with many equal scores, the matrix of these, and true labels, N×K."""
    random = np.random.default_rng(seed)
    scores = (random.integers(1, values + 1, (N, K)) / values).astype(np.float32)
    truth = random.random((N, K)) < scores**2
    truth[:2], truth[:, 0] = False, False
    labels = np.argsort(-scores, axis=1, kind="stable")[:, :longest].astype(np.int32)
    best = np.take_along_axis(scores, labels, axis=1)
    return Scores.from_top(labels, best, K), best, truth


@pytest.mark.parametrize(("metric", "seed"), [*zip(METRICS, range(3), strict=True)])
def test_no_threshold_with_any_limit_is_better(metric, seed):
    scores, best, truth = problem(seed)

    def assigned(rule):
        kept = (best >= rule.threshold) & (np.arange(best.shape[1]) < rule.limit)
        return csr_array((kept.ravel(), scores.labels, scores.indptr), truth.shape).toarray()

    def measure(rule):
        found = assigned(rule)
        if metric == "f1-micro":
            return f1_score(truth, found, average="micro")
        if metric == "f1-macro":
            return f1_score(truth, found, average="macro", zero_division=np.nan)
        some = truth.any(axis=1)
        return f1_score(truth[some], found[some], average="samples", zero_division=0)

    threshold, limit, value = best_rule(scores, csr_array(truth), metric)
    rule = AssignmentRule(threshold, limit)
    assert value == pytest.approx(measure(rule))
    others = [AssignmentRule(threshold, limit) for limit in range(1, 5) for threshold in np.unique(best)]
    values = {other: measure(other) for other in others}
    assert value == pytest.approx(max(values.values()))
    # Of equally good pairs, the largest limit and then the highest threshold.
    good = [other for other, found in values.items() if found > value - 1e-12]
    expected = max(good, key=lambda other: (other.limit, other.threshold))
    assert rule.limit == expected.limit
    np.testing.assert_array_equal(assigned(rule), assigned(expected))
    # A rounding error of a score makes no difference.
    assert rule.threshold == best.min() or np.abs(best - rule.threshold).min() > 0.01


def test_a_score_that_is_not_finite_is_refused():
    scores, *_, truth = problem(0)
    scores.scores[5] = np.nan
    with pytest.raises(NumericalError, match=r"for point 1 is not finite$"):
        best_rule(scores, csr_array(truth), "f1-micro")


TUNED = Tuned("f1-micro", "probability", 0.25, 3, 0.5, 100)


def test_a_stored_rule_is_checked():
    entry = TUNED._asdict()
    assert Tuned.from_untrusted(entry) == TUNED
    assert TUNED.rule == AssignmentRule(0.25, 3)
    assert str(TUNED) == "probability at least 0.25, at most 3 labels"
    assert str(TUNED._replace(limit=1, output="utility")) == "utility at least 0.25, at most 1 label"
    for name, values in {
        "metric": [None, "f1", ["f1-micro"], {}],
        "output": [None, "score", ["probability"]],
        "threshold": [None, "0.5", np.nan, np.inf, True, -0.1, 1.1],
        "value": [None, "0.5", np.inf, 10**400],
        "limit": [None, 0, 2.0, True],
        "points": [None, 0, True],
    }.items():
        for value in values:
            assert Tuned.from_untrusted(entry | {name: value}) is None, (name, value)
        assert Tuned.from_untrusted({key: entry[key] for key in entry if key != name}) is None
    large = entry | {"output": "utility", "threshold": -(10**30), "limit": 10**30}
    assert Tuned.from_untrusted(large).rule == AssignmentRule(-(10**30), 10**30)
    for wrong in (None, [], 3, "x", entry | {"more": 1}):
        assert Tuned.from_untrusted(wrong) is None
