"""Coordinates, kept in memory or computed for each minibatch, against dense formulas."""

import numpy as np
import pytest
import scipy.sparse as sp

from tests.problems import small_features
from xmlgp.preprocess.basis import truncated_svd_basis
from xmlgp.preprocess.coordinates import DENSE_LIMIT, Coordinates

DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])
LIMITS = pytest.mark.parametrize("dense_limit", [0, DENSE_LIMIT])
ROWS = np.array([3, 0, 39, 3])


def dense(values):
    return values.toarray() if sp.issparse(values) else values


@DTYPES
@LIMITS
def test_in_a_subspace(dtype, dense_limit):
    features = small_features(scale=0.2)
    basis = truncated_svd_basis(features, 6, 0)
    coordinates = Coordinates(features, basis, dtype, dense_limit)
    assert coordinates.dimension == 6
    X, V = features.toarray().astype(float), basis.astype(float)
    expected = X @ V.T
    # The squared length of what is orthogonal to the basis, from the orthogonal part itself.
    left_out = ((X - expected @ V) ** 2).sum(axis=1)

    values, residual = coordinates.rows(ROWS)
    assert values.dtype == residual.dtype == dtype
    assert isinstance(values, np.ndarray)
    tolerance = 1e-5 if dtype == np.float32 else 1e-6  # the basis itself is orthonormal to single precision
    np.testing.assert_allclose(values, expected[ROWS], atol=tolerance)
    np.testing.assert_allclose(residual, left_out[ROWS], atol=tolerance)
    np.testing.assert_allclose(coordinates.all(), expected, atol=tolerance)


@DTYPES
@LIMITS
def test_free(dtype, dense_limit):
    features = small_features()
    coordinates = Coordinates(features, None, dtype, dense_limit)
    assert coordinates.dimension == 25
    values, residual = coordinates.rows(ROWS)
    assert sp.issparse(values) == (dense_limit == 0)
    assert values.dtype == residual.dtype == dtype
    np.testing.assert_array_equal(dense(values), features.toarray()[ROWS])
    np.testing.assert_array_equal(dense(coordinates.all()), features.toarray())
    np.testing.assert_array_equal(residual, np.zeros(4))


@pytest.mark.parametrize("rows", [ROWS, slice(None), np.array([], int)])
@pytest.mark.parametrize("size", [None, 6])
def test_both_ways_give_the_same(rows, size):
    features = small_features()
    basis = None if size is None else truncated_svd_basis(features, size, 0)
    kept, computed = (Coordinates(features, basis, np.float32, limit).rows(rows) for limit in (DENSE_LIMIT, 0))
    np.testing.assert_allclose(dense(computed[0]), kept[0], rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(computed[1], kept[1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("size", [None, 6])
@pytest.mark.parametrize("spare", [-1, 0])
def test_the_limit_is_in_bytes(size, spare):
    features = small_features()
    basis = None if size is None else truncated_svd_basis(features, size, 0)
    needed = 40 * (size or 25) * 8
    coordinates = Coordinates(features, basis, np.float64, needed + spare)
    kept = coordinates.all() is coordinates.all()
    assert kept == (spare == 0)


@DTYPES
@LIMITS
def test_a_residual_is_never_negative(dtype, dense_limit):
    # All points lie in the subspace, so what is left out is rounding alone, of either sign.
    features = small_features(400, density=0.9, scale=100)
    residual = Coordinates(features, truncated_svd_basis(features, 25, 0), dtype, dense_limit).rows(slice(None))[1]
    assert residual.min() == 0
    assert residual.max() < 1e-5 * 25 * 400**2


@LIMITS
@pytest.mark.parametrize("size", [None, 3])
def test_rows_of_zeros(dense_limit, size):
    features = sp.csr_array((4, 25), dtype=np.float32)
    basis = None if size is None else np.eye(25, dtype=np.float32)[:size]
    values, residual = Coordinates(features, basis, np.float32, dense_limit).rows(np.array([2, 1]))
    assert not dense(values).any()
    assert not residual.any()
