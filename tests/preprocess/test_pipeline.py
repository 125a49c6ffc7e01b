"""Preprocessing as a whole: which parts a setting asks for."""

import contextlib
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import normalize

from tests.problems import small_features
from xmlgp.errors import SettingsError
from xmlgp.preprocess import basis
from xmlgp.preprocess import pipeline as module
from xmlgp.preprocess.basis import truncated_svd_basis
from xmlgp.preprocess.inducing import start_inducing
from xmlgp.preprocess.pipeline import preprocess
from xmlgp.preprocess.weighting import inverse_document_frequency, weigh
from xmlgp.settings import BMLPLSettings, MLGPFSettings

SMALL = {"basis_size": 6, "inducing_count": 5}


@pytest.mark.parametrize("start", ["kmeans", "rows"])
@pytest.mark.parametrize("inducing", ["subspace", "free"])
@pytest.mark.parametrize("weighting", ["root-idf", "idf", "unit", "none"])
def test_parts(weighting, inducing, start):
    features = small_features()
    result = preprocess(
        features, MLGPFSettings(weighting=weighting, inducing=inducing, inducing_start=start, seed=3, **SMALL)
    )
    idf = inverse_document_frequency(features)
    idf = {"root-idf": np.sqrt(idf), "idf": idf}.get(weighting)
    weighted = weigh(features, idf, weighting != "none", weighting == "root-idf")
    expected_basis = truncated_svd_basis(weighted, 6, 3) if inducing == "subspace" else None
    coordinates = weighted.toarray() if expected_basis is None else weighted @ expected_basis.T

    assert result.weighting[1:] == (weighting != "none", weighting == "root-idf")
    np.testing.assert_array_equal(result.weigh(features).toarray(), weighted.toarray())
    for found, expected in (result.weighting.idf, idf), (result.basis, expected_basis):
        assert (found is None) == (expected is None)
        if found is not None:
            np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(result.inducing, start_inducing(coordinates, 5, start, 3), atol=1e-5)
    np.testing.assert_allclose(result.coordinates(features, np.float64).all(), coordinates, atol=1e-5)


def test_the_default_weights_features_by_scikit_learns_frequencies_once_in_inner_products():
    features = small_features()
    result = preprocess(features, MLGPFSettings(**SMALL))
    idf = TfidfTransformer().fit(features).idf_
    np.testing.assert_allclose(result.weighting.idf**2, idf, rtol=1e-6)
    assert result.weighting.idf.dtype == np.float32
    # New points are weighed by the frequencies of the training points.
    new = small_features(N=5, seed=4)
    expected = normalize(np.log1p(new.toarray()) * np.sqrt(idf))
    np.testing.assert_allclose(result.weigh(new).toarray(), expected, rtol=1e-5)


@pytest.mark.parametrize("weighting", ["root-idf", "idf", "unit", "none"])
def test_without_inducing_inputs_there_are_the_weights_alone(weighting):
    features = small_features()
    result = preprocess(features, BMLPLSettings(weighting=weighting))
    expected = preprocess(features, MLGPFSettings(weighting=weighting, **SMALL))
    assert (result.basis, result.inducing) == (None, None)
    assert result.weighting[1:] == expected.weighting[1:]
    np.testing.assert_array_equal(result.weighting.idf, expected.weighting.idf)
    np.testing.assert_array_equal(result.weigh(features).toarray(), expected.weigh(features).toarray())


@pytest.mark.parametrize("weighting", ["root-idf", "none"])
def test_without_inducing_inputs_features_are_not_copied(monkeypatch, weighting):
    monkeypatch.setattr(module, "CHUNK", 1 << 14)
    features = sp.random_array((20_000, 300), density=0.2, rng=np.random.default_rng(0), dtype=np.float32).tocsr()
    tracemalloc.start()
    try:
        preprocess(features, BMLPLSettings(weighting=weighting))
        assert tracemalloc.get_traced_memory()[1] < features.data.nbytes / 2
    finally:
        tracemalloc.stop()


def test_without_inducing_inputs_there_is_no_dense_copy_of_features(monkeypatch):
    features = small_features(100, 30, density=0.5)
    result = preprocess(features, BMLPLSettings())
    coordinates = result.coordinates(features, np.float64)
    assert sp.issparse(coordinates.all())
    expected = result.weigh(features)[3:9].toarray()
    # What is kept is what training asks for.
    monkeypatch.setattr(module, "weigh", None)
    np.testing.assert_array_equal(coordinates.weighted(slice(3, 9)).toarray(), expected)


def test_sizes_are_cut_to_the_data():
    result = preprocess(small_features(N=6, D=9), MLGPFSettings(inducing="subspace"))
    assert result.basis.shape == (6, 9)
    assert result.inducing.shape == (6, 6)


@pytest.mark.parametrize("shape", [(4, 5), (4, 0), (0, 5)])
@pytest.mark.parametrize("settings", [MLGPFSettings(), BMLPLSettings()], ids=lambda settings: settings.model)
def test_without_any_feature_there_is_nothing_to_learn_from(settings, shape):
    with pytest.raises(SettingsError, match="no training point has a feature"):
        preprocess(sp.csr_array(shape, dtype=np.float32), settings)


@pytest.mark.parametrize("inducing", ["subspace", "free"])
def test_progress_is_reported_in_full(monkeypatch, inducing):
    monkeypatch.setattr(basis, "GRAM_LIMIT", 0)
    stages = []

    @contextlib.contextmanager
    def progress(label, total=None, unit="it"):
        reports = []
        yield SimpleNamespace(update=lambda count=1, **facts: reports.append(count))
        assert sum(reports) == total
        stages.append(label)

    preprocess(small_features(), MLGPFSettings(inducing=inducing, inducing_start="kmeans", **SMALL), progress)
    assert stages == ["truncated SVD"] * (inducing == "subspace") + ["k-means"]


@pytest.mark.parametrize("start", ["kmeans", "rows"])
@pytest.mark.parametrize("inducing", ["subspace", "free"])
def test_only_the_coordinates_of_candidates_are_computed(monkeypatch, inducing, start):
    features = small_features(N=60)
    seen = []
    monkeypatch.setattr(module, "candidates", lambda *arguments: np.arange(0, 60, 3))
    monkeypatch.setattr(
        module, "start_inducing", lambda values, *arguments: seen.append(values.shape[0]) or np.zeros((5, 6))
    )
    preprocess(features, MLGPFSettings(inducing=inducing, inducing_start=start, **SMALL))
    assert seen == [20]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("inducing", ["free", "subspace"])
@pytest.mark.parametrize("value", [1e16, -3e38])
def test_features_whose_squares_do_not_fit_are_refused(monkeypatch, inducing, value):
    monkeypatch.setattr(module, "CHUNK", 4)
    features = small_features()
    features.data[3] = value
    settings = {"inducing": inducing, "basis_size": 5, "inducing_count": 4}
    with pytest.raises(SettingsError, match="^features are as large as .*--weighting$"):
        preprocess(features, MLGPFSettings(weighting="none", **settings))
    with pytest.raises(SettingsError, match="^features are as large as .*--weighting$"):
        preprocess(features, BMLPLSettings(weighting="none"))
    assert np.isfinite(preprocess(features, MLGPFSettings(**settings)).inducing).all()
