"""Feature weighting against scikit-learn."""

from dataclasses import fields

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import normalize

from tests.problems import DETERMINISTIC, small_features
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.preprocess import weighting as module
from xmlgp.preprocess.weighting import IDF_WEIGHTINGS, Weighting, count_points, idf_of_counts, weigh


def idf_of(features):
    return idf_of_counts(features.shape[0], count_points(features))


FLOAT32 = np.finfo(np.float32)


def test_idf_of_features_in_all_or_no_points():
    features = sp.csr_array(np.array([[1, 0, 2], [3, 0, 0], [1, 0, 0]], np.float32))
    idf = idf_of(features)
    np.testing.assert_allclose(idf, [1, np.log(4) + 1, np.log(2) + 1], rtol=1e-6)
    assert idf.dtype == np.float32


def test_new_points_are_weighted_by_the_idf_of_the_training_points():
    train, new = small_features(seed=1), small_features(N=9, seed=2)
    expected = TfidfTransformer().fit(train).transform(new)
    weighted = weigh(new, idf_of(train), unit=True)
    np.testing.assert_allclose(weighted.toarray(), expected.toarray(), rtol=1e-6)


def test_root_idf_agrees_with_the_formula():
    train, new = small_features(seed=1), small_features(N=9, seed=2)
    idf = TfidfTransformer().fit(train).idf_
    expected = normalize(np.log1p(new.toarray()) * np.sqrt(idf))
    found = weigh(new, *Weighting.named("root-idf", np.sqrt(idf_of(train))))
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
    found = weigh(features, idf_of(features), unit=True, logarithm=True)
    np.testing.assert_allclose(found.toarray(), expected.toarray(), rtol=1e-5)


def test_logarithms_keep_the_sign():
    values = np.array([[-3, 0, 2], [0.5, -1e30, 0], [0, 0, -1e-30]], np.float32)
    found = weigh(sp.csr_array(values), None, unit=False, logarithm=True).toarray()
    np.testing.assert_allclose(found, np.sign(values) * np.log1p(np.abs(values.astype(float))), rtol=1e-6)
    mirrored = weigh(sp.csr_array(-values), None, unit=False, logarithm=True).toarray()
    np.testing.assert_array_equal(mirrored, -found)


@pytest.mark.parametrize(
    ("name", "unit", "logarithm"),
    [("root-idf", True, True), ("idf", True, False), ("unit", True, False), ("none", False, False)],
)
def test_weighting_names_select_idf_unit_length_and_logarithm(name, unit, logarithm):
    idf = np.ones(3) if name in IDF_WEIGHTINGS else None
    assert Weighting.named(name, idf) == (idf, unit, logarithm, None)
    (spec,) = (spec for spec in fields(MLGPFSettings) if spec.name == "weighting")
    assert name in spec.metadata["choices"]
    assert MLGPFSettings().weighting == "root-idf"


def test_the_standard_weighting_only_scales():
    scale = np.arange(25) / 7
    weighting = Weighting.named("standard", scale=scale)
    assert (weighting.idf, weighting.unit, weighting.logarithm) == (None, False, False)
    features = small_features()
    scaled = weigh(features, *weighting)
    # The result is in double precision and has the same sparsity.
    np.testing.assert_array_equal(scaled.toarray(), features.toarray().astype(float) * scale)
    assert np.shares_memory(scaled.indices, features.indices)


def test_zero_rows_stay_zero():
    features = small_features(density=0.5).multiply(np.arange(40)[:, None] % 3 > 0).tocsr().astype(np.float32)
    features.eliminate_zeros()
    weighted = weigh(features, idf_of(features), unit=True)
    norms = np.linalg.norm(weighted.toarray(), axis=1)
    np.testing.assert_allclose(norms, np.arange(40) % 3 > 0, rtol=1e-6)
    stored_zeros = sp.csr_array((np.zeros(2, np.float32), np.array([0, 2]), np.array([0, 2])), shape=(1, 3))
    assert not weigh(stored_zeros, None, unit=True).toarray().any()


def test_features_are_unchanged_and_indices_shared():
    features = small_features()
    before = features.copy()
    for values in (features.data, features.indices, features.indptr):
        values.flags.writeable = False  # as if memory-mapped from the cache
    weighted = weigh(features, idf_of(features), unit=True)
    np.testing.assert_array_equal(features.toarray(), before.toarray())
    assert np.shares_memory(weighted.indices, features.indices)
    assert weighted.dtype == np.float32


@pytest.mark.parametrize("chunk", [1, 17])
def test_weighting_does_not_depend_on_chunks(monkeypatch, chunk):
    features = small_features(density=0.5).multiply(np.arange(40)[:, None] % 3 > 0).tocsr().astype(np.float32)
    features.eliminate_zeros()
    idf = idf_of(features)
    expected = weigh(features, idf, unit=True, logarithm=True)
    monkeypatch.setattr(module, "CHUNK", chunk)
    np.testing.assert_array_equal(weigh(features, idf, unit=True, logarithm=True).data, expected.data)


def test_unweighted_features_are_not_copied():
    features = small_features()
    assert weigh(features, None, unit=False) is features
    assert weigh(features.astype(np.float64), None, unit=False).dtype == np.float32


magnitudes = st.floats(float(FLOAT32.smallest_subnormal), float(FLOAT32.max), width=32)


@DETERMINISTIC
@given(
    arrays(np.float32, (3, 4), elements=st.one_of(st.just(0.0), magnitudes, magnitudes.map(lambda x: -x))),
    st.booleans(),
)
def test_rows_have_unit_length_at_any_magnitude(values, logarithm):
    features = sp.csr_array(values)
    weighted = weigh(features, idf_of(features), unit=True, logarithm=logarithm).toarray()
    assert np.isfinite(weighted).all()
    np.testing.assert_allclose(np.linalg.norm(weighted.astype(float), axis=1), (values != 0).any(axis=1), rtol=1e-6)
    np.testing.assert_array_equal(np.sign(weighted) * np.sign(values) >= 0, True)
