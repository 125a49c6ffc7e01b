"""Recall, coverage and macro measures agree with scikit-learn and with what napkinXC and xCOLUMNs compute."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.metrics import precision_recall_fscore_support, recall_score

from tests.metrics.problems import sparse
from xmlgp.metrics.intervals import intervals
from xmlgp.metrics.macro import macro_statistics
from xmlgp.runtime.errors import SettingsError

#: True labels of 12 points, of which the last two have none, and the first five labels of each; no point has label 8.
TRUE = [[3], [0], [0, 5], [1, 2], [0], [0, 1, 6], [1], [0, 1, 3], [2, 4], [1, 7], [], []]
RANKED = [
    [4, 6, 5, 7, 3], [2, 5, 7, 8, 4], [5, 4, 6, 0, 8], [2, 6, 4, 0, 8], [0, 1, 7, 3, 8], [1, 3, 6, 7, 4],
    [0, 7, 6, 8, 1], [1, 7, 0, 6, 2], [2, 4, 0, 6, 5], [1, 5, 8, 7, 0], [8, 6, 4, 2, 3], [2, 4, 6, 1, 0],
]  # fmt: skip

#: For k = 1, 3 and 5: recall by napkinXC 0.7.2 (`recall_at_k`), the others by xCOLUMNs 0.0.2 (`coverage`,
#: `macro_precision`, `macro_recall`, `macro_f1_score` with epsilon=1e-12), which divides by all nine labels.
REFERENCE = {
    "recall": (30.5556, 40.2778, 65.2778),
    "coverage": (44.4444, 66.6667, 88.8889),
    "macro-precision": (33.3333, 25.6614, 24.4885),
    "macro-recall": (31.1111, 55.5556, 76.6667),
    "macro-F1": (30.0265, 30.1499, 33.6411),
}


def values(scores: csr_array, labels: csr_array, ks: tuple[int, ...]) -> dict[str, float]:
    return {name: statistic.value for name, statistic in macro_statistics(scores, labels, ks).items()}


def problem() -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return scores, and true labels of 60 points and 12 labels; some of both have none."""
    random = np.random.default_rng(0)
    truth = random.random((60, 12)) < 0.4 / np.arange(1, 13)
    truth[:, 5] = False
    scores = random.random((60, 12)) + 0.3 * truth
    assert not truth.any(axis=1).all()
    return scores, truth


def test_measures_are_those_of_napkinxc_and_xcolumns() -> None:
    scores = sparse([{label: 1 / rank for rank, label in enumerate(row, 1)} for row in RANKED], 9)
    measures = values(scores, sparse(TRUE, 9, bool), (1, 3, 5))
    for name, reference in REFERENCE.items():
        factor = 1 if name == "recall" else 9 / 8
        expected = [factor * value for value in reference]
        assert [measures[f"{name}@{k}"] for k in (1, 3, 5)] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("k", [1, 4, 12, 99])
def test_measures_are_those_of_scikit_learn(k: int) -> None:
    scores, truth = problem()
    measures = values(csr_array(scores), csr_array(truth), (k,))
    present = truth.any(axis=0)
    listed = np.argsort(np.argsort(-scores, axis=1), axis=1) < k
    columns = truth[:, present], listed[:, present]
    expected = precision_recall_fscore_support(*columns, average="macro", zero_division=0)[:3]
    names = [f"macro-{name}@{k}" for name in ("precision", "recall", "F1")]
    assert [measures[name] / 100 for name in names] == pytest.approx(expected)
    hits = truth & listed
    assert measures[f"recall@{k}"] == pytest.approx(
        100 * recall_score(truth, listed, average="samples", zero_division=0)
    )
    assert measures[f"coverage@{k}"] == pytest.approx(100 * hits.any(axis=0)[present].mean())


def test_statistics_of_some_points_are_the_measures_of_these_points() -> None:
    scores, truth = problem()
    chosen = np.arange(60) % 3 > 0
    expected = values(csr_array(scores[chosen]), csr_array(truth[chosen]), (1, 3))
    for name, statistic in macro_statistics(csr_array(scores), csr_array(truth), (1, 3)).items():
        columns = statistic.columns.toarray() if isinstance(statistic.columns, csr_array) else statistic.columns
        sums = np.array([columns[chosen].sum(axis=0), columns.sum(axis=0)])
        assert statistic.function(sums) == pytest.approx([expected[name], statistic.value])
        low, high = intervals({name: statistic})[name]
        assert low <= statistic.value <= high


def test_a_huge_k_or_label_space_allocates_nothing() -> None:
    last = 2**31 - 2
    measures = values(sparse([{last: 1.0, 3: 0.5}], last + 1), sparse([[last, 3]], last + 1, bool), (1, 10**12))
    assert (measures["coverage@1"], measures[f"coverage@{10**12}"]) == (50, 100)


def test_scores_without_a_true_label_are_worth_nothing() -> None:
    for scores in ({}, {1: 1.0}):
        measures = values(sparse([scores, {}], 3), sparse([[0], [2]], 3, bool), (1, 3))
        assert set(measures.values()) == {0}


def test_what_cannot_be_evaluated_is_refused() -> None:
    truth = csr_array(np.eye(3, dtype=bool))
    with pytest.raises(SettingsError, match="the scores are 3×2, the true labels 3×3"):
        macro_statistics(truth[:, :2], truth)
    with pytest.raises(SettingsError, match=r"^no point has a true label, so there is nothing to evaluate$"):
        macro_statistics(truth, csr_array((3, 3), dtype=bool))
