"""Predictions against dense formulas, and what they do not depend on."""

import io
import itertools
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit
from scipy.stats import norm

import xmlgp
from tests.grids import each_value
from tests.models.mlgpf.models import (  # fmt: skip
    NEW,
    SMALL,
    D,
    K,
    N,
    factor_utilities,
    model,
    weight_space_model,
    weighted,
)
from tests.problems import small_dataset, small_features
from xmlgp.api.trained_model import open_model
from xmlgp.data.dataset import Features
from xmlgp.features.pipeline import find_inducing_inputs
from xmlgp.gp.posteriors import POSTERIORS
from xmlgp.models.mlgpf.predictor import MLGPFPredictor
from xmlgp.models.mlgpf.settings import MLGPFSettings
from xmlgp.models.mlgpf.train import train
from xmlgp.prediction import predictor as module
from xmlgp.prediction.scores_file import write_scores
from xmlgp.runtime import threads
from xmlgp.runtime.errors import NumericalError


def moments_of_probabilities(mean, variance):
    """Return the mean and the standard deviation of σ(f)."""
    z = np.linspace(-10, 10, 2001)
    weights = norm.pdf(z) / norm.pdf(z).sum()
    values = expit(mean[..., None] + np.sqrt(variance)[..., None] * z)
    expected = values @ weights
    return expected, np.sqrt((values - expected[..., None]) ** 2 @ weights)


@each_value(
    own=[True, False],
    posterior=list(POSTERIORS),
    inducing=["free", "subspace"],
    kernel=[("linear", True), ("se+linear", False), ("se", True)],
    dtype=["float64", "float32"],
)
def test_scores_agree_with_dense_formulas(tmp_path, own, posterior, inducing, kernel, dtype):
    settings = {"posterior": posterior, "inducing": inducing, "kernel": kernel[0], "ard": kernel[1], "dtype": dtype}
    folder = model(tmp_path, own, nodes=100, **settings)
    predictor = open_model(folder).predictor
    mean, variance = factor_utilities(folder)
    utility, std = predictor.score(NEW, "utility", with_std=True)
    assert utility.dtype == std.dtype == dtype
    tolerance = 1e-3 if dtype == "float32" else 1e-5
    np.testing.assert_allclose(utility, mean, rtol=1e-4, atol=tolerance)
    np.testing.assert_allclose(std**2, variance, rtol=1e-3, atol=tolerance)
    probability, deviation = moments_of_probabilities(mean, variance)
    scores, std = predictor.score(NEW, "probability", with_std=True)
    np.testing.assert_allclose(scores, probability, atol=2e-4)
    np.testing.assert_allclose(std, deviation, atol=3e-4)


