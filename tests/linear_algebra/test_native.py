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
