"""Means and scales of features against scikit-learn and, for accuracy, against exact fractions."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.preprocessing import StandardScaler

from tests.grids import each_value
from tests.problems import DETERMINISTIC, small_features
from xmlgp.preprocess import standardise as module
from xmlgp.preprocess.standardise import mean_and_scale


@each_value(chunk=[1, 70, 1 << 16], density=[0.05, 0.5, 1])
def test_means_and_scales_agree_with_scikit_learn(monkeypatch, density, chunk):
    monkeypatch.setattr(module, "CHUNK", chunk)
    features = small_features(density=density)
    features.data[::3] *= -100
    scaler = StandardScaler().fit(features.toarray().astype(float))
    mean, scale = mean_and_scale(features)
    assert mean.dtype == scale.dtype == np.float64
    np.testing.assert_allclose(mean, scaler.mean_, rtol=1e-12)
    varying = scaler.var_ > 0
    np.testing.assert_allclose(scale[varying], 1 / scaler.scale_[varying], rtol=1e-12)


def exact(features):
    """Return means and squared scales, computed with fractions."""
    N = len(features)
    columns = [[Fraction(float(value)) for value in column] for column in features.T]
    means = [sum(column) / N for column in columns]
    variances = [sum((value - mean) ** 2 for value in column) / N for column, mean in zip(columns, means, strict=True)]
    return list(map(float, means)), [float(1 / variance) if variance else 0.0 for variance in variances]


FLOATS = st.sampled_from([0, 1, -1, 1.6e9, 1.6e9 + 128, -3e38, 3e38, 1e-45, 1e-20, 7]) | st.floats(
    width=32, allow_nan=False, allow_infinity=False
)


@DETERMINISTIC
@given(arrays(np.float32, st.tuples(st.integers(1, 7), st.integers(1, 3)), elements=FLOATS))
def test_means_and_scales_are_accurate_at_any_magnitude(features):
    mean, scale = mean_and_scale(sp.csr_array(features))
    means, squares = exact(features)
    size = np.abs(features).max(axis=0).astype(float)
    np.testing.assert_allclose(mean, means, rtol=0, atol=1e-15 * size.max())
    np.testing.assert_allclose(scale**2, squares, rtol=1e-6)


def test_scales_of_small_deviations_from_a_large_mean_are_accurate():
    random = np.random.default_rng(0)
    features = np.stack([1.6e9 + 128 * random.integers(-1, 2, 10_000), np.full(10_000, 1.6e9)], axis=1)
    features[-1, 1] += 128
    mean, scale = mean_and_scale(sp.csr_array(features.astype(np.float32)))
    np.testing.assert_allclose(mean, features.mean(axis=0), rtol=1e-15)
    np.testing.assert_allclose(1 / scale, [np.std((features[:, 0] - 1.6e9) / 128) * 128, 128 * np.sqrt(1e-4 - 1e-8)])


@pytest.mark.parametrize("value", [0.1, 1.6e9, -3e38, 1e-45])
def test_the_scale_of_constant_features_is_zero(value):
    features = np.tile(np.array([value, 0, 1], np.float32), (1001, 1))
    features[5, 2] = 0
    mean, scale = mean_and_scale(sp.csr_array(features))
    assert mean[:2].tolist() == features[0, :2].tolist()
    assert scale[:2].tolist() == [0, 0]
    assert scale[2] > 0


def test_results_do_not_depend_on_stored_zeros_and_the_order_of_indices():
    features = small_features(density=0.5)
    stored = features.copy()
    stored.data[::4] = 0
    expected = mean_and_scale(sp.csr_array(stored.toarray()))
    np.testing.assert_allclose(mean_and_scale(stored), expected, rtol=1e-12)
    for row in range(40):
        part = slice(*stored.indptr[row : row + 2])
        stored.indices[part], stored.data[part] = stored.indices[part][::-1].copy(), stored.data[part][::-1].copy()
    np.testing.assert_allclose(mean_and_scale(stored), expected, rtol=1e-12)
