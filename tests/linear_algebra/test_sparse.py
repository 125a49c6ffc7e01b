"""Parallel products of sparse and dense matrices against NumPy's."""

import numpy as np
import pytest
import scipy.sparse as sp

from tests.grids import each_value, grid
from xmlgp.linear_algebra import sparse
from xmlgp.runtime import threads


@pytest.fixture(autouse=True, params=[1, 3])
def cores(request, monkeypatch):
    """Pretend that the machine has this many cores, and split matrices of any size."""
    monkeypatch.setattr(threads, "_all_cores", lambda: request.param)
    monkeypatch.setattr(sparse, "GRAIN", 1)


@grid(
    shape=[(7, 9, 5), (1, 30, 1), (0, 4, 3), (5, 0, 3), (5, 4, 0), (40, 3, 2)],
    density=[0, 0.3, 1],
    dtype=[np.float32, np.float64],
    index=[np.int32, np.int64],
)
def test_product_agrees_with_numpy(shape, density, dtype, index):
    random = np.random.default_rng(0)
    rows, inner, columns = shape
    left = sp.csr_array(random.normal(size=(rows, inner)) * (random.random((rows, inner)) < density)).astype(dtype)
    left.indices, left.indptr = left.indices.astype(index), left.indptr.astype(index)
    right = random.normal(size=(inner, columns)).astype(dtype)
    result = sparse.product(left, right)
    assert result.dtype == dtype
    np.testing.assert_allclose(result, left.toarray() @ right, rtol=1e-5, atol=1e-5 if dtype == np.float32 else 1e-12)
    out = np.full((rows, columns), np.nan, dtype)
    assert sparse.product(left, right, out) is out
    np.testing.assert_array_equal(out, result)


def test_mismatched_shapes_raise_an_error():
    with pytest.raises(ValueError, match=r"\(2, 3\) and \(4, 5\)"):
        sparse.product(sp.csr_array((2, 3)), np.ones((4, 5)))


def test_read_only_arrays_are_accepted():
    left = sp.csr_array(np.eye(3))
    right = np.arange(6.0).reshape(3, 2)
    for array in (left.data, left.indices, left.indptr, right):
        array.flags.writeable = False
    np.testing.assert_array_equal(sparse.product(left, right), right)


@each_value(count=[0, 1, 50], chunk=[1, 7, 100])
def test_column_sums_and_counts_are_those_of_numpy(monkeypatch, count, chunk):
    monkeypatch.setattr(sparse, "CHUNK", chunk)
    random = np.random.default_rng(0)
    columns, values = random.integers(0, 5, count, np.int32), random.normal(size=count).astype(np.float32)
    counts, sums = sparse.column_sums(columns, 6), sparse.column_sums(columns, 6, lambda part: values[part])
    assert (counts.dtype, sums.dtype) == (np.int64, np.float64)
    np.testing.assert_array_equal(counts, np.bincount(columns, minlength=6))
    np.testing.assert_allclose(sums, np.bincount(columns, values, 6), atol=1e-12)


@each_value(column_count=[9, 100], empty=[True, False])
def test_present_columns_are_those_with_elements(column_count, empty):
    random = np.random.default_rng(0)
    dense = np.zeros((6, 9), np.float32)
    if not empty:
        dense[:, [1, 4, 8]] = random.normal(size=(6, 3)) * (random.random((6, 3)) < 0.7)
    left = sp.csr_array(dense)
    matrix = sp.csr_array((left.data, left.indices, left.indptr), shape=(6, column_count))
    present, reduced = sparse.present_columns(matrix)
    np.testing.assert_array_equal(present, np.flatnonzero(dense.any(axis=0)))
    np.testing.assert_array_equal(reduced.toarray(), dense[:, present])


def test_rows_replace_equal_ones_in_their_places():
    rows = np.array([[1, 0, 2], [0, 0, 0], [1, 0, 2], [1, 0, 3], [0, 1, 2], [0, 1, 2]], np.float32)
    more = np.array([[0, 1, 2], [0, 0, 0], [1, 0, 3], [1, 0, 3], [1, 0, 0]], np.float32)
    found = sparse.rows_replaced(sp.csr_array(rows), sp.csr_array(more))
    # The second of two equal rows leaves; a second equal new one, the empty one and the new one follow.
    assert found.tolist() == [0, 1, 2, 8, 6, 7, 9, 10]
    assert sparse.rows_replaced(sp.csr_array(rows), sp.csr_array(more[:0])).tolist() == list(range(6))
