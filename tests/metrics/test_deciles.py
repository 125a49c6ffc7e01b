"""Tenths of labels by their training points, and what they add to measures."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from xmlgp.metrics.deciles import decile_statistics, frequency_deciles
from xmlgp.metrics.ranking import evaluate_ranking


def test_tenths_have_equal_shares_of_the_training_pairs() -> None:
    counts = np.random.default_rng(0).permutation(np.r_[np.arange(1, 400), 0, 0])
    deciles = frequency_deciles(counts)
    shares = np.bincount(deciles, counts) / counts.sum()
    assert shares == pytest.approx(np.full(10, 0.1), abs=0.006)
    assert (np.diff(deciles[np.argsort(-counts, kind="stable")]) >= 0).all()
    assert set(deciles[counts == 0]) == {9}


def test_a_label_with_many_pairs_leaves_tenths_empty() -> None:
    # Of 100 pairs, the middles are 30, 75 and 95.
    assert frequency_deciles(np.array([10, 60, 30])).tolist() == [9, 3, 7]
    assert frequency_deciles(np.zeros(2, int)).tolist() == [0, 0]


def test_measures_of_tenths_are_those_of_their_labels() -> None:
    random = np.random.default_rng(0)
    counts = np.arange(40)
    truth = random.random((50, 40)) < 0.06
    truth[:, counts == 0] = False
    scores = random.random((50, 40)) + 0.3 * truth
    labelled = truth.any(axis=1)
    assert not labelled.all()
    hits = truth & (np.argsort(np.argsort(-scores, axis=1), axis=1) < 4)
    deciles = frequency_deciles(counts)
    rows = decile_statistics(csr_array(scores), csr_array(truth), 4, counts)
    assert [row.decile for row in rows] == list(range(1, 11))
    for row in rows:
        inside = deciles == row.decile - 1
        assert (row.labels, row.true) == (inside.sum(), truth[:, inside].sum())
        low, high = (int(count) for count in row.training_points.split("-"))
        assert (low, high) == (counts[inside].min(), counts[inside].max())
        assert row.statistics["P@4"].value == pytest.approx(100 * hits[:, inside].sum() / (4 * labelled.sum()))
        assert row.statistics["recall@4"].value == pytest.approx(100 * hits[:, inside].sum() / truth[:, inside].sum())
    total = evaluate_ranking(csr_array(scores), csr_array(truth), (4,))["P@4"]
    assert sum(row.statistics["P@4"].value for row in rows) == pytest.approx(total)


def test_a_tenth_without_true_labels_has_no_recall() -> None:
    scores = csr_array(np.array([[0.9, 0.5]]))
    rows = decile_statistics(scores, csr_array(np.array([[True, False]])), 1, np.array([5, 5]))
    assert [list(row.statistics) for row in rows] == [["P@1", "recall@1"], ["P@1"]]
    assert rows[0].training_points == "5"
