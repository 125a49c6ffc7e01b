"""Inputs, in memory or computed for each minibatch, against dense formulas."""

import numpy as np
import pytest
import scipy.sparse as sp

from tests.grids import each_value
from tests.problems import small_features
from xmlgp.data.dataset import Features
from xmlgp.features import inputs as module
from xmlgp.features.basis import truncated_svd_basis
from xmlgp.features.inputs import DENSE_LIMIT, Inputs
from xmlgp.features.weighting import Weighting, weigh

LIMITS = pytest.mark.parametrize("dense_limit", [0, DENSE_LIMIT])
IDF = np.linspace(1, 3, 25, dtype=np.float32)
ROWS = np.array([3, 0, 39, 3])


def dense(values):
    return values.sparse.toarray() if isinstance(values, Features) else values


def all_of(inputs):
    """Return the coordinates of all points, dense."""
    return dense(inputs.rows(slice(None))[0])


def weighting(**options):
    """Return a function that weights features."""
    return lambda features: features.with_sparse(weigh(features.sparse, Weighting(**options)))


def weighted_inputs(density, size, dtype, dense_limit):
    """Return a function that weights rows of features, the features, and their `Inputs`."""
    features = Features(small_features(density=density))
    weight_rows = weighting(idf=IDF, unit=True)
    basis = None if size is None else truncated_svd_basis(weight_rows(features).sparse, size, 0)
    return weight_rows, features, Inputs(features, basis, dtype, dense_limit, weight_rows)


@each_value(dtype=[np.float32, np.float64], dense_limit=[0, DENSE_LIMIT])
def test_subspace_coordinates_and_residuals(dtype, dense_limit):
    features = small_features(scale=0.2)
    basis = truncated_svd_basis(features, 6, 0)
    inputs = Inputs(Features(features), basis, dtype, dense_limit)
    assert inputs.dimension == 6
    X, V = features.toarray().astype(float), basis.astype(float)
    expected = X @ V.T
    # The squared length of the part that is orthogonal to the basis.
    left_out = ((X - expected @ V) ** 2).sum(axis=1)
    values, residual = inputs.rows(ROWS)
    assert values.dtype == residual.dtype == dtype
    assert isinstance(values, np.ndarray)
    tolerance = 1e-5 if dtype == np.float32 else 1e-6  # the basis itself is orthonormal to single precision
    np.testing.assert_allclose(values, expected[ROWS], atol=tolerance)
    np.testing.assert_allclose(residual, left_out[ROWS], atol=tolerance)
    np.testing.assert_allclose(all_of(inputs), expected, atol=tolerance)


@each_value(dtype=[np.float32, np.float64], dense_limit=[0, DENSE_LIMIT], density=[0.05, 0.25])
def test_coordinates_without_a_basis_are_the_features(dtype, dense_limit, density):
    features = small_features(density=density)
    inputs = Inputs(Features(features), None, dtype, dense_limit)
    assert inputs.dimension == 25
    values, residual = inputs.rows(ROWS)
    # Inputs are sparse only at low density, where sparse products are faster.
    assert isinstance(values, Features) == (density == 0.05)
    assert dense(values).dtype == residual.dtype == dtype
    np.testing.assert_array_equal(dense(values), features.toarray()[ROWS])
    np.testing.assert_array_equal(all_of(inputs), features.toarray())
    np.testing.assert_array_equal(residual, np.zeros(4))


@pytest.mark.parametrize(("stored", "sparse"), [(100, True), (101, False)])
def test_coordinates_are_sparse_up_to_a_density_of_a_tenth(stored, sparse):
    features = np.zeros(1000, np.float32)
    features[:stored] = 1
    values, _ = Inputs(Features(sp.csr_array(features.reshape(40, 25))), None, np.float32).rows(ROWS)
    assert isinstance(values, Features) == sparse


@each_value(dense_limit=[0, DENSE_LIMIT], size=[None, 6], density=[0.05, 0.25])
def test_weighting_a_minibatch_equals_weighting_all_rows(dense_limit, size, density):
    weight_rows, features, inputs = weighted_inputs(density, size, np.float32, dense_limit)
    basis = None if size is None else truncated_svd_basis(weight_rows(features).sparse, size, 0)
    expected = Inputs(weight_rows(features), basis, np.float32, dense_limit)
    for found, wanted in zip(inputs.rows(ROWS), expected.rows(ROWS), strict=True):
        np.testing.assert_array_equal(dense(found), dense(wanted))
    np.testing.assert_array_equal(all_of(inputs), all_of(expected))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_basis_in_fortran_order_is_not_copied(dtype):
    # A memory-mapped basis then takes no memory of the process.
    basis = np.asfortranarray(np.eye(25, dtype=np.float32)[:6])
    basis.flags.writeable = False
    inputs = Inputs(Features(small_features()), basis, dtype, dense_limit=0)
    kept = [value for value in vars(inputs).values() if isinstance(value, np.ndarray)]
    assert [np.shares_memory(array, basis) for array in kept] == [dtype == np.float32]


