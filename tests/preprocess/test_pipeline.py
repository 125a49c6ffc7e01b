"""Preprocessing as a whole: which parts a setting asks for."""

import contextlib

import numpy as np
import pytest
import scipy.sparse as sp

from tests.problems import small_features
from xmlgp.errors import SettingsError
from xmlgp.preprocess.basis import truncated_svd_basis
from xmlgp.preprocess.inducing import start_inducing
from xmlgp.preprocess.pipeline import preprocess
from xmlgp.preprocess.weighting import inverse_document_frequency, weigh
from xmlgp.settings import Settings

SMALL = {"basis_size": 6, "inducing_count": 5}


@pytest.mark.parametrize("start", ["kmeans", "rows"])
@pytest.mark.parametrize("inducing", ["subspace", "free"])
@pytest.mark.parametrize("weighting", ["idf", "unit", "none"])
def test_parts(weighting, inducing, start):
    features = small_features()
    result = preprocess(
        features, Settings(weighting=weighting, inducing=inducing, inducing_start=start, seed=3, **SMALL)
    )
    idf = inverse_document_frequency(features) if weighting == "idf" else None
    weighted = weigh(features, idf, weighting != "none")
    basis = truncated_svd_basis(weighted, 6, 3) if inducing == "subspace" else None
    coordinates = weighted.toarray() if basis is None else weighted @ basis.T

    assert result.unit == (weighting != "none")
    for found, expected in (result.idf, idf), (result.basis, basis):
        assert (found is None) == (expected is None)
        if found is not None:
            np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(result.inducing, start_inducing(coordinates, 5, start, 3), atol=1e-5)
    np.testing.assert_allclose(result.coordinates(features, np.float64).all(), coordinates, atol=1e-5)


def test_sizes_are_cut_to_the_data():
    result = preprocess(small_features(N=6, D=9), Settings(inducing="subspace"))
    assert result.basis.shape == (6, 9)
    assert result.inducing.shape == (6, 6)


@pytest.mark.parametrize("shape", [(4, 5), (4, 0), (0, 5)])
def test_without_any_feature_there_is_nothing_to_learn_from(shape):
    with pytest.raises(SettingsError, match="no training point has a feature"):
        preprocess(sp.csr_array(shape, dtype=np.float32), Settings())


def test_progress_is_reported_in_full():
    reports = []

    class Bar:
        def update(self, count=1, **facts):
            reports.append(count)

    @contextlib.contextmanager
    def progress(label, total=None, unit="it"):
        yield Bar()
        assert sum(reports) == total

    preprocess(small_features(), Settings(**SMALL), progress)
    assert reports
