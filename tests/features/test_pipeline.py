"""Preprocessing as a whole, for all models and settings, and where a model learns on."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import pairwise_distances
from sklearn.preprocessing import StandardScaler

from tests.grids import each_value
from tests.problems import small_features
from xmlgp.data.dataset import Features
from xmlgp.features.basis import truncated_svd_basis
from xmlgp.features.inducing import initial_inducing
from xmlgp.features.inputs import Inputs
from xmlgp.features.pipeline import Preprocessed
from xmlgp.features.weighting import Weighting, count_points, inverse_frequencies, weigh
from xmlgp.models.bmlpl.settings import BMLPLSettings
from xmlgp.models.gpc.settings import GPCSettings
from xmlgp.models.mlgpf.settings import MLGPFSettings
from xmlgp.models.table import MODELS
from xmlgp.runtime.errors import SettingsError
from xmlgp.runtime.progress import silent

SMALL = {"basis_size": 6, "inducing_count": 5}


def preprocess(features, settings):
    return MODELS[settings.model].preprocess(Features(features), settings, silent)


def inducing_of(coordinates, *options):
    """Return the initial inducing inputs of points, given their coordinates."""
    return initial_inducing(Inputs(Features(sp.csr_array(coordinates)), None, np.float32), *options)


def coordinates_of(result, features, **options):
    return result.inputs(Features(features), np.float64, **options).rows(slice(None))[0]


@each_value(start=["kmeans", "rows"], inducing=["subspace", "free"], weighting=["root-idf", "idf", "unit", "none"])
def test_weighting_basis_and_inducing_inputs_follow_the_settings(weighting, inducing, start):
    features = small_features()
    result = preprocess(
        features, MLGPFSettings(weighting=weighting, inducing=inducing, inducing_start=start, seed=3, **SMALL)
    )
    idf = inverse_frequencies(weighting, 40, count_points(features))
    weighted = weigh(features, Weighting(idf, weighting != "none", weighting == "root-idf"))
    expected_basis = truncated_svd_basis(weighted, 6, 3) if inducing == "subspace" else None
    coordinates = weighted.toarray() if expected_basis is None else weighted @ expected_basis.T

    assert result.weighting[1:] == (weighting != "none", weighting == "root-idf", None)
    assert result.center is None
    np.testing.assert_array_equal(result.weigh(Features(features)).sparse.toarray(), weighted.toarray())
    np.testing.assert_equal((result.weighting.idf, result.basis), (idf, expected_basis))
    np.testing.assert_allclose(result.inducing, inducing_of(coordinates, 5, start, 3), atol=1e-5)
    np.testing.assert_allclose(coordinates_of(result, features), coordinates, atol=1e-5)


@pytest.mark.parametrize(
    ("inducing", "kernel", "start"),
    [
        ("subspace", "linear", "kmeans"),
        ("subspace", "se", "kmeans"),
        ("free", "linear", "rows"),
        ("free", "se+linear", "kmeans"),
    ],
)
def test_by_default_inducing_inputs_start_from_centroids_unless_they_are_free_and_linear(inducing, kernel, start):
    chosen = {"inducing": inducing, "kernel": kernel, **SMALL}
    default, expected, other = (
        preprocess(small_features(), MLGPFSettings(inducing_start=method, **chosen)).inducing
        for method in (None, start, {"rows": "kmeans", "kmeans": "rows"}[start])
    )
    np.testing.assert_array_equal(default, expected)
    assert not np.allclose(default, other)


@each_value(kernel=["se", "se+linear"], inducing=["subspace", "free"])
def test_inducing_inputs_of_se_kernels_have_unit_length(inducing, kernel):
    features = small_features()
    chosen = {"inducing": inducing, "inducing_start": "kmeans", **SMALL}
    result, linear = (preprocess(features, MLGPFSettings(kernel=name, **chosen)) for name in (kernel, "linear"))
    lengths = np.linalg.norm(linear.inducing, axis=1, keepdims=True)
    assert (lengths < 0.99).any()
    np.testing.assert_allclose(result.inducing, linear.inducing / lengths, rtol=1e-6)
    assert result.inducing.dtype == np.float32


def test_preprocessing_for_bmlpl_has_weights_only():
    features = small_features()
    result, expected = (preprocess(features, settings) for settings in (BMLPLSettings(), MLGPFSettings(**SMALL)))
    assert (result.basis, result.inducing) == (None, None)
    np.testing.assert_equal(result.weighting, expected.weighting)


@pytest.mark.parametrize("weighting", ["root-idf", "none"])
def test_preprocessing_for_bmlpl_does_not_copy_the_features(weighting):
    features = sp.random_array((20_000, 300), density=0.2, rng=np.random.default_rng(0), dtype=np.float32).tocsr()
    tracemalloc.start()
    try:
        preprocess(features, BMLPLSettings(weighting=weighting))
        assert tracemalloc.get_traced_memory()[1] < features.data.nbytes / 2
    finally:
        tracemalloc.stop()


def test_sizes_are_limited_by_the_data():
    result = preprocess(small_features(N=6, D=9), MLGPFSettings(inducing="subspace"))
    assert result.basis.shape == (6, 9)
    assert result.inducing.shape == (6, 6)


@each_value(shape=[(4, 5), (4, 0), (0, 5)], settings=[MLGPFSettings(), BMLPLSettings(), GPCSettings()])
def test_data_without_features_are_refused(settings, shape):
    with pytest.raises(SettingsError, match="no training point has a feature"):
        preprocess(sp.csr_array(shape, dtype=np.float32), settings)


def offset_features(density):
    """Return features of very different scales whose values are far from zero, except absent ones."""
    features = small_features(60, 30, density)
    features.data += np.random.default_rng(1).choice([0, 3, 300], features.nnz).astype(np.float32)
    features.data *= np.geomspace(1e-20, 1e20, 30, dtype=np.float32)[features.indices]
    return features


@each_value(dense_limit=[0, 1 << 30], density=[0.05, 0.25, 1])
def test_standardised_distances_agree_with_scikit_learn(density, dense_limit):
    features, new = offset_features(density), offset_features(density)[::7]
    result = preprocess(features, GPCSettings(inducing_count=5))
    scaler = StandardScaler().fit(features.toarray().astype(float))
    coordinates = coordinates_of(result, features, dense_limit=dense_limit)
    # Features of low density stay sparse.
    assert isinstance(coordinates, Features) == (not result.center.any()) == (density == 0.05)
    others = coordinates_of(result, new, dense_limit=dense_limit)
    if density == 0.05:
        coordinates, others = coordinates.sparse, others.sparse
    found = pairwise_distances(others, coordinates)
    wanted = pairwise_distances(*(scaler.transform(points.toarray().astype(float)) for points in (new, features)))
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-6)
    if density > 0.1:
        np.testing.assert_allclose(others, scaler.transform(new.toarray().astype(float)), atol=1e-9)
    # Inducing inputs are in the same coordinates.
    expected = inducing_of(coordinates, 5, "kmeans", 0)
    np.testing.assert_allclose(result.inducing, expected, rtol=1e-5, atol=1e-5)
    assert (result.weighting.idf, result.basis) == (None, None)


@pytest.mark.parametrize("density", [0.05, 0.25])
def test_without_standardising_features_are_unchanged(density):
    features = small_features(density=density)
    result = preprocess(features, GPCSettings(standardise=False, inducing_count=5, seed=3))
    expected = preprocess(features, MLGPFSettings(weighting="none", inducing_start="kmeans", inducing_count=5, seed=3))
    assert (result.weighting, result.basis, result.center) == ((None, False, False, None), None, None)
    coordinates = coordinates_of(result, features)
    np.testing.assert_array_equal(coordinates.sparse.toarray() if density < 0.1 else coordinates, features.toarray())
    np.testing.assert_array_equal(result.inducing, expected.inducing)


def test_constant_training_features_are_ignored_in_new_points():
    features = np.array([[5, 1, 0], [5, 2, 0], [5, 4, 0]], np.float32)
    result = preprocess(sp.csr_array(features), GPCSettings(inducing_count=2))
    points = sp.csr_array(np.array([[5, 1, 0], [7, 1, 9], [0, 1, -3e38]], np.float32))
    coordinates = coordinates_of(result, points)
    np.testing.assert_array_equal(coordinates, np.broadcast_to(coordinates[0], (3, 3)))


def test_standardising_many_features_makes_no_dense_copy():
    # A dense copy would not fit into memory.
    features = sp.random_array((1000, 10**9), density=2e-9, rng=np.random.default_rng(0), dtype=np.float32).tocsr()
    columns, features.indices = np.unique(features.indices, return_inverse=True)
    features = sp.csr_array((features.data, features.indices, features.indptr), shape=(1000, 10**6))
    tracemalloc.start()
    try:
        result = preprocess(features, GPCSettings(inducing_count=2))
        assert isinstance(coordinates_of(result, features), Features)
        assert tracemalloc.get_traced_memory()[1] < 1000 * 10**6
    finally:
        tracemalloc.stop()


@each_value(start=["kmeans", "rows"], inducing=["subspace", "free"])
def test_only_the_coordinates_of_candidates_are_computed(monkeypatch, inducing, start):
    features = small_features(N=60)
    seen = []
    monkeypatch.setattr("xmlgp.features.inducing.CANDIDATES", 4)
    compute = Inputs._compute
    monkeypatch.setattr(Inputs, "_compute", lambda inputs, rows: seen.append(rows.N) or compute(inputs, rows))
    preprocess(features, MLGPFSettings(inducing=inducing, inducing_start=start, **SMALL))
    assert seen == [20]


@pytest.mark.filterwarnings("error")
@each_value(inducing=["free", "subspace"], value=[1e16, -3e38])
def test_features_whose_squares_overflow_are_refused(inducing, value):
    features = small_features()
    features.data[3] = value
    settings = {"inducing": inducing, "basis_size": 5, "inducing_count": 4}
    with pytest.raises(SettingsError, match="^features are as large as .*weighting$"):
        preprocess(features, MLGPFSettings(weighting="none", **settings))
    with pytest.raises(SettingsError, match="^features are as large as .*weighting$"):
        preprocess(features, BMLPLSettings(weighting="none"))
    with pytest.raises(SettingsError, match="^features are as large as .* or use standardise=true$"):
        preprocess(features, GPCSettings(standardise=False, inducing_count=4))
    assert np.isfinite(preprocess(features, GPCSettings(inducing_count=4)).inducing).all()
    assert np.isfinite(preprocess(features, MLGPFSettings(**settings)).inducing).all()


SETTINGS = {
    "subspace": MLGPFSettings(inducing="subspace", **SMALL),
    "free": MLGPFSettings(inducing="free", weighting="none", **SMALL),
    "topics": BMLPLSettings(),
    "standardised": GPCSettings(inducing_count=5),
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_arrays_read_back_give_the_same_preprocessing(settings):
    features = small_features()
    before = preprocess(features, settings)
    after = Preprocessed.from_arrays(before.to_arrays(), settings, features.shape[1])
    np.testing.assert_equal(after, before)


def changed(**changes):
    return lambda arrays: arrays | {name: change(arrays[name]) for name, change in changes.items()}


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("subspace", lambda arrays: {}),
        ("topics", lambda arrays: arrays | {"center": arrays["idf"]}),
        ("subspace", changed(idf=lambda idf: idf[1:])),
        ("subspace", changed(basis=lambda basis: basis[1:])),
        ("subspace", changed(basis=lambda basis: basis[:, 1:])),
        ("subspace", changed(basis=lambda basis: np.array(1.0))),
        ("free", changed(inducing=lambda inducing: inducing[:, 1:])),
        ("free", changed(inducing=lambda inducing: inducing[:0])),
        ("standardised", changed(scale=lambda scale: scale[1:])),
        ("standardised", changed(center=lambda center: center * np.nan)),
    ],
)
def test_arrays_of_another_shape_are_refused(kind, change):
    features, settings = small_features(), SETTINGS[kind]
    arrays = change(preprocess(features, settings).to_arrays())
    with pytest.raises(ValueError, match="arrays of preprocessing"):
        Preprocessed.from_arrays(arrays, settings, features.shape[1])
