"""Regression on the labels against scikit-learn's, and singular vectors against NumPy's."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from tests.problems import small_features
from xmlgp.errors import NumericalError
from xmlgp.gp import exact_gp
from xmlgp.gp.exact_gp import LENGTHSCALE, NOISE, Regression, regress
from xmlgp.preprocess.weighting import weigh
from xmlgp.runtime import threads

N, D, K = 60, 25, 7


@pytest.fixture(params=["exact", "randomised"])
def both_methods(request, monkeypatch):
    """Either way to the singular vectors."""
    if request.param == "randomised":
        monkeypatch.setattr(exact_gp, "GRAM_LIMIT", 0)


def problem(points=N, labels=K, seed=0, unit=True):
    """Weighted features, and labels that can be told from them."""
    features = weigh(small_features(points, D, seed=seed), None, unit)
    utilities = features @ np.random.default_rng(seed + 1).normal(size=(D, labels)) * (3 if unit else 1) - 0.5
    return features, sp.csr_array(utilities > 0)


def centred(labels):
    return labels.toarray() - labels.toarray().mean(axis=0)


def predicted(features, labels, points, rank=K, **options):
    weights, loadings, mean = regress(features, labels, rank, **options)
    lengthscale = options.get("lengthscale", LENGTHSCALE)
    return Regression(features, weights, lengthscale).latent(points) @ loadings.T + mean


def expected(features, labels, points, lengthscale=LENGTHSCALE, noise=NOISE):
    regressor = GaussianProcessRegressor(RBF(lengthscale), alpha=noise, optimizer=None)
    labels = labels.toarray().astype(float)
    mean = labels.mean(axis=0)
    predictions = regressor.fit(features.toarray().astype(float), labels - mean).predict(points.toarray().astype(float))
    return predictions.reshape(points.shape[0], -1) + mean


@pytest.mark.usefixtures("both_methods")
@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize("options", [{}, {"lengthscale": 2.5, "noise": 0.05}])
@pytest.mark.parametrize("shape", [(N, K), (N, 1), (1, K), (1, 1), (3, K), (300, 3)])
def test_of_full_rank_it_predicts_what_scikit_learn_does(unit, options, shape):
    features, labels = problem(*shape, unit=unit)
    points = weigh(small_features(20, D, seed=9), None, unit)
    result = predicted(features, labels, points, **options)
    np.testing.assert_allclose(result, expected(features, labels, points, **options), atol=2e-4)


@pytest.mark.usefixtures("both_methods")
def test_loadings_are_singular_vectors():
    features, labels = problem(N, 90)
    weights, loadings, mean = regress(features, labels, 5)
    _, singular, vectors = np.linalg.svd(centred(labels))
    assert singular[5] < 0.99 * singular[4]  # the fifth is one vector, and not any of several
    np.testing.assert_allclose(np.abs(np.sum(loadings * vectors[:5].T, axis=0)), 1, atol=1e-4)
    np.testing.assert_allclose(loadings.T @ loadings, np.eye(5), atol=1e-5)
    np.testing.assert_allclose(mean, labels.toarray().mean(axis=0), rtol=1e-6)
    assert [array.shape for array in (weights, loadings, mean)] == [(N, 5), (90, 5), (90,)]
    assert [array.dtype for array in (weights, loadings, mean)] == [np.float32] * 3


def test_the_randomised_method_captures_what_the_exact_one_does(monkeypatch):
    monkeypatch.setattr(exact_gp, "GRAM_LIMIT", 0)
    features, labels = problem(300, 250)
    _, loadings, _ = regress(features, labels, 40)
    assert 40 + exact_gp.OVERSAMPLING < 250
    captured = np.square(centred(labels) @ loadings).sum()
    best = np.square(np.linalg.svd(centred(labels), compute_uv=False)[:40]).sum()
    assert captured == pytest.approx(best, rel=1e-4)


@pytest.mark.usefixtures("both_methods")
@pytest.mark.parametrize("rank", [1, 3])
def test_of_lower_rank_it_predicts_the_part_in_those_directions(rank):
    features, labels = problem()
    vectors = np.linalg.svd(centred(labels))[2][:rank]
    mean = labels.toarray().mean(axis=0)
    projected = (expected(features, labels, features) - mean) @ vectors.T @ vectors + mean
    np.testing.assert_allclose(predicted(features, labels, features, rank), projected, atol=2e-4)


@pytest.mark.usefixtures("both_methods")
def test_rank_is_at_most_the_number_of_points_and_labels():
    assert regress(*problem(4, 9), 20).loadings.shape == (9, 4)
    assert regress(*problem(9, 4), 20).loadings.shape == (4, 4)


@pytest.mark.usefixtures("both_methods")
def test_points_without_features_and_points_that_coincide():
    features, labels = problem()
    features = features.toarray()
    features[:5], features[5:15] = 0, features[20]
    features = sp.csr_array(features)
    np.testing.assert_allclose(
        predicted(features, labels, features, lengthscale=0.5),
        expected(features, labels, features, lengthscale=0.5),
        atol=2e-4,
    )


@pytest.mark.usefixtures("both_methods")
def test_labels_of_all_points_and_of_none_stay_so():
    features, labels = problem()
    labels = labels.toarray()
    labels[:, 2], labels[:, 4] = True, False
    result = predicted(features, sp.csr_array(labels), features)
    np.testing.assert_allclose(result[:, 2], 1, atol=1e-5)
    np.testing.assert_allclose(result[:, 4], 0, atol=1e-5)
    constant = predicted(features, sp.csr_array(np.ones((N, K), bool)), features)
    np.testing.assert_allclose(constant, 1, atol=1e-5)


@pytest.mark.parametrize("rows", [1, 7, 64])
@pytest.mark.parametrize("cores", [1, 3])
def test_latent_is_the_product_of_covariances_and_weights(monkeypatch, rows, cores):
    monkeypatch.setattr(exact_gp, "ROWS", rows)
    monkeypatch.setattr(threads, "core_count", lambda: cores)
    threads._pool.cache_clear()
    features, points = (weigh(small_features(n, D, seed=n), None, False) for n in (50, 33))
    weights = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    model = Regression(features, weights, lengthscale=3.0)
    difference = points.toarray()[:, None].astype(float) - features.toarray()
    direct = np.exp(-np.square(difference).sum(axis=2) / (2 * 3.0**2)) @ weights
    np.testing.assert_allclose(model.latent(points), direct, rtol=1e-4, atol=1e-5)
    # A task of its own, as where a predictor's cores each take points.
    inside = []
    threads.run_parallel([lambda: inside.append(model.latent(points))] * 2)
    np.testing.assert_array_equal(inside[0], model.latent(points))
    assert model.latent(points[:0]).shape == (0, 4)
    threads._pool.cache_clear()


def test_points_with_other_features_are_refused():
    features, _ = problem()
    with pytest.raises(ValueError, match="points of 24 features for 25"):
        Regression(features, np.ones((N, 2), np.float32)).latent(features[:, :24])


def test_the_number_of_cores_changes_nothing(monkeypatch):
    features, labels = problem(400, 70)
    results = []
    for cores in (1, 2, 3):
        monkeypatch.setattr(threads, "core_count", lambda cores=cores: cores)
        threads._pool.cache_clear()
        fit = regress(features, labels, 70)
        results.append([*fit, Regression(features, fit.weights).latent(features)])
    threads._pool.cache_clear()
    for result in results[1:]:
        for array, first in zip(result, results[0], strict=True):
            np.testing.assert_array_equal(array, first)


def test_covariances_without_a_factor_are_told():
    features, labels = problem()
    doubled = sp.csr_array(sp.vstack([features, features]))
    with pytest.raises(NumericalError, match="cannot be factorised: .* noise variance 0 is too small"):
        regress(doubled, sp.csr_array(sp.vstack([labels, labels])), K, noise=0)
    features.data[3] = np.nan
    with pytest.raises(NumericalError, match="cannot be factorised"):
        regress(features, labels, K)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_features_whose_squares_are_beyond_single_precision_are_refused(dtype):
    features, labels = problem()
    large = features.astype(dtype)
    large.data[3] = 1e19
    assert np.isfinite(regress(large, labels, K).weights).all()
    large.data[3] = 3e38
    with np.errstate(all="raise", under="ignore"), pytest.raises(NumericalError, match="^regression needs features "):
        regress(large, labels, K)
