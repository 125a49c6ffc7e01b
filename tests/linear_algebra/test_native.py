"""LAPACK's routines by their addresses against NumPy's."""

import numpy as np
import pytest

from xmlgp.linear_algebra import native


def positive(size, dtype):
    root = np.random.default_rng(size).normal(size=(size, 2 * size + 1))
    return (root @ root.T / (2 * size + 1) + 0.1 * np.eye(size)).astype(dtype)


@pytest.mark.parametrize("size", [1, 2, 7, 130])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_factor_and_inverse(size, dtype):
    tolerance = 1e-4 if dtype == np.float32 else 1e-11
    matrix = positive(size, dtype)
    work = matrix.copy()
    # What is above the diagonal is neither read nor written.
    work[np.triu_indices(size, 1)] = np.nan
    assert native.factorise_lower(work)
    np.testing.assert_allclose(np.tril(work), np.linalg.cholesky(matrix), rtol=tolerance, atol=tolerance)
    native.invert_factorised(work)
    assert np.isnan(work[np.triu_indices(size, 1)]).all()
    native.mirror_lower(work)
    np.testing.assert_allclose(work @ matrix, np.eye(size), atol=100 * tolerance)
    np.testing.assert_array_equal(work, work.T)


@pytest.mark.parametrize("spoiled", [-1.0, np.nan, np.inf])
def test_what_has_no_factor_is_told(spoiled):
    matrix = positive(5, np.float64)
    matrix[3, 3] = spoiled
    assert not native.factorise_lower(matrix)


@pytest.mark.parametrize("size", [1, 2, 7, 130])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_solutions_and_draws(size, dtype):
    tolerance = 1e-3 if dtype == np.float32 else 1e-10
    matrix, random = positive(size, dtype), np.random.default_rng(0)
    right, noise = random.normal(size=(2, size))
    factor = np.linalg.cholesky(matrix.astype(float))
    work = matrix.copy()
    work[np.triu_indices(size, 1)] = np.nan
    assert native.factorise_lower(work)
    kept, given = work.copy(), right.copy()
    found = native.solve_factorised(work, right)
    assert found.dtype == dtype
    expected = np.linalg.solve(matrix.astype(float), right)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
    drawn = native.solve_factorised(work, right, noise)
    np.testing.assert_allclose(drawn, expected + np.linalg.solve(factor.T, noise), rtol=tolerance, atol=tolerance)
    # Neither the factor nor the right-hand side is changed.
    np.testing.assert_array_equal(work, kept)
    np.testing.assert_array_equal(right, given)


def test_draws_have_the_inverse_as_covariance():
    matrix, random = positive(3, np.float64), np.random.default_rng(1)
    factor = matrix.copy()
    assert native.factorise_lower(factor)
    draws = np.array([native.solve_factorised(factor, np.zeros(3), e) for e in random.normal(size=(4000, 3))])
    products = draws[:, :, None] * draws[:, None, :]
    error = products.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(products.mean(axis=0) - np.linalg.inv(matrix)) < 4.5 * error).all()
