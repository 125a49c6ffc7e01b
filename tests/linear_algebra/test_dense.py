"""Parallel products of dense matrices against NumPy's."""

import numpy as np
import pytest

from tests.grids import each_value
from xmlgp.linear_algebra import dense
from xmlgp.runtime import threads

CLOSE = {"rtol": 1e-12, "atol": 1e-12}


@pytest.fixture(autouse=True, params=[1, 3])
def cores(request, monkeypatch):
    """Pretend that the machine has this many cores, and split matrices of any size."""
    monkeypatch.setattr(threads, "_all_cores", lambda: request.param)
    monkeypatch.setattr(dense, "GRAIN", 1)


def matrix(rows, columns, seed=0, order="C"):
    return np.array(np.random.default_rng(seed).normal(size=(rows, columns)), order=order)


@each_value(
    shape=[(5, 3, 4), (1, 7, 20), (20, 7, 1), (0, 3, 2), (3, 0, 2), (2, 3, 0), (9, 9, 9)],
    orders=["CC", "CF", "FC", "FF"],
)
def test_product_agrees_with_numpy(shape, orders):
    rows, inner, columns = shape
    left, right = matrix(rows, inner, 0, orders[0]), matrix(inner, columns, 1, orders[1])
    np.testing.assert_allclose(dense.product(left, right), left @ right, **CLOSE)


@each_value(size=[1, 3, 4, 5, 8, 9, 23], order=["C", "F"])
def test_gram_agrees_with_numpy(size, order):
    left = matrix(6, size, order=order)
    result = dense.gram(left)
    np.testing.assert_allclose(result, left.T @ left, **CLOSE)
    np.testing.assert_array_equal(result, result.T)


def test_products_keep_single_precision():
    left = matrix(6, 5).astype(np.float32)
    assert dense.product(left, left.T).dtype == dense.gram(left).dtype == np.float32


@each_value(dtype=["float32", "float64", "int64"], order=["C", "F"])
def test_all_finite_finds_nan_and_infinity(dtype, order):
    array = np.ones((3, 4), dtype, order=order)
    assert dense.all_finite(array)
    assert dense.all_finite(array[1, 1])
    assert dense.all_finite(array[:0])
    if dtype != "int64":
        for bad in (np.nan, np.inf, -np.inf):
            array[2, 1] = bad
            assert not dense.all_finite(array)
        array[0, 0] = np.inf
        assert not dense.all_finite(array)


@each_value(shape=[(40, 30), (5000, 500), (300, 9000)], order=["C", "F"])
def test_a_row_of_a_product_by_rows_is_the_same_among_few_and_many(shape, order):
    right = matrix(*shape, order=order).astype(np.float32)
    left = matrix(64, shape[0], seed=1).astype(np.float32)
    expected = dense.product_by_rows(left, right)
    np.testing.assert_allclose(expected, left.astype(float) @ right.astype(float), atol=1e-3)
    for count in (1, 2, 5):
        np.testing.assert_array_equal(dense.product_by_rows(left[:count], right), expected[:count])
