"""A data set in memory."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from xmlgp.data.dataset import Dataset, Features, as_csr, stack


@pytest.fixture
def dataset():
    X = np.arange(12, dtype=np.float32).reshape(4, 3)
    return Dataset(Features(csr_array(X)), csr_array(np.eye(4, 2, dtype=bool)))


def test_features_and_labels_must_have_the_same_points(dataset):
    with pytest.raises(ValueError, match="4 points, but labels of 3"):
        Dataset(dataset.features, dataset.labels[:3])


@pytest.mark.parametrize("selection", [slice(1, 3), [2, 0], np.array([True, False, False, True])])
def test_rows_selects_points(dataset, selection):
    part = dataset.rows(selection)
    assert np.array_equal(part.features.sparse.toarray(), dataset.features.sparse.toarray()[selection])
    assert np.array_equal(part.labels.toarray(), dataset.labels.toarray()[selection])
    assert part.features.sparse.dtype == np.float32
    assert part.labels.dtype == bool


def test_stack_is_the_inverse_of_rows(dataset):
    whole = stack([dataset.rows(slice(0, 1)), dataset.rows(slice(1, 1)), dataset.rows(slice(1, 4))])
    assert np.array_equal(whole.features.sparse.toarray(), dataset.features.sparse.toarray())
    assert np.array_equal(whole.labels.toarray(), dataset.labels.toarray())
    assert isinstance(whole.features.sparse, csr_array)
    assert whole.features.sparse.indices.dtype == np.int32
    assert whole.labels.dtype == bool


def test_groups_follow_their_points(dataset):
    grouped = replace(dataset, groups=np.array([7, 0, 7, 5]))
    assert grouped.rows([3, 0]).groups.tolist() == [5, 7]
    assert stack([dataset, grouped.rows(slice(2))]).groups.tolist() == [0, 0, 0, 0, 7, 0]
    assert stack([dataset, grouped.rows([1])]).groups is None
    others = [replace(dataset, groups=np.array(groups)) for groups in ([7, 0, 7, 7], [7, 0, 7, 5])]
    assert [other.fingerprint == grouped.fingerprint for other in (dataset, *others)] == [False, False, True]


def test_as_csr_does_not_copy_large_arrays():
    data, indices = np.array([1, 2], np.float32), np.array([4, 0], np.int32)
    matrix = as_csr(data, indices, np.array([0, 1, 2]), 5)
    assert np.shares_memory(matrix.data, data)
    assert np.shares_memory(matrix.indices, indices)
    assert matrix.indptr.dtype == np.int32
    assert matrix.toarray().tolist() == [[0, 0, 0, 0, 1], [2, 0, 0, 0, 0]]
    assert as_csr(None, indices, np.array([0, 1, 2]), 5).toarray()[1].tolist() == [True, False, False, False, False]
