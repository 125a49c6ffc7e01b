"""The features that labels have weights on, against lists."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.gp.reference import DETERMINISTIC, random_labels
from tests.problems import small_features
from xmlgp.models.mlgpf.label_weights import pattern as module
from xmlgp.models.mlgpf.label_weights.pattern import label_features

D, K = 11, 7


def lists(indptr, features):
    """Return the features of each label as a list."""
    return [features[start:stop].tolist() for start, stop in itertools.pairwise(indptr)]


@pytest.mark.parametrize("block", [1, 3, 100])
def test_label_has_the_features_of_its_points(monkeypatch, block):
    monkeypatch.setattr(module, "BLOCK", block)
    features, labels = small_features(30, D), random_labels(np.random.default_rng(0), 30, K, 0.1)
    features.data[::2] *= -1
    present, positives = features.toarray() != 0, labels.toarray()
    expected = [sorted({d for i in range(30) if positives[i, k] for d in range(D) if present[i, d]}) for k in range(K)]
    indptr, columns = label_features(features, labels)
    assert (indptr.dtype, columns.dtype) == (np.int64, np.int32)
    assert lists(indptr, columns) == expected


@pytest.mark.parametrize("shape", [(0, 3), (4, 0), (4, 3)])
def test_pattern_is_empty_without_positives(shape):
    points, labels = shape
    indptr, columns = label_features(small_features(points, D), sp.csr_array(shape, dtype=bool))
    np.testing.assert_array_equal(indptr, np.zeros(labels + 1))
    assert len(columns) == 0


# Small integers, so that sums are exact and often equal.
some_features = arrays(np.float32, (6, 5), elements=st.sampled_from([0, 0, 1, -1, 2]))


@DETERMINISTIC
@given(some_features, arrays(bool, (6, 4)), st.integers(0, 25))
def test_beyond_the_limit_labels_keep_the_features_of_largest_value(features, positives, limit):
    whole = lists(*label_features(sp.csr_array(features), sp.csr_array(positives)))
    kept = lists(*label_features(sp.csr_array(features), sp.csr_array(positives), limit))
    totals = positives.T.astype(float) @ np.abs(features)
    most = max([1, *(m for m in range(6) if sum(min(len(row), m) for row in whole) <= limit)])
    assert sum(map(len, kept)) <= max(limit, sum(map(bool, whole)))
    for k, row in enumerate(whole):
        # Of features with equal totals the first are kept.
        assert kept[k] == sorted(sorted(row, key=lambda d: (-totals[k, d], d))[:most])  # noqa: B023 -- called immediately
