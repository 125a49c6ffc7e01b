"""Regression on the labels against scikit-learn, and its singular vectors against NumPy."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from tests.grids import each_value
from tests.problems import small_features
from xmlgp.data.features import Features
from xmlgp.errors import NumericalError
from xmlgp.linear_algebra import conjugate_gradients
from xmlgp.preprocess.weighting import weigh
from xmlgp.regression import fitting, kernel
from xmlgp.regression.fitting import fit_regression
from xmlgp.regression.kernel import CrossCovariance
from xmlgp.regression.regression import RegressionPredictions, scaled
from xmlgp.runtime import threads

N, D, K = 60, 25, 7


@pytest.fixture(autouse=True)
def exact_solutions(monkeypatch):
    """Solve linear systems to single precision."""
    monkeypatch.setattr(conjugate_gradients, "TOLERANCE", 1e-6)
    monkeypatch.setattr(fitting, "FINE", 1e-6)


@pytest.fixture(params=["exact", "randomised"])
def both_methods(request, monkeypatch):
    """Run a test with either method for the singular vectors."""
    if request.param == "randomised":
        monkeypatch.setattr(fitting, "GRAM_LIMIT", 0)


def problem(points=N, labels=K, unit=True):
    """Return weighted features, some empty and some equal, and labels that depend on them."""
    features = small_features(points, D).toarray()
    features[20:25], features[25:30] = 0, features[:1]
    features = weigh(sp.csr_array(features), None, unit)
    utilities = features @ np.random.default_rng(1).normal(size=(D, labels)) * (3 if unit else 1) - 0.5
    return features, sp.csr_array(utilities > 0)


def new_points(count=20, unit=True):
    return weigh(small_features(count, D, seed=9), None, unit)


def centred(labels):
    return labels.toarray() - labels.toarray().mean(axis=0)


def fitted(features, labels, leading=None):
    """Return the regression on all points."""
    return fit_regression(features, labels, None, leading or labels.shape[0])[0]


def prediction(regression, points):
    return RegressionPredictions(regression).latent(Features(points)) @ regression.loadings.T + regression.mean


def assert_same_predictions(result, expected, points, atol=2e-4):
    np.testing.assert_allclose(prediction(result, points), prediction(expected, points), atol=atol)


@pytest.mark.usefixtures("both_methods")
@each_value(
    unit=[True, False], constants=[(0.7, 0.5), (2.5, 0.05)], shape=[(N, K), (N, 1), (1, K), (1, 1), (3, K), (120, 3)]
)
def test_full_rank_prediction_agrees_with_scikit_learn(monkeypatch, unit, constants, shape):
    monkeypatch.setattr(kernel, "LENGTHSCALE", constants[0])
    monkeypatch.setattr(kernel, "NOISE", constants[1])
    features, labels = problem(*shape, unit=unit)
    points, mean = new_points(unit=unit), labels.toarray().mean(axis=0)
    regressor = GaussianProcessRegressor(RBF(constants[0]), alpha=constants[1], optimizer=None)
    regressor.fit(features.toarray().astype(float), centred(labels))
    expected = regressor.predict(points.toarray().astype(float)).reshape(20, -1) + mean
    result = fitted(features, labels)
    np.testing.assert_allclose(prediction(result, points), expected, atol=2e-4)


def system_of(features):
    """Return K_XX + noise I."""
    x = features.toarray().astype(float)
    distances = np.square(x[:, None] - x[None]).sum(axis=2)
    return np.exp(-distances / (2 * kernel.LENGTHSCALE**2)) + kernel.NOISE * np.eye(len(x))


def target_of(labels, fit):
    return (labels.toarray() - fit.mean.astype(float)) @ fit.loadings.astype(float)


@pytest.mark.usefixtures("both_methods")
@each_value(leading=[1, 30], rank=[2, K])
def test_a_second_regression_on_the_first_points_has_the_same_loadings_and_mean(monkeypatch, leading, rank):
    monkeypatch.setattr(fitting, "RANK", rank)
    features, labels = problem()
    alone = fitted(features, labels)
    whole, first = fit_regression(features, labels, None, leading)
    for fit in (whole, first):
        np.testing.assert_array_equal(fit.loadings, alone.loadings)
        np.testing.assert_array_equal(fit.mean, alone.mean)
    np.testing.assert_allclose(whole.weights, alone.weights, rtol=1e-4, atol=1e-5)
    assert first.weights.shape == (leading, alone.loadings.shape[1])
    expected = np.linalg.solve(system_of(features[:leading]), target_of(labels[:leading], alone))
    np.testing.assert_allclose(first.weights, expected, rtol=1e-3, atol=1e-4)
    # The labels of the other points change it only by the loadings and the mean.
    assert np.abs(first.weights - whole.weights[:leading]).max() > 1e-3


@pytest.mark.usefixtures("both_methods")
def test_loadings_are_singular_vectors(monkeypatch):
    monkeypatch.setattr(fitting, "RANK", 5)
    features, labels = problem(N, 90)
    _, _, weights, loadings, mean = fitted(features, labels)
    _, singular, vectors = np.linalg.svd(centred(labels))
    assert singular[5] < 0.99 * singular[4]  # so that the fifth vector is unique
    np.testing.assert_allclose(np.abs(np.sum(loadings * vectors[:5].T, axis=0)), 1, atol=1e-4)
    np.testing.assert_allclose(loadings.T @ loadings, np.eye(5), atol=1e-5)
    np.testing.assert_allclose(mean, labels.toarray().mean(axis=0), rtol=1e-6)
    assert [array.shape for array in (weights, loadings, mean)] == [(N, 5), (90, 5), (90,)]
    assert [array.dtype for array in (weights, loadings, mean)] == [np.float32] * 3


@each_value(rows=[1, 7, 64], cores=[1, 3])
def test_latent_is_the_product_of_covariances_and_weights(monkeypatch, rows, cores):
    monkeypatch.setattr(kernel, "ROWS", rows)
    monkeypatch.setattr(kernel, "LENGTHSCALE", 3.0)
    monkeypatch.setattr(threads, "_all_cores", lambda: cores)
    (features, _), points = problem(unit=False), new_points(33, unit=False)
    weights = np.random.default_rng(0).normal(size=(N, 4)).astype(np.float32)
    covariances = CrossCovariance(Features(features))
    difference = points.toarray()[:, None].astype(float) - features.toarray()
    direct = np.exp(-np.square(difference).sum(axis=2) / (2 * 3.0**2)) @ weights
    np.testing.assert_allclose(covariances.product(Features(points), weights), direct, rtol=1e-4, atol=1e-5)
    assert covariances.product(Features(points[:0]), weights).shape == (0, 4)


def test_result_does_not_depend_on_the_number_of_cores(monkeypatch):
    features, labels = problem(400, 70)
    results = []
    for cores in (1, 2, 3):
        monkeypatch.setattr(threads, "_all_cores", lambda cores=cores: cores)
        fit = fitted(features, labels)
        results.append([fit.weights, fit.loadings, RegressionPredictions(fit).latent(Features(features))])
    for result in results[1:]:
        for array, first in zip(result, results[0], strict=True):
            np.testing.assert_array_equal(array, first)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_features_that_are_not_finite_or_whose_squares_overflow_raise_an_error(dtype):
    features, labels = problem()
    features = features.astype(dtype)
    features.data[3] = 1e19
    assert np.isfinite(fitted(features, labels).weights).all()
    features.data[3] = 3e38
    with np.errstate(all="raise", under="ignore"), pytest.raises(NumericalError, match="^regression needs features "):
        fitted(features, labels)
    features.data[3] = np.nan
    with pytest.raises(NumericalError, match="^the regression cannot be solved: features are not finite"):
        fitted(features, labels)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scaled_features_keep_the_lengths_of_points(dtype):
    random = np.random.default_rng(0)
    dense = random.random((9, 6)) * (random.random((9, 6)) < 0.5)
    dense[3] = 0
    scales = random.uniform(0.1, 5, 6).astype(np.float32)
    result = scaled(sp.csr_array(dense.astype(dtype)), scales).toarray()
    products = dense * scales
    lengths, expected_lengths = (np.linalg.norm(rows, axis=1, keepdims=True) for rows in (products, dense))
    expected = np.divide(products * expected_lengths, lengths, out=np.zeros_like(products), where=lengths > 0)
    np.testing.assert_allclose(result, expected, rtol=1e-5)
    assert result.dtype == np.float32
