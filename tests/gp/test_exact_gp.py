"""Exact GP regression on the labels against scikit-learn, and its singular vectors against NumPy."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from tests.grids import each_value
from tests.problems import small_features
from xmlgp.errors import NumericalError
from xmlgp.gp import exact_gp
from xmlgp.gp.exact_gp import LENGTHSCALE, NOISE, ExactGP, ExactGPFit, add_points, fit_exact_gp, scaled_features
from xmlgp.linear_algebra import conjugate_gradients
from xmlgp.preprocess.weighting import weigh
from xmlgp.runtime import threads

N, D, K = 60, 25, 7


@pytest.fixture(autouse=True)
def exact_solutions(monkeypatch):
    """Solve linear systems to single precision."""
    monkeypatch.setattr(conjugate_gradients, "TOLERANCE", 1e-6)


@pytest.fixture(params=["exact", "randomised"])
def both_methods(request, monkeypatch):
    """Run a test with either method for the singular vectors."""
    if request.param == "randomised":
        monkeypatch.setattr(exact_gp, "GRAM_LIMIT", 0)


def problem(points=N, labels=K, seed=0, unit=True):
    """Return weighted features, and labels that depend on them."""
    features = weigh(small_features(points, D, seed=seed), None, unit)
    utilities = features @ np.random.default_rng(seed + 1).normal(size=(D, labels)) * (3 if unit else 1) - 0.5
    return features, sp.csr_array(utilities > 0)


def centred(labels):
    return labels.toarray() - labels.toarray().mean(axis=0)


def predicted(features, labels, points, rank=K, **options):
    weights, loadings, mean = fit_exact_gp(features, labels, rank, **options)
    lengthscale = options.get("lengthscale", LENGTHSCALE)
    return ExactGP(features, weights, lengthscale).latent(points) @ loadings.T + mean


def expected(features, labels, points, lengthscale=LENGTHSCALE, noise=NOISE):
    regressor = GaussianProcessRegressor(RBF(lengthscale), alpha=noise, optimizer=None)
    labels = labels.toarray().astype(float)
    mean = labels.mean(axis=0)
    predictions = regressor.fit(features.toarray().astype(float), labels - mean).predict(points.toarray().astype(float))
    return predictions.reshape(points.shape[0], -1) + mean


@pytest.mark.usefixtures("both_methods")
@each_value(
    unit=[True, False],
    options=[{}, {"lengthscale": 2.5, "noise": 0.05}],
    shape=[(N, K), (N, 1), (1, K), (1, 1), (3, K), (120, 3)],
)
def test_full_rank_prediction_agrees_with_scikit_learn(unit, options, shape):
    features, labels = problem(*shape, unit=unit)
    points = weigh(small_features(20, D, seed=9), None, unit)
    result = predicted(features, labels, points, **options)
    np.testing.assert_allclose(result, expected(features, labels, points, **options), atol=2e-4)


def dense_weights(features, labels, fit, noise=NOISE):
    """Return the weights of a regression with the given loadings and mean, by a dense solve in double precision."""
    x = features.toarray().astype(float)
    distances = np.square(x[:, None] - x[None]).sum(axis=2)
    system = np.exp(-distances / (2 * LENGTHSCALE**2)) + noise * np.eye(len(x))
    target = (labels.toarray() - fit.mean.astype(float)) @ fit.loadings.astype(float)
    return np.linalg.solve(system, target)


@pytest.mark.usefixtures("both_methods")
@each_value(leading=[1, 7, 8, 30, 59, 60], rank=[2, K], noise=[NOISE, 0.1])
def test_a_second_regression_on_the_first_points_has_the_same_loadings_and_mean(leading, rank, noise):
    features, labels = problem(60)
    alone = fit_exact_gp(features, labels, rank, noise=noise)
    whole, first = fit_exact_gp(features, labels, rank, noise=noise, leading=leading)
    for name in ("loadings", "mean"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(alone, name))
        np.testing.assert_array_equal(getattr(first, name), getattr(alone, name))
    np.testing.assert_allclose(whole.weights, alone.weights, rtol=1e-4, atol=1e-5)
    expected = dense_weights(features[:leading], labels[:leading], alone, noise)
    assert first.weights.shape == (leading, alone.loadings.shape[1])
    assert first.weights.dtype == np.float32
    np.testing.assert_allclose(first.weights, expected, rtol=1e-3, atol=1e-4)
    # The labels of the other points change it only by the loadings and the mean.
    assert leading == 60 or np.abs(first.weights - whole.weights[:leading]).max() > 1e-3


@pytest.mark.usefixtures("both_methods")
@pytest.mark.parametrize("rank", [2, 70])
def test_by_default_predictions_are_exact_within_the_tolerance(monkeypatch, rank):
    features, labels = problem(400, 70)
    exact = predicted(features, labels, features, rank)
    monkeypatch.undo()
    found = predicted(features, labels, features, rank)
    assert 1e-5 < np.linalg.norm(found - exact) < conjugate_gradients.TOLERANCE * np.linalg.norm(centred(labels))


@pytest.mark.usefixtures("both_methods")
def test_loadings_are_singular_vectors():
    features, labels = problem(N, 90)
    weights, loadings, mean = fit_exact_gp(features, labels, 5)
    _, singular, vectors = np.linalg.svd(centred(labels))
    assert singular[5] < 0.99 * singular[4]  # so that the fifth vector is unique
    np.testing.assert_allclose(np.abs(np.sum(loadings * vectors[:5].T, axis=0)), 1, atol=1e-4)
    np.testing.assert_allclose(loadings.T @ loadings, np.eye(5), atol=1e-5)
    np.testing.assert_allclose(mean, labels.toarray().mean(axis=0), rtol=1e-6)
    assert [array.shape for array in (weights, loadings, mean)] == [(N, 5), (90, 5), (90,)]
    assert [array.dtype for array in (weights, loadings, mean)] == [np.float32] * 3


def test_randomised_method_captures_as_much_variance_as_the_exact_one(monkeypatch):
    monkeypatch.setattr(exact_gp, "GRAM_LIMIT", 0)
    features, labels = problem(300, 250)
    _, loadings, _ = fit_exact_gp(features, labels, 40)
    assert 40 + exact_gp.OVERSAMPLING < 250
    captured = np.square(centred(labels) @ loadings).sum()
    best = np.square(np.linalg.svd(centred(labels), compute_uv=False)[:40]).sum()
    assert captured == pytest.approx(best, rel=1e-4)


@pytest.mark.usefixtures("both_methods")
@pytest.mark.parametrize("rank", [1, 3])
def test_low_rank_prediction_is_a_projection_of_the_full_one(rank):
    features, labels = problem()
    vectors = np.linalg.svd(centred(labels))[2][:rank]
    mean = labels.toarray().mean(axis=0)
    projected = (expected(features, labels, features) - mean) @ vectors.T @ vectors + mean
    np.testing.assert_allclose(predicted(features, labels, features, rank), projected, atol=2e-4)


@pytest.mark.usefixtures("both_methods")
def test_rank_is_at_most_the_number_of_points_and_labels():
    assert fit_exact_gp(*problem(4, 9), 20).loadings.shape == (9, 4)
    assert fit_exact_gp(*problem(9, 4), 20).loadings.shape == (4, 4)


@pytest.mark.usefixtures("both_methods")
def test_empty_and_duplicate_points_agree_with_scikit_learn():
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
def test_constant_labels_are_predicted_exactly():
    features, labels = problem()
    labels = labels.toarray()
    labels[:, 2], labels[:, 4] = True, False
    result = predicted(features, sp.csr_array(labels), features)
    np.testing.assert_allclose(result[:, 2], 1, atol=1e-5)
    np.testing.assert_allclose(result[:, 4], 0, atol=1e-5)
    constant = predicted(features, sp.csr_array(np.ones((N, K), bool)), features)
    np.testing.assert_allclose(constant, 1, atol=1e-5)


@each_value(rows=[1, 7, 64], cores=[1, 3])
def test_latent_is_the_product_of_covariances_and_weights(monkeypatch, rows, cores):
    monkeypatch.setattr(exact_gp, "ROWS", rows)
    monkeypatch.setattr(threads, "_all_cores", lambda: cores)
    features, points = (weigh(small_features(n, D, seed=n), None, False) for n in (50, 33))
    weights = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    model = ExactGP(features, weights, lengthscale=3.0)
    difference = points.toarray()[:, None].astype(float) - features.toarray()
    direct = np.exp(-np.square(difference).sum(axis=2) / (2 * 3.0**2)) @ weights
    np.testing.assert_allclose(model.latent(points), direct, rtol=1e-4, atol=1e-5)
    # The same inside a parallel task.
    inside = []
    threads.run_parallel([lambda: inside.append(model.latent(points))] * 2)
    np.testing.assert_array_equal(inside[0], model.latent(points))
    assert model.latent(points[:0]).shape == (0, 4)


def test_points_with_another_number_of_features_raise_an_error():
    features, _ = problem()
    with pytest.raises(ValueError, match="points of 24 features for 25"):
        ExactGP(features, np.ones((N, 2), np.float32)).latent(features[:, :24])


def test_result_does_not_depend_on_the_number_of_cores(monkeypatch):
    features, labels = problem(400, 70)
    results = []
    for cores in (1, 2, 3):
        monkeypatch.setattr(threads, "_all_cores", lambda cores=cores: cores)
        fit = fit_exact_gp(features, labels, 70)
        results.append([*fit, ExactGP(features, fit.weights).latent(features)])
    for result in results[1:]:
        for array, first in zip(result, results[0], strict=True):
            np.testing.assert_array_equal(array, first)


def test_features_that_are_not_finite_raise_an_error():
    features, labels = problem()
    features.data[3] = np.nan
    with pytest.raises(NumericalError, match="^the regression cannot be solved: features are not finite"):
        fit_exact_gp(features, labels, K)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_features_whose_squares_overflow_single_precision_raise_an_error(dtype):
    features, labels = problem()
    large = features.astype(dtype)
    large.data[3] = 1e19
    assert np.isfinite(fit_exact_gp(large, labels, K).weights).all()
    large.data[3] = 3e38
    with np.errstate(all="raise", under="ignore"), pytest.raises(NumericalError, match="^regression needs features "):
        fit_exact_gp(large, labels, K)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scaled_features_keep_the_lengths_of_points(dtype):
    random = np.random.default_rng(0)
    dense = random.random((9, 6)) * (random.random((9, 6)) < 0.5)
    dense[3] = 0
    scales = random.uniform(0.1, 5, 6).astype(np.float32)
    found = scaled_features(sp.csr_array(dense.astype(dtype)), scales).toarray()
    scaled = dense * scales
    lengths, wanted = (np.linalg.norm(rows, axis=1, keepdims=True) for rows in (scaled, dense))
    expected = np.divide(scaled * wanted, lengths, out=np.zeros_like(scaled), where=lengths > 0)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert found.dtype == np.float32
    same = scaled_features(sp.csr_array(dense.astype(dtype)), np.full(6, 3, np.float32)).toarray()
    np.testing.assert_allclose(same, dense, rtol=1e-5)


def added(features, labels, count, rank=K, weights=None, seed=(0,)):
    """Return the regression on the first points, with the others added."""
    known = labels[:count].toarray().any(axis=0)
    if weights is None:
        # The labels that the first points lack are unknown to the model.
        fit = fit_exact_gp(features[:count], sp.csr_array(labels[:count].toarray() * known), rank)
        weights, loadings = fit.weights, fit.loadings * known[:, None]
    else:
        weights, loadings = weights
    return add_points(features, labels, weights, loadings, count, rank, list(seed))


def prediction(features, fit, points):
    return ExactGP(features, fit.weights).latent(points) @ fit.loadings.T + fit.mean


@pytest.mark.usefixtures("both_methods")
@pytest.mark.parametrize("count", [0, 1, 30, 59])
def test_added_points_give_the_regression_on_all_points(count):
    features, labels = problem()
    points = weigh(small_features(20, D, seed=9), None, True)
    found, expected = added(features, labels, count), fit_exact_gp(features, labels, K)
    np.testing.assert_allclose(prediction(features, found, points), prediction(features, expected, points), atol=2e-4)
    np.testing.assert_array_equal(found.mean, expected.mean)
    for array, other in zip(found, expected, strict=True):
        assert (array.dtype, array.shape) == (other.dtype, other.shape)


@pytest.mark.usefixtures("both_methods")
@pytest.mark.parametrize("rank", [2, 40])
def test_added_points_give_the_regression_on_all_points_for_any_rank(rank):
    features, labels = problem(labels=90)
    found, expected = added(features, labels, 50, rank), fit_exact_gp(features, labels, rank)
    # Of several batches as well.
    twice = added(features, labels, 55, rank, added(features[:55], labels[:55], 50, rank)[:2])
    for fit in (found, twice):
        np.testing.assert_allclose(
            prediction(features, fit, features), prediction(features, expected, features), atol=2e-3
        )


@pytest.mark.usefixtures("both_methods")
def test_added_points_may_have_new_labels():
    features, labels = problem(labels=9)
    chosen = labels.toarray()
    chosen[:40, 6:] = False
    labels = sp.csr_array(chosen)
    fit = fit_exact_gp(features[:40], sp.csr_array(chosen[:40, :6]), 9)
    loadings = np.vstack([fit.loadings, np.zeros((3, fit.loadings.shape[1]), np.float32)])
    found = add_points(features, labels, fit.weights, loadings, 40, 9, [0])
    expected = fit_exact_gp(features, labels, 9)
    np.testing.assert_allclose(
        prediction(features, found, features), prediction(features, expected, features), atol=2e-4
    )
    assert found.loadings.shape == (9, 9)


def squared_error(features, labels, fit):
    """Return the objective of which the exact regression is the minimum, over the projected labels."""
    x = features.toarray().astype(float)
    distances = np.square(x[:, None] - x[None]).sum(axis=2)
    system = np.exp(-distances / (2 * LENGTHSCALE**2)) + NOISE * np.eye(len(x))
    alpha, target = fit.weights.astype(float), (labels.toarray() - fit.mean.astype(float)) @ fit.loadings.astype(float)
    return 0.5 * np.vdot(alpha, system @ alpha) - np.vdot(alpha, target)


@pytest.mark.usefixtures("both_methods")
@pytest.mark.parametrize("active", [1, 5, 20])
def test_with_many_points_the_squared_error_falls_towards_that_of_the_regression_on_all(monkeypatch, active):
    monkeypatch.setattr(exact_gp, "ACTIVE", active)
    features, labels = problem()
    fit = fit_exact_gp(features[:40], labels[:40], K)
    found, exact = added(features, labels, 40), fit_exact_gp(features, labels, K)
    start = np.zeros((N, K), np.float32)
    start[:40] = fit.weights @ (fit.loadings.T @ found.loadings)
    before, after, least = (
        squared_error(features, labels, ExactGPFit(weights, found.loadings, found.mean))
        for weights in (start, found.weights, exact.weights @ (exact.loadings.T @ found.loadings))
    )
    assert least - 1e-4 < after < before - 1e-3
    changed = (np.abs(found.weights - start) > 1e-6).any(axis=1)
    assert changed[40:].all()
    assert changed[:40].sum() == active


def test_the_seed_decides_which_earlier_points_change(monkeypatch):
    monkeypatch.setattr(exact_gp, "ACTIVE", 5)
    features, labels = problem()
    first, same, other = (added(features, labels, 40, seed=[seed]).weights for seed in (1, 1, 2))
    np.testing.assert_array_equal(same, first)
    assert np.abs(other - first).max() > 1e-4
    monkeypatch.setattr(exact_gp, "ACTIVE", 40)
    np.testing.assert_array_equal(*(added(features, labels, 40, seed=[seed]).weights for seed in (1, 2)))


def test_added_points_that_are_not_finite_raise_an_error():
    features, labels = problem()
    fit = fit_exact_gp(features[:40], labels[:40], K)
    features.data[-1] = np.nan
    with pytest.raises(NumericalError, match="^the regression cannot be solved"):
        add_points(features, labels, fit.weights, fit.loadings, 40, K, [0])