@each_value(dtype=[np.float32, np.float64], dense_limit=[0, DENSE_LIMIT], chunk=[1, 30, 1 << 20], density=[0.05, 0.25])
def test_centered_coordinates(monkeypatch, dtype, dense_limit, density, chunk):
    monkeypatch.setattr(module, "CHUNK", chunk)
    features, center = small_features(density=density), np.linspace(-3, 3, 25)
    scale = weighting(idf=None, unit=False, scale=np.full(25, 2.0))
    inputs = Inputs(Features(features), None, dtype, dense_limit, scale, center=center)
    expected = (2 * features.toarray().astype(float) - center).astype(dtype)
    assert inputs.row_bytes == 25 * np.dtype(dtype).itemsize
    values, residual = inputs.rows(ROWS)
    assert values.dtype == residual.dtype == dtype
    np.testing.assert_array_equal(values, expected[ROWS])
    np.testing.assert_array_equal(all_of(inputs), expected)
    np.testing.assert_array_equal(residual, np.zeros(4))


def test_a_large_mean_is_subtracted_before_rounding():
    features = sp.csr_array(np.array([[1.6e9], [1.6e9 + 128]], np.float32))
    scale = weighting(idf=None, unit=False, scale=np.array([1 / 3]))
    inputs = Inputs(Features(features), None, np.float32, weigh=scale, center=np.array([1.6e9 / 3]))
    np.testing.assert_allclose(all_of(inputs), [[0], [128 / 3]], rtol=1e-6, atol=1e-6)


def test_row_bytes_of_dense_and_sparse_coordinates():
    features = sp.csr_array(np.tile(np.arange(25) < 2, (40, 1)).astype(np.float32))
    half = sp.csr_array(np.tile(np.arange(25) < 12, (40, 1)).astype(np.float32))
    basis = np.eye(25, dtype=np.float32)[:6]
    found = [
        Inputs(*arguments, np.float32).row_bytes for arguments in ((Features(features), basis), (Features(half), None))
    ]
    assert found == [6 * 4, 25 * 4]
    # A row has two values and two indices.
    assert Inputs(Features(features), None, np.float32).row_bytes == 2 * (4 + 4)
    assert Inputs(Features(features), None, np.float64).row_bytes == 2 * (8 + 4)


@each_value(size=[None, 6], spare=[-1, 0], density=[0.05, 0.25])
def test_coordinates_within_the_memory_limit_are_computed_once(size, spare, density):
    calls, features = [], small_features(density=density)

    def weight_rows(rows):
        calls.append(rows.N)
        return rows

    basis = None if size is None else truncated_svd_basis(features, size, 0)
    needed = 8 * (features.nnz if size is None and density < 0.1 else 40 * (size or 25))
    inputs = Inputs(Features(features), basis, np.float64, needed + spare, weight_rows)
    assert sum(calls) == (40 if spare == 0 else 0)
    calls.clear()
    inputs.rows(ROWS)
    # Without coordinates in memory, only the requested rows are weighted.
    assert calls == ([] if spare == 0 else [4])


@each_value(dtype=[np.float32, np.float64], dense_limit=[0, DENSE_LIMIT])
def test_a_residual_is_never_negative(dtype, dense_limit):
    # All points lie in the subspace, so residuals are rounding errors of either sign.
    features = small_features(400, density=0.9, scale=100)
    residual = Inputs(Features(features), truncated_svd_basis(features, 25, 0), dtype, dense_limit).rows(slice(None))[1]
    assert residual.min() == 0
    assert residual.max() < 1e-5 * 25 * 400**2


@each_value(dense_limit=[0, DENSE_LIMIT], dtype=[np.float32, np.float64])
@pytest.mark.parametrize(
    ("size", "density", "rows"),
    [(None, 0.05, ROWS), (6, 0.25, slice(None)), (6, 0.05, slice(5, 9)), (None, 0.25, np.array([], int))],
    ids=str,
)
def test_weighted_features_of_rows(dense_limit, dtype, size, density, rows):
    weight_rows, features, inputs = weighted_inputs(density, size, dtype, dense_limit)
    found = inputs.weighted(rows)
    # They are sparse and have all features, also if coordinates are in a subspace.
    assert found.sparse.dtype == dtype
    np.testing.assert_array_equal(found.sparse.toarray(), weight_rows(features).sparse.toarray()[rows])


@each_value(dense_limit=[0, DENSE_LIMIT], size=[None, 6], density=[0.05, 0.25])
def test_selected_points_have_the_same_coordinates(dense_limit, size, density):
    weight_rows, features, inputs = weighted_inputs(density, size, np.float64, dense_limit)
    basis = None if size is None else truncated_svd_basis(weight_rows(features).sparse, size, 0)
    chosen = np.array([7, 3, 39, 0, 11, 12])
    selected, alone = (inputs.select(chosen), Inputs(features[chosen], basis, np.float64, dense_limit, weight_rows))
    assert len(selected) == len(alone) == 6
    assert selected.dtype == alone.dtype
    for rows in (np.array([4, 0, 0, 5]), slice(None), slice(2, 4), np.array([], int)):
        for found, expected in zip(selected.rows(rows), alone.rows(rows), strict=True):
            np.testing.assert_allclose(dense(found), dense(expected), rtol=1e-12, atol=1e-14)
        np.testing.assert_array_equal(selected.weighted(rows).sparse.toarray(), alone.weighted(rows).sparse.toarray())
    assert len(inputs.select(np.array([], int))) == 0


@LIMITS
def test_the_weighted_features_of_all_points_are_not_copied(dense_limit):
    features = small_features(density=0.05)
    inputs = Inputs(Features(features), None, np.float32, dense_limit)
    assert inputs.weighted(slice(None)).sparse.data is features.data
    np.testing.assert_array_equal(inputs.weighted(slice(0, 40)).sparse.toarray(), features.toarray())
