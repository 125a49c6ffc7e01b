"""Positive labels by point and by label against dense matrices."""

import numpy as np
import pytest
import scipy.sparse as sp

from xmlgp.bmlpl.positives import Positives


@pytest.mark.parametrize(("N", "K", "share"), [(1, 1, 1), (1, 1, 0), (7, 5, 0.4), (3, 8, 0.2), (4, 2, 0), (6, 3, 1)])
def test_values_by_point_and_by_label_agree_with_a_dense_matrix(N, K, share):
    random = np.random.default_rng(N * K)
    labels = random.random((N, K)) < share
    positives = Positives(sp.csr_array(labels))
    # A value of zero at a positive stays a stored element.
    values = random.normal(size=len(positives)) * (np.arange(len(positives)) != 0)
    dense = np.zeros((N, K))
    dense[labels] = values
    by_point, by_label = positives.by_point(values), positives.by_label(values)
    assert len(positives) == by_point.nnz == by_label.nnz == labels.sum()
    np.testing.assert_array_equal(by_point.toarray(), dense)
    np.testing.assert_array_equal(by_label.toarray(), dense.T)
    np.testing.assert_array_equal(np.diff(by_label.indptr), labels.sum(axis=0))
    np.testing.assert_array_equal(positives.frequencies(), labels.sum(axis=0))


def test_points_of_a_label_are_sorted_and_the_dtype_is_kept():
    labels = np.random.default_rng(0).random((40, 6)) < 0.5
    positives = Positives(sp.csr_array(labels))
    by_label = positives.by_label(np.ones(len(positives), np.float32))
    assert by_label.dtype == np.float32
    assert by_label.has_sorted_indices
    np.testing.assert_array_equal(by_label.indices, np.nonzero(labels.T)[1])
