"""Cholesky factors, their inverses and solutions against NumPy, and the jitter that is added."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gp.reference import DETERMINISTIC
from tests.grids import each_value
from xmlgp.linear_algebra.cholesky import JITTERS, factorise, inverse_lower, solve_with_factor, try_cholesky
from xmlgp.runtime.errors import NumericalError


def with_eigenvalues(values, seed=0):
    """Return a symmetric matrix with eigenvalues in these proportions and a mean diagonal of one."""
    basis, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(len(values), len(values))))
    matrix = (basis * values) @ basis.T
    return (matrix + matrix.T) / (2 * np.mean(values))


@DETERMINISTIC
@given(st.integers(1, 30), st.integers(0, 2**32 - 1), st.floats(1e-3, 1e3), st.sampled_from([np.float32, np.float64]))
def test_factor_inverse_and_determinant_agree_with_numpy(size, seed, scale, dtype):
    random = np.random.default_rng(seed)
    matrix = (scale * with_eigenvalues(random.uniform(0.05, 1, size), seed)).astype(dtype)
    tolerance = 200 * np.finfo(dtype).eps
    result = factorise(matrix.copy(), "C")
    assert result.factor.dtype == result.inverse.dtype == dtype
    np.testing.assert_array_equal(result.factor, np.tril(result.factor))
    np.testing.assert_array_equal(result.inverse, result.inverse.T)
    np.testing.assert_allclose(result.factor @ result.factor.T, matrix, rtol=tolerance, atol=tolerance * scale)
    exact = matrix.astype(np.float64)
    inverse = np.linalg.inv(exact)
    np.testing.assert_allclose(result.inverse, inverse, rtol=tolerance, atol=tolerance * np.abs(inverse).max())
    np.testing.assert_allclose(result.log_determinant, np.linalg.slogdet(exact)[1], atol=size * tolerance)


def test_log_determinant_is_finite_where_the_determinant_underflows():
    result = factorise(1e-30 * np.eye(200), "C")
    np.testing.assert_allclose(result.log_determinant, -6000 * np.log(10), rtol=1e-12)


@pytest.mark.parametrize(
    ("least", "jitter"), [(1e-9, 0.0), (-3e-7, JITTERS[1]), (-3e-5, JITTERS[2]), (-3e-3, JITTERS[3])]
)
def test_least_sufficient_jitter_is_added(least, jitter):
    values = np.linspace(0.5, 1.5, 12)
    values[0] = least
    matrix = with_eigenvalues(values)
    factor = factorise(matrix.copy(), "C").factor
    np.testing.assert_allclose(factor @ factor.T - matrix, jitter * np.eye(12), rtol=0, atol=1e-12)


@pytest.mark.parametrize("matrix", [with_eigenvalues(np.r_[-0.05, np.ones(9)]), -np.eye(3), np.zeros((2, 2))])
def test_error_names_a_matrix_that_is_not_positive_definite(matrix):
    with pytest.raises(NumericalError, match=r"^the prior of q is not positive definite"):
        factorise(matrix.copy(), "the prior of q")


@each_value(value=[np.inf, -np.inf, np.nan], dtype=[np.float32, np.float64])
def test_error_names_a_matrix_that_is_not_finite(value, dtype):
    matrix = np.eye(4, dtype=dtype)
    matrix[2, 2] = value
    with np.errstate(all="raise"), pytest.raises(NumericalError, match=r"^the prior of q is not finite$"):
        factorise(matrix, "the prior of q")


def test_diagonal_whose_sum_overflows_is_factorised():
    matrix = np.diag(np.full(8, 2e38, np.float32))
    with np.errstate(all="raise", under="ignore"):
        result = factorise(matrix.copy(), "C")
    np.testing.assert_allclose(np.diagonal(result.factor), np.sqrt(np.float32(2e38)), rtol=1e-6)


def random_matrix(size, dtype):
    root = np.random.default_rng(size).normal(size=(size, 2 * size + 1))
    return (root @ root.T / (2 * size + 1) + 0.1 * np.eye(size)).astype(dtype)


@each_value(size=[1, 2, 7, 130], dtype=[np.float32, np.float64])
def test_inverse_of_a_triangular_matrix_agrees_with_numpy(size, dtype):
    tolerance = 1e-4 if dtype == np.float32 else 1e-11
    factor = np.linalg.cholesky(random_matrix(size, dtype).astype(float))
    inverse = inverse_lower(factor.astype(dtype))
    assert inverse.dtype == dtype
    np.testing.assert_allclose(inverse, np.linalg.inv(factor), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("invalid", [-1.0, np.nan, np.inf])
def test_matrix_without_factor_is_reported(invalid):
    matrix = random_matrix(5, np.float64)
    matrix[3, 3] = invalid
    assert try_cholesky(matrix) is None


@each_value(size=[1, 2, 7, 130], dtype=[np.float32, np.float64])
def test_solutions_and_samples_agree_with_numpy(size, dtype):
    tolerance = 1e-3 if dtype == np.float32 else 1e-10
    matrix, random = random_matrix(size, dtype), np.random.default_rng(0)
    right, noise = random.normal(size=(2, size)).astype(dtype)
    factor = np.linalg.cholesky(matrix.astype(float))
    work = matrix.copy()
    work[np.triu_indices(size, 1)] = np.nan
    found = try_cholesky(work)
    np.testing.assert_allclose(found, factor, rtol=tolerance, atol=tolerance)
    factor_before, right_before = found.copy(), right.copy()
    result = solve_with_factor(found, right)
    assert result.dtype == dtype
    expected = np.linalg.solve(matrix.astype(float), right)
    np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)
    sample = solve_with_factor(found, right, noise)
    np.testing.assert_allclose(sample, expected + np.linalg.solve(factor.T, noise), rtol=tolerance, atol=tolerance)
    # The factor and the right-hand side are unchanged.
    np.testing.assert_array_equal(found, factor_before)
    np.testing.assert_array_equal(right, right_before)
