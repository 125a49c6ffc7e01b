"""Regression on the nearest points against dense formulas: predictions, pooling, arrays of a model."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import logit
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from tests.grids import each_value
from xmlgp.data.features import Features
from xmlgp.linear_algebra.array_groups import arrays_fit
from xmlgp.regression import neighbours
from xmlgp.regression.neighbours import (
    DENSE_NOISE,
    MARGIN,
    NEIGHBOURS,
    NeighbourPredictions,
    NeighbourRegression,
    fit_neighbours,
)
from xmlgp.runtime import threads

N, D, E, K = 90, 12, 5, 8


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Predict from 20 points, in blocks of 7, with three words among the dense features."""
    monkeypatch.setattr(neighbours, "NEAREST", 20)
    monkeypatch.setattr(neighbours, "ROWS", 7)
    monkeypatch.setattr(neighbours, "FREQUENT", 3)


def problem(count=N, seed=0, words=D):
    """Return points with dense columns of several scales, of which labels depend on the first two and on words.

    Some points have no words, some no label. The last label is rare.
    """
    random = np.random.default_rng(seed)
    sparse = random.random((count, words)) * (random.random((count, words)) < np.linspace(0.7, 0.1, words))
    sparse[1:3] = 0
    values = random.normal(size=(count, E))
    dense = 100 + values * [1, 10, 0.1, 1, 1]
    random = np.random.default_rng(1)
    utilities = values[:, :2] @ random.normal(size=(2, K)) + sparse @ random.normal(size=(words, K))
    utilities[:, -1] -= 1.5
    return Features(sp.csr_array(sparse.astype(np.float32)), dense), sp.csr_array(utilities > 0.5)


def scales_of(words=D):
    return np.random.default_rng(2).uniform(0.5, 2, words).astype(np.float32)


def fitted(words=D, **options):
    return fit_neighbours(*problem(words=words), scales_of(words), **options)


def columns_of(features, fit):
    """Return words and dense features such that the kernel is the exponential of half the squared distance."""
    words = features.sparse.toarray().astype(float)
    scaled = words * fit.scales
    lengths, new_lengths = (np.linalg.norm(rows, axis=1, keepdims=True) for rows in (words, scaled))
    scaled *= np.divide(lengths, new_lengths, out=np.zeros_like(lengths), where=new_lengths > 0)
    return np.hstack([scaled / fit.lengthscales[0], (features.dense - fit.center) / fit.lengthscales[1:]])


def expected_predictions(points, features, targets, fit):
    """Return the predictions by scikit-learn, one point after the other."""
    rows, others = (columns_of(some, fit) for some in (points, features))
    result = np.empty((len(rows), targets.shape[1]))
    for i, row in enumerate(rows):
        nearest = np.argsort(np.square(others - row).sum(axis=1))[: neighbours.NEAREST]
        regressor = GaussianProcessRegressor(RBF(1), alpha=DENSE_NOISE, optimizer=None)
        result[i] = regressor.fit(others[nearest], targets[nearest]).predict(row[None])[0]
    return result.clip(0, 1)


@each_value(words=[D, 0], nearest=[20, N + 1])
def test_predictions_are_those_of_scikit_learn_on_the_nearest_points(monkeypatch, words, nearest):
    monkeypatch.setattr(neighbours, "NEAREST", nearest)
    (features, labels), (points, _), fit = problem(words=words), problem(30, 7, words), fitted(words)
    result = NeighbourPredictions(fit).predict(points)
    expected = expected_predictions(points, features, labels.toarray().astype(float), fit)
    np.testing.assert_allclose(result.toarray(), expected, atol=2e-3)
    assert (np.abs(expected) > 0.1).mean() > 0.2
    assert result.has_sorted_indices
    assert (result.data > 0).all()


def test_a_point_has_the_predictions_that_it_has_among_others_on_any_number_of_cores(monkeypatch):
    predictions, (points, _) = NeighbourPredictions(fitted()), problem(30, 7)
    expected = predictions.predict(points).toarray()
    for cores in (1, 3):
        monkeypatch.setattr(threads, "_all_cores", lambda cores=cores: cores)
        np.testing.assert_array_equal(predictions.predict(points).toarray(), expected)
        np.testing.assert_array_equal(predictions.predict(points[9:10]).toarray(), expected[9:10])
    assert predictions.predict(points[:0]).shape == (0, K)


@each_value(words=[D, 0])
def test_the_mean_logarithm_of_covariances_is_minus_one_in_equal_shares(words):
    features, labels = problem(words=words)
    fit = fit_neighbours(features, labels, scales_of(words))
    shares = [
        -0.5 * np.square(block[:, None] - block[None]).sum(axis=2).mean()
        for block in np.split(columns_of(features, fit), [words, words + 2], axis=1)
    ]
    np.testing.assert_allclose(shares, [-1 / 2, -1 / 5, -3 / 10] if words else [0, -2 / 5, -3 / 5], rtol=1e-4)


