"""The counts that learning on needs."""

import numpy as np
import pytest
import scipy.sparse as sp

from tests.problems import small_features
from xmlgp.training.trained import STATISTICS, add_statistics, statistics_are_valid, statistics_of

N, D = 40, 25


def test_counts_are_those_of_points_with_a_feature_or_label():
    features, labels = small_features(N, D), sp.csr_array(small_features(N, 4).toarray() > 0)
    found = statistics_of(features, labels)
    assert tuple(found) == STATISTICS
    np.testing.assert_array_equal(found["statistics.features"], (features.toarray() != 0).sum(axis=0))
    np.testing.assert_array_equal(found["statistics.labels"], labels.toarray().sum(axis=0))
    assert {count.dtype for count in found.values()} == {np.dtype(np.int64)}
    assert statistics_are_valid(found, D, 4)
    before = {name: count[:3].copy() for name, count in found.items()}
    total = add_statistics(before, found)
    for name, count in found.items():
        np.testing.assert_array_equal(total[name], count + [*count[:3], *[0] * (len(count) - 3)])
        np.testing.assert_array_equal(before[name], count[:3])


@pytest.mark.parametrize("name", STATISTICS)
def test_untrusted_counts_are_checked(name):
    good = {"statistics.labels": np.arange(4), "statistics.features": np.arange(D)}
    assert statistics_are_valid(good, D, 4)
    assert statistics_are_valid({}, D, 4)
    assert not statistics_are_valid({other: value for other, value in good.items() if other != name}, D, 4)
    for bad in (
        good[name][:-1],
        good[name] - 1,
        good[name].astype(np.int32),
        good[name].astype(float),
        good[name][None],
    ):
        assert not statistics_are_valid(good | {name: bad}, D, 4)
