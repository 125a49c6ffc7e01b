"""LAPACK routines called without the interpreter lock, against NumPy's."""

import numpy as np
import pytest

from tests.grids import each_value
from xmlgp.linear_algebra import lapack


def positive(size, dtype):
    root = np.random.default_rng(size).normal(size=(size, 2 * size + 1))
    return (root @ root.T / (2 * size + 1) + 0.1 * np.eye(size)).astype(dtype)


@each_value(size=[1, 2, 7, 130], dtype=[np.float32, np.float64])
def test_factor_and_inverse_agree_with_numpy(size, dtype):
    tolerance = 1e-4 if dtype == np.float32 else 1e-11
    matrix = positive(size, dtype)
    work = matrix.copy()
    # Elements above the diagonal are neither read nor written.
    work[np.triu_indices(size, 1)] = np.nan
    assert lapack.factorise_lower(work)
    np.testing.assert_allclose(np.tril(work), np.linalg.cholesky(matrix), rtol=tolerance, atol=tolerance)
    lapack.invert_factorised(work)
    assert np.isnan(work[np.triu_indices(size, 1)]).all()
    lapack.mirror_lower(work)
    np.testing.assert_allclose(work @ matrix, np.eye(size), atol=100 * tolerance)
    np.testing.assert_array_equal(work, work.T)


@each_value(size=[1, 2, 7, 130], dtype=[np.float32, np.float64])
def test_inverse_of_a_triangular_matrix_agrees_with_numpy(size, dtype):
    tolerance = 1e-4 if dtype == np.float32 else 1e-11
    factor = np.linalg.cholesky(positive(size, dtype).astype(float))
    work = factor.astype(dtype)
    # Elements above the diagonal are neither read nor written.
    work[np.triu_indices(size, 1)] = np.nan
    lapack.invert_lower(work)
    assert np.isnan(work[np.triu_indices(size, 1)]).all()
    np.testing.assert_allclose(np.tril(work), np.linalg.inv(factor), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("invalid", [-1.0, np.nan, np.inf])
def test_matrix_without_factor_is_reported(invalid):
    matrix = positive(5, np.float64)
    matrix[3, 3] = invalid
    assert not lapack.factorise_lower(matrix)


@each_value(size=[1, 2, 7, 130], dtype=[np.float32, np.float64])
def test_solutions_and_samples_agree_with_numpy(size, dtype):
    tolerance = 1e-3 if dtype == np.float32 else 1e-10
    matrix, random = positive(size, dtype), np.random.default_rng(0)
    right, noise = random.normal(size=(2, size))
    factor = np.linalg.cholesky(matrix.astype(float))
    work = matrix.copy()
    work[np.triu_indices(size, 1)] = np.nan
    assert lapack.factorise_lower(work)
    factor_before, right_before = work.copy(), right.copy()
    found = lapack.solve_factorised(work, right)
    assert found.dtype == dtype
    expected = np.linalg.solve(matrix.astype(float), right)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
    sample = lapack.solve_factorised(work, right, noise)
    np.testing.assert_allclose(sample, expected + np.linalg.solve(factor.T, noise), rtol=tolerance, atol=tolerance)
    # The factor and the right-hand side are unchanged.
    np.testing.assert_array_equal(work, factor_before)
    np.testing.assert_array_equal(right, right_before)