def test_columns_that_are_equal_and_values_that_are_large_are_no_obstacle():
    features, labels = problem()
    features.dense[:, 0] = 7
    features.dense[3, 1] = 1e30
    fit = fit_neighbours(features, labels, scales_of())
    assert np.isfinite(fit.features.dense).all()
    points = Features(features.sparse[:2], np.full((2, E), 3e38))
    for some in (features, points):
        assert np.isfinite(NeighbourPredictions(fit).predict(some).toarray()).all()


def pooled(mean, weight, predicted):
    predicted = (predicted + MARGIN) / (1 + 2 * MARGIN)
    return (1 - weight) * mean + weight * logit(predicted)


@each_value(weight=[0.2, 0.7], dtype=[np.float32, np.float64])
def test_moments_are_pooled_with_log_odds(weight, dtype):
    predictions, (points, _) = NeighbourPredictions(fitted()._replace(weight=np.array(weight))), problem(30, 7)
    predicted = predictions.predict(points)
    random = np.random.default_rng(3)
    mean, variance = random.normal(size=(30, K)).astype(dtype), random.random((30, K)).astype(dtype)
    expected = pooled(mean.astype(float), weight, predicted.toarray().astype(float))
    for labels in (slice(0, K), slice(2, 5)):
        block, variances = mean[:, labels].copy(), variance[:, labels].copy()
        predictions.pool(predicted, labels, block, variances)
        np.testing.assert_allclose(block, expected[:, labels], atol=1e-5)
        np.testing.assert_allclose(variances, (1 - weight) ** 2 * variance[:, labels], rtol=1e-5)
    chosen = random.random((30, K)) < 0.5
    indptr = np.concatenate([[0], np.cumsum(chosen.sum(axis=1))])
    # In another order than that of labels.
    rows, labels = np.nonzero(chosen[:, ::-1])
    labels = K - 1 - labels
    pairs, variances = mean[rows, labels], variance[rows, labels]
    predictions.pool_pairs(predicted, indptr, labels.astype(np.int32), pairs, variances)
    np.testing.assert_allclose(pairs, expected[rows, labels], atol=1e-5)
    np.testing.assert_allclose(variances, (1 - weight) ** 2 * variance[rows, labels], rtol=1e-5)


def test_at_most_so_many_points_are_kept(monkeypatch):
    monkeypatch.setattr(neighbours, "MOST", 40)
    (features, labels), fit = problem(), fitted()
    assert fit.features.N == fit.targets.shape[0] == 40
    # Points have their own labels.
    stored = (features.dense - fit.center) / fit.lengthscales[1:]
    rows = [int(np.abs(stored - row).max(axis=1).argmin()) for row in fit.features.dense]
    np.testing.assert_array_equal(fit.targets.toarray(), labels.toarray()[rows])
    assert max(rows) > 50


def are_valid(parameters):
    groups = {NEIGHBOURS: True}
    return arrays_fit(parameters, groups, {"D": D, "K": K, "E": E})


def test_arrays_of_a_model_give_the_same_predictions():
    fit, (points, _) = fitted(), problem(30, 7)
    parameters = fit.parameters()
    assert are_valid(parameters)
    assert parameters["neighbours.dense"].dtype == np.float16
    result, expected = (
        NeighbourPredictions(regression).predict(points).toarray()
        for regression in (NeighbourRegression.of(parameters, D, K), fit)
    )
    np.testing.assert_array_equal(result, expected)
    assert NeighbourRegression.of({}, D, K) is None


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("dense", None),
        ("dense", np.zeros((N, E + 1), np.float16)),
        ("dense", np.zeros((N - 1, E), np.float16)),
        ("dense", np.zeros((N, E), np.int32)),
        ("center", None),
        ("center", np.zeros(E + 1)),
        ("scales", None),
        ("scales", np.ones(D + 1, np.float32)),
        ("lengthscales", np.ones(E, np.float32)),
        ("lengthscales", np.zeros(1 + E, np.float32)),
        ("indptr", np.zeros(N + 1, np.int64)),
        ("labels", None),
        ("label_indptr", np.zeros(N, np.int64)),
        ("weight", None),
        ("weight", np.zeros(())),
        ("weight", np.ones(())),
        ("weight", np.array([0.5])),
        ("other", np.ones(1)),
    ],
)
def test_arrays_that_do_not_fit_are_not_valid(name, array):
    parameters = fitted().parameters() | {f"neighbours.{name}": array}
    assert not are_valid({name: value for name, value in parameters.items() if value is not None})


@pytest.mark.parametrize("name", ["indices", "labels"])
def test_indices_of_features_and_labels_that_do_not_exist_are_not_valid(name):
    parameters = fitted().parameters()
    damaged = parameters[f"neighbours.{name}"].copy()
    for value in (-1, 30):
        damaged[3] = value
        assert not are_valid(parameters | {f"neighbours.{name}": damaged})
