"""Confusions: counts by hand, and the same counts whatever is counted at a time."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
from scipy.sparse import csr_array

from tests.report.problems import labels_of
from xmlgp.reporting import confusions as module
from xmlgp.reporting.confusions import most_frequent_confusions


def test_three_points():
    assigned = labels_of([{0, 3}, {3}, {1, 2}], 4)
    true = labels_of([{0, 1}, {1}, {1, 2}], 4)
    found = most_frequent_confusions(assigned, true)
    # Two points lack label 1 and got label 3.
    assert found.tolist() == [[1], [3], [2], [2]]


def test_no_confusions():
    found = most_frequent_confusions(labels_of([{0}, set()], 2), labels_of([{0}, {1}], 2))
    assert found.tolist() == [[], [], [], []]


@pytest.mark.parametrize("pairs", [1, 5, 1000])
def test_counts_do_not_depend_on_what_is_counted_at_a_time(monkeypatch, pairs):
    monkeypatch.setattr(module, "PAIRS", pairs)
    random = np.random.default_rng(3)
    assigned, true = (random.random((50, 9)) < share for share in (0.3, 0.4))
    counts = Counter()
    for given, of_point in zip(assigned, true, strict=True):
        counts.update(product(np.flatnonzero(of_point & ~given), np.flatnonzero(given & ~of_point)))
    expected = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:7]
    found = most_frequent_confusions(csr_array(assigned), csr_array(true), most=7)
    missed, given, count, misses = found.tolist()
    assert list(zip(zip(missed, given, strict=True), count, strict=True)) == expected
    assert misses == (true & ~assigned).sum(axis=0)[missed].tolist()
