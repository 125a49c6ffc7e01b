"""Feature weighting against scikit-learn; standardising against exact fractions."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import StandardScaler, normalize

from tests.problems import DETERMINISTIC, small_features
from xmlgp.features import weighting as module
from xmlgp.features.weighting import Weighting, count_points, inverse_frequencies, mean_and_scale, weigh


def idf_of(features):
    return inverse_frequencies("idf", features.shape[0], count_points(features))


def with_empty_rows():
    """Return features of 40 points, every third of which has none."""
    features = small_features(density=0.5).multiply(np.arange(40)[:, None] % 3 > 0).tocsr().astype(np.float32)
    features.eliminate_zeros()
    return features


def test_idf_of_features_in_all_or_no_points():
    features = sp.csr_array(np.array([[1, 0, 2], [3, 0, 0], [1, 0, 0]], np.float32))
    idf = idf_of(features)
    np.testing.assert_allclose(idf, [1, np.log(4) + 1, np.log(2) + 1], rtol=1e-6)
    assert idf.dtype == np.float32


def test_new_points_are_weighted_by_the_idf_of_the_training_points():
    train, new = small_features(seed=1), small_features(N=9, seed=2)
    reference = TfidfTransformer().fit(train)
    found = weigh(new, Weighting(idf_of(train), unit=True))
    np.testing.assert_allclose(found.toarray(), reference.transform(new).toarray(), rtol=1e-6)
    expected = normalize(np.log1p(new.toarray()) * np.sqrt(reference.idf_))
    found = weigh(new, Weighting.named("root-idf", np.sqrt(idf_of(train))))
    np.testing.assert_allclose(found.toarray(), expected, rtol=1e-5)
    assert found.dtype == np.float32


def test_logarithms_agree_with_scikit_learns_sublinear_counts():
    # The 1 + log(count) of scikit-learn is log(1 + x) with x = e·count − 1.
    counts = small_features(seed=3)
    counts.data = np.ceil(counts.data)
    assert counts.data.max() > 3
    features = counts.copy()
    features.data = (np.e * counts.data - 1).astype(np.float32)
    expected = TfidfTransformer(sublinear_tf=True).fit_transform(counts)
    found = weigh(features, Weighting(idf_of(features), unit=True, logarithm=True))
    np.testing.assert_allclose(found.toarray(), expected.toarray(), rtol=1e-5)


def test_logarithms_keep_the_sign():
    values = np.array([[-3, 0, 2], [0.5, -1e30, 0], [0, 0, -1e-30]], np.float32)
    found = weigh(sp.csr_array(values), Weighting(None, unit=False, logarithm=True)).toarray()
    np.testing.assert_allclose(found, np.sign(values) * np.log1p(np.abs(values.astype(float))), rtol=1e-6)


def test_the_standard_weighting_only_scales():
    features, scale = small_features(), np.arange(25) / 7
    scaled = weigh(features, Weighting.named("standard", scale=scale))
    # The result is in double precision and has the same sparsity.
    np.testing.assert_array_equal(scaled.toarray(), features.toarray().astype(float) * scale)
    assert np.shares_memory(scaled.indices, features.indices)


def test_zero_rows_stay_zero():
    features = with_empty_rows()
    norms = np.linalg.norm(weigh(features, Weighting(idf_of(features), unit=True)).toarray(), axis=1)
    np.testing.assert_allclose(norms, np.arange(40) % 3 > 0, rtol=1e-6)
    stored_zeros = sp.csr_array((np.zeros(2, np.float32), np.array([0, 2]), np.array([0, 2])), shape=(1, 3))
    assert not weigh(stored_zeros, Weighting.named("unit")).toarray().any()


def test_features_are_unchanged_and_indices_shared():
    features = small_features()
    before = features.copy()
    for values in (features.data, features.indices, features.indptr):
        values.flags.writeable = False  # as if memory-mapped from the cache
    weighted = weigh(features, Weighting(idf_of(features), unit=True))
    np.testing.assert_array_equal(features.toarray(), before.toarray())
    assert np.shares_memory(weighted.indices, features.indices)
    assert weighted.dtype == np.float32
    assert weigh(features, Weighting.named("none")) is features
    assert weigh(features.astype(np.float64), Weighting.named("none")).dtype == np.float32


@pytest.mark.parametrize("chunk", [1, 17])
def test_weighting_does_not_depend_on_chunks(monkeypatch, chunk):
    features = with_empty_rows()
    weighting = Weighting(idf_of(features), unit=True, logarithm=True)
    expected = weigh(features, weighting)
    monkeypatch.setattr(module, "CHUNK", chunk)
    np.testing.assert_array_equal(weigh(features, weighting).data, expected.data)


FLOAT32 = np.finfo(np.float32)
magnitudes = st.floats(float(FLOAT32.smallest_subnormal), float(FLOAT32.max), width=32)


@DETERMINISTIC
@given(
    arrays(np.float32, (3, 4), elements=st.one_of(st.just(0.0), magnitudes, magnitudes.map(lambda x: -x))),
    st.booleans(),
)
def test_rows_have_unit_length_at_any_magnitude(values, logarithm):
    features = sp.csr_array(values)
    weighted = weigh(features, Weighting(idf_of(features), True, logarithm)).toarray()
    assert np.isfinite(weighted).all()
    np.testing.assert_allclose(np.linalg.norm(weighted.astype(float), axis=1), (values != 0).any(axis=1), rtol=1e-6)
    np.testing.assert_array_equal(np.sign(weighted) * np.sign(values) >= 0, True)


def test_weighted_features_are_not_written_again(in_files):
    weighted = weigh(small_features(), Weighting.named("unit"), in_files)
    before = sorted(in_files.folder.iterdir())
    assert list(in_files.map(stored, [()], weighted)) == [weighted.nnz]
    # Only their index arrays, which are those of the user, are.
    assert len(sorted(in_files.folder.iterdir())) <= len(before) + 2


def stored(matrix):
    return matrix.nnz


@pytest.mark.parametrize("density", [0.05, 0.5, 1])
def test_means_and_scales_agree_with_scikit_learn(density):
    features = small_features(density=density)
    features.data[::3] *= -100
    # Stored zeros, and indices in another order, change nothing.
    features.data[::4] = 0
    for row in range(40):
        part = slice(*features.indptr[row : row + 2])
        features.indices[part] = features.indices[part][::-1].copy()
        features.data[part] = features.data[part][::-1].copy()
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


@pytest.mark.parametrize("value", [0.1, 1.6e9, -3e38, 1e-45])
def test_the_scale_of_constant_features_is_zero(value):
    features = np.tile(np.array([value, 0, 1], np.float32), (1001, 1))
    features[5, 2] = 0
    mean, scale = mean_and_scale(sp.csr_array(features))
    np.testing.assert_allclose(mean[:2], features[0, :2], rtol=1e-12)
    assert scale[:2].tolist() == [0, 0]
    assert scale[2] > 0