def test_moments_in_weight_space_agree_with_dense_formulas(tmp_path):
    folder = weight_space_model(tmp_path)
    parameters, points = folder.arrays("parameters."), weighted()
    indptr, features, mean, log_variance = (
        parameters[f"label_weights.{name}"] for name in ("indptr", "features", "mean", "log_variance")
    )
    own, own_variance = (sp.csr_array((a, features, indptr), (K, D)).toarray() for a in (mean, np.exp(log_variance)))
    loadings, variance = parameters["loadings"], np.exp(parameters["latent_weights.log_variance"])
    expected = points @ parameters["latent_weights.mean"] @ loadings.T + parameters["bias"] + points @ own.T
    spread = np.outer(points**2 @ variance, (loadings**2).sum(axis=1)) + points**2 @ own_variance.T
    utility, std = open_model(folder).predictor.score(NEW, "utility", with_std=True)
    # Points are weighted in single precision.
    np.testing.assert_allclose(utility, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(std**2, spread, rtol=1e-5)


@each_value(posterior=list(POSTERIORS), output=module.OUTPUTS)
def test_non_finite_scores_raise(tmp_path, posterior, output):
    predictor = open_model(model(tmp_path, posterior=posterior, weighting="none", dtype="float32")).predictor
    large = NEW[:3].sparse.copy()
    large.data[large.indptr[1] : large.indptr[2]] = 3e38
    large = Features(large)
    # There is no warning either: tests turn warnings into errors.
    with pytest.raises(NumericalError, match=r"^the score of label \d for point 1 is not finite$"):
        predictor.score(large, output, with_std=True)
    with pytest.raises(NumericalError, match=r"^the score of label \d for point 1 is not finite$"):
        write_scores(io.BytesIO(), 3, K, predictor.top(large, None, output, with_std=True))
    # Rows of unit length have no large values.
    unit = open_model(model(tmp_path / "unit", posterior=posterior, weighting="unit", dtype="float32")).predictor
    assert np.isfinite(unit.score(large, output, with_std=True)).all()


def test_no_points(tmp_path):
    predictor = open_model(model(tmp_path)).predictor
    assert predictor.score(NEW[:0], "probability")[0].shape == (0, K)
    assert list(predictor.top(NEW[:0], 3)) == []


@each_value(
    own=[True, False],
    k=[1, 5, None, 1000],
    output=["utility", "probability"],
    with_std=[True, False],
    memory=[0, 1 << 28],
)
def test_top_labels_agree_with_all_scores(tmp_path, monkeypatch, own, k, output, with_std, memory):
    predictor = open_model(model(tmp_path, own)).predictor
    values, deviations = predictor.score(NEW, output, with_std=True)
    alone, nothing = predictor.score(NEW, output)
    assert nothing is None
    np.testing.assert_allclose(alone, values, rtol=1e-6)
    kept = min(k or K, K)
    order = np.argsort(-values, axis=1)[:, :kept]
    # Labels in blocks, the last one smaller; then a sort of all labels.
    for few in (64, 0):
        monkeypatch.setattr("xmlgp.prediction.predictor.MAX_STREAMED", few)
        monkeypatch.setattr(module, "LABELS", 3)
        monkeypatch.setattr("xmlgp.prediction.predictor.MEMORY", memory)
        pieces = list(predictor.top(NEW, k, output, with_std))
        assert len(pieces) == (1 if memory else N)
        labels, scores = (np.concatenate([getattr(piece, name) for piece in pieces]) for name in ("labels", "scores"))
        np.testing.assert_array_equal(labels.reshape(-1, kept), order)
        expected = np.take_along_axis(values, order, axis=1)
        np.testing.assert_allclose(scores.reshape(-1, kept), expected, rtol=1e-5, atol=1e-5)
        if with_std:
            std = np.concatenate([piece.std for piece in pieces]).reshape(-1, kept)
            np.testing.assert_allclose(std, np.take_along_axis(deviations, order, axis=1), rtol=1e-5, atol=1e-6)
        else:
            assert all(piece.std is None for piece in pieces)


@pytest.mark.parametrize(("k", "settings"), [(20, {"posterior": "diagonal"}), (5, {"inducing": "features"})], ids=str)
def test_the_best_of_many_labels_are_those_of_highest_probability(tmp_path, k, settings):
    many = small_dataset(N=200, D=D, K=90)
    chosen = {"factors": 5, "epochs": 8, "label_weights": "inducing" in settings}
    predictor = xmlgp.train(many, tmp_path, settings=MLGPFSettings(**SMALL | chosen | settings)).predictor
    points = Features(small_features(100, D, seed=9))
    (top,) = predictor.top(points, k)
    probabilities, _ = predictor.score(points, "probability")
    order = np.argsort(-probabilities, axis=1)[:, :k]
    np.testing.assert_array_equal(top.labels.reshape(order.shape), order)
    found = top.scores.reshape(order.shape)
    np.testing.assert_allclose(found, np.take_along_axis(probabilities, order, axis=1), rtol=1e-9)
    utility, _ = predictor.score(points, "utility")
    assert (np.argsort(-utility, axis=1)[:, :k] != order).any()


@pytest.mark.parametrize("ranking", module.OUTPUTS)
def test_the_default_output_is_what_the_settings_rank_by(tmp_path, ranking):
    predictor = open_model(model(tmp_path, ranking=ranking)).predictor
    assert predictor.default_output == ranking
    np.testing.assert_array_equal(predictor.score(NEW)[0], predictor.score(NEW, ranking)[0])
    np.testing.assert_array_equal(next(predictor.top(NEW, 3)).scores, next(predictor.top(NEW, 3, ranking)).scores)


@each_value(
    inducing=["free", "subspace", "features"], kernel=["linear", "se"], posterior=["shared-diagonal", "cholesky"]
)
def test_scores_do_not_depend_on_the_number_of_cores(monkeypatch, inducing, kernel, posterior):
    """With matrices so large that work is divided, and that BLAS would use several threads."""
    kernel = "linear" if inducing == "features" else kernel
    settings = MLGPFSettings(
        inducing=inducing, kernel=kernel, posterior=posterior, inducing_count=200, basis_size=300, factors=100, epochs=1
    )
    dataset = small_dataset(N=700, D=900, K=150)
    preprocessed = find_inducing_inputs(dataset.features, settings)
    parameters = train(dataset.features, dataset.labels, preprocessed, settings).parameters
    found = []
    for cores in (1, 2, 3):
        monkeypatch.setattr(threads, "_all_cores", lambda cores=cores: cores)
        predictor = MLGPFPredictor(settings, preprocessed, parameters, 900)
        outputs = (predictor.top(dataset.features, 5, output) for output in ("utility", "probability"))
        found.append([scores.scores for scores in itertools.chain(*outputs)])
    for other in found[1:]:
        for left, right in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(left, right)


def test_memory_is_bounded(tmp_path, monkeypatch):
    predictor = open_model(model(tmp_path, posterior="cholesky")).predictor
    many = small_features(3000, D, seed=4)
    # Compiles what is not in the cache.
    list(predictor.top(NEW, 5, "probability", with_std=True))
    tracemalloc.start()
    monkeypatch.setattr("xmlgp.prediction.predictor.MEMORY", 1 << 18)
    pieces = sum(1 for _ in predictor.top(Features(many), 5, "probability", with_std=True))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert pieces > 1
    assert peak < 4 << 20
