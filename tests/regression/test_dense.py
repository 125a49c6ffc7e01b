"""Regression on points with dense features: its kernel against scikit-learn, lengthscales, added points, arrays."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from tests.central_differences import central_differences
from xmlgp.data.features import Dense, Features
from xmlgp.errors import NumericalError
from xmlgp.linear_algebra import conjugate_gradients
from xmlgp.linear_algebra.array_groups import arrays_fit
from xmlgp.regression import fitting
from xmlgp.regression.fitting import fit_regression
from xmlgp.regression.kernel import DENSE_NOISE
from xmlgp.regression.lengthscales import leave_one_out
from xmlgp.regression.regression import (
    REGRESSION,
    REGRESSION_DENSE,
    REGRESSION_SCALES,
    Regression,
    RegressionPredictions,
)
from xmlgp.runtime import threads

N, D, E, K = 50, 9, 5, 6

LENGTHSCALES = np.array([1.5, 0.8, 0.8, 2, 2, 2], np.float32)


@pytest.fixture(autouse=True)
def exact_solutions(monkeypatch):
    """Solve linear systems to single precision."""
    monkeypatch.setattr(conjugate_gradients, "TOLERANCE", 1e-6)
    monkeypatch.setattr(fitting, "FINE", 1e-6)


@pytest.fixture
def known_lengthscales(monkeypatch):
    """Fit regressions with given lengthscales."""
    monkeypatch.setattr(fitting, "learned_lengthscales", lambda words, dense, right: LENGTHSCALES.copy())


def problem(count=N, seed=0, words=D):
    """Return points with two dense blocks, as read, of which labels depend on the first one and on words."""
    random = np.random.default_rng(seed)
    sparse = random.random((count, words)) * (random.random((count, words)) < 0.4)
    dense = Dense(
        (random.normal(5, 2, (count, 2)).astype(np.float16), random.normal(size=(count, 3))),
        np.array([5, 5, 0, 0, 0]),
        np.array([1, 1, 2, 2, 2]) / np.sqrt([8, 8, 3, 3, 3]),
    )
    random = np.random.default_rng(1)
    utility = 2 * dense.values()[:, :2] @ random.normal(size=(2, K)) + sparse @ random.normal(size=(words, K))
    return Features(sp.csr_array(sparse.astype(np.float32)), dense), sp.csr_array(utility > 0.3)


def fitted(features, labels):
    return fit_regression(features, labels, None, labels.shape[0])[0]


def prediction(regression, points):
    return RegressionPredictions(regression).latent(points) @ regression.loadings.T + regression.mean


def columns_of(features):
    return np.hstack([features.sparse.toarray(), features.dense.values()]).astype(float)


@pytest.mark.usefixtures("known_lengthscales")
@pytest.mark.parametrize("words", [0, D])
def test_prediction_is_that_of_scikit_learn_with_a_product_of_kernels(words):
    (features, labels), (points, _) = problem(words=words), problem(20, 7, words)
    mean = labels.toarray().mean(axis=0)
    kernel = RBF(np.concatenate([np.full(words, LENGTHSCALES[0]), LENGTHSCALES[1:]]))
    regressor = GaussianProcessRegressor(kernel, alpha=DENSE_NOISE, optimizer=None)
    regressor.fit(columns_of(features), labels.toarray() - mean)
    expected = regressor.predict(columns_of(points)) + mean
    np.testing.assert_allclose(prediction(fitted(features, labels), points), expected, atol=2e-4)


def squared_distances(array):
    return np.square(array[:, None] - array[None]).sum(axis=2)


def small_problem():
    random = np.random.default_rng(3)
    blocks = [random.normal(size=(12, width)) for width in (3, 2)]
    return blocks, [squared_distances(block) for block in blocks], random.normal(size=(12, 4))


def test_errors_are_those_of_regressions_on_all_other_points():
    blocks, distances, right = small_problem()
    points, errors = np.hstack(blocks), []
    for i in range(len(right)):
        others = np.arange(len(right)) != i
        regressor = GaussianProcessRegressor(RBF([1.3] * 3 + [0.7] * 2), alpha=DENSE_NOISE, optimizer=None)
        regressor.fit(points[others], right[others])
        errors.append(right[i] - regressor.predict(points[i : i + 1])[0])
    result = leave_one_out(np.log([1.3, 0.7]), distances, right)[0]
    assert result == pytest.approx(0.5 * np.log(np.square(errors).sum()), rel=1e-9)


def test_gradient_agrees_with_central_differences():
    _, distances, right = small_problem()
    logarithms = {"log_lengthscales": np.array([0.2, -0.5])}
    expected = central_differences(
        lambda given: leave_one_out(given["log_lengthscales"], distances, right)[0], logarithms, logarithms
    )
    result = leave_one_out(logarithms["log_lengthscales"], distances, right)[1]
    np.testing.assert_allclose(result, expected["log_lengthscales"], rtol=1e-5, atol=1e-8)


def test_lengthscales_are_those_of_blocks_and_long_where_a_block_tells_nothing():
    features, labels = problem(300)
    words, *dense = fitted(features, labels).lengthscales
    assert len(set(dense[:2])) == len(set(dense[2:])) == 1
    # The second block is noise.
    assert 0 < words < np.inf
    assert dense[2] > 5 * dense[0]


@pytest.mark.parametrize("constant", ["labels", "words", "dense"])
def test_lengthscales_exist_where_nothing_can_be_learned(constant):
    features, labels = problem(words=0 if constant == "words" else D)
    if constant == "labels":
        labels = sp.csr_array(np.ones(labels.shape, bool))
    if constant == "dense":
        features = Features(features.sparse, Dense((np.ones((N, E)),)))
    result = fitted(features, labels)
    assert (result.lengthscales > 0).all()
    assert np.isfinite(prediction(result, features)).all()


def test_without_words_predictions_follow_the_dense_features():
    features, labels = problem(200, words=0)
    points, true = problem(100, 7, words=0)
    result = prediction(fitted(features, labels), points)
    assert ((result > 0.5) == true.toarray()).mean() > 0.85


def test_result_does_not_depend_on_the_number_of_cores(monkeypatch):
    features, labels = problem(400)
    results = []
    for cores in (1, 3):
        monkeypatch.setattr(threads, "_all_cores", lambda cores=cores: cores)
        fit = fitted(features, labels)
        results.append([fit.lengthscales, fit.weights, RegressionPredictions(fit).latent(features)])
    for array, other in zip(*results, strict=True):
        np.testing.assert_array_equal(array, other)


@pytest.mark.parametrize("value", [np.nan, 1e30])
def test_values_that_cannot_be_compared_raise_an_error_and_large_ones_do_not(value):
    features, labels = problem()
    features.dense.arrays[1][3, 1] = value
    with np.errstate(over="raise", divide="raise"):
        if np.isfinite(value):
            assert np.isfinite(prediction(fitted(features, labels), features)).all()
        else:
            with pytest.raises(NumericalError):
                fitted(features, labels)


def parameters_of_a_model():
    return fitted(*problem()).parameters()


def are_valid(parameters, dense=True):
    groups = {REGRESSION: True, REGRESSION_SCALES: None, REGRESSION_DENSE: dense}
    return arrays_fit(parameters, groups, {"D": D, "K": K, "E": E})


def test_arrays_of_a_model_give_the_same_regression():
    parameters = parameters_of_a_model()
    assert are_valid(parameters)
    features, labels = problem()
    result, points = Regression.of(parameters, D), problem(20, 7)[0]
    np.testing.assert_array_equal(prediction(result, points), prediction(fitted(features, labels), points))


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("dense", None),
        ("dense", np.zeros((N, E + 1), np.float32)),
        ("dense", np.zeros((N - 1, E), np.float32)),
        ("dense", np.zeros((N, E), np.int32)),
        ("lengthscales", None),
        ("lengthscales", np.ones(E, np.float32)),
        ("lengthscales", np.zeros(1 + E, np.float32)),
        ("pool_weight", None),
        ("pool_weight", np.zeros(())),
        ("pool_weight", np.array(1.5)),
        ("pool_weight", np.array([0.5])),
        ("other", np.ones(1)),
    ],
)
def test_arrays_that_do_not_fit_are_not_valid(name, array):
    parameters = parameters_of_a_model() | {f"regression.{name}": array}
    assert not are_valid({name: value for name, value in parameters.items() if value is not None})


def test_dense_arrays_need_a_model_with_dense_features():
    assert not are_valid(parameters_of_a_model(), dense=False)
