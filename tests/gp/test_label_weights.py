"""Weights of the labels' own against sets, integrals and dense products."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

from tests.damage import around, changed_at, longer, shorter
from tests.gp.reference import STEADY, random_labels
from tests.problems import small_features
from xmlgp.gp import label_weights as module
from xmlgp.gp.label_weights import (
    LABEL_WEIGHTS_FIXED,
    LabelWeights,
    PairsByLabel,
    WeightedPoints,
    fits,
    initial_label_weights,
    own_features,
)
from xmlgp.runtime import threads

B, D, K = 9, 11, 7
BOTH = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def problem(dtype=np.float64, seed=0):
    """Weights of labels, of which two have none, and other points, of which one has no feature."""
    random = np.random.default_rng(seed)
    labels = random_labels(random, 20, K).toarray()
    labels[:, 2] = labels[:, K - 1] = False
    features = small_features(20, D, density=0.2, seed=seed)
    parameters = initial_label_weights(features, sp.csr_array(labels), random.normal(size=K), np.float64)
    for name in parameters.keys() - LABEL_WEIGHTS_FIXED:
        parameters[name] = (0.5 * parameters[name] + random.normal(0, 0.5, parameters[name].shape)).astype(dtype)
    points = small_features(B, D, seed=seed + 1).toarray()
    points[3] = 0
    return parameters, sp.csr_array(points.astype(dtype))


def written_out(parameters, values):
    """Something of each weight as a matrix, K×D, with zeros where there is no weight."""
    matrix = np.zeros((K, D), values.dtype)
    matrix[places(parameters)] = values
    return matrix


def places(parameters):
    lengths = np.diff(parameters["label_weights.indptr"])
    return np.repeat(np.arange(K), lengths), parameters["label_weights.features"]


def moments_of(parameters, points):
    """Mean and variance of W x by dense products."""
    mean = written_out(parameters, parameters["label_weights.mean"].astype(float))
    variance = written_out(parameters, np.exp(parameters["label_weights.log_variance"].astype(float)))
    points = points.toarray().astype(float)
    return points @ mean.T, points**2 @ variance.T


def agree(found, expected, dtype):
    assert found.dtype == dtype
    tolerance = 1e-12 if dtype == np.float64 else 2e-5
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def lists(indptr, features):
    return [features[start:stop].tolist() for start, stop in itertools.pairwise(indptr)]


@pytest.mark.parametrize("at_a_time", [1, 3, 100])
def test_own_features_are_those_of_the_points_of_a_label(monkeypatch, at_a_time):
    monkeypatch.setattr(module, "AT_A_TIME", at_a_time)
    features, labels = small_features(30, D), random_labels(np.random.default_rng(0), 30, K, 0.1)
    features.data[::2] *= -1
    present, positives = features.toarray() != 0, labels.toarray()
    expected = [sorted({d for i in range(30) if positives[i, k] for d in range(D) if present[i, d]}) for k in range(K)]
    indptr, columns = own_features(features, labels)
    assert (indptr.dtype, columns.dtype) == (np.int64, np.int32)
    assert len(indptr) == K + 1
    assert lists(indptr, columns) == expected


@pytest.mark.parametrize("shape", [(0, 3), (4, 0), (4, 3)])
def test_without_labels_there_are_no_own_features(shape):
    points, labels = shape
    indptr, columns = own_features(small_features(points, D), sp.csr_array(shape, dtype=bool))
    np.testing.assert_array_equal(indptr, np.zeros(labels + 1))
    assert len(columns) == 0


# Small integers: sums are exact, and many of them equal.
some_features = arrays(np.float32, (6, 5), elements=st.sampled_from([0, 0, 1, -1, 2]))


@STEADY
@given(some_features, arrays(bool, (6, 4)), st.integers(0, 25))
def test_beyond_the_limit_features_of_least_value_are_left_out(features, positives, limit):
    whole = lists(*own_features(sp.csr_array(features), sp.csr_array(positives)))
    kept = lists(*own_features(sp.csr_array(features), sp.csr_array(positives), limit))
    totals = positives.T.astype(float) @ np.abs(features)
    most = max([1, *(m for m in range(6) if sum(min(len(row), m) for row in whole) <= limit)])
    assert sum(map(len, kept)) <= max(limit, sum(map(bool, whole)))
    for k, row in enumerate(whole):
        # Of equal ones the first stay.
        assert kept[k] == sorted(sorted(row, key=lambda d: (-totals[k, d], d))[:most])  # noqa: B023 -- called at once


@BOTH
def test_initial_values_are_of_a_newton_step(dtype):
    features, labels = small_features(30, D), random_labels(np.random.default_rng(0), 30, K, 0.1)
    bias = np.random.default_rng(1).normal(size=K).astype(dtype)
    parameters = initial_label_weights(features, labels, bias, dtype)
    indptr, columns = own_features(features, labels)
    np.testing.assert_array_equal(parameters["label_weights.indptr"], indptr)
    np.testing.assert_array_equal(parameters["label_weights.features"], columns)
    assert fits(parameters, D, K)
    assert parameters.keys() > LABEL_WEIGHTS_FIXED
    agree(parameters["label_weights.mean"], np.zeros(len(columns)), dtype)
    agree(parameters["label_weights.log_prior"], np.full(D, np.log(4)), dtype)
    # The negative second derivative of log N(w; 0, 4) + Σ_i log σ(±(b + w x_i)) at zero.
    probability = expit(bias.astype(float))
    curvature = (probability * (1 - probability))[:, None] * np.square(features.toarray().astype(float)).sum(axis=0)
    variance = written_out(parameters, np.exp(parameters["label_weights.log_variance"]))[places(parameters)]
    agree(variance, 1 / (0.25 + curvature[places(parameters)]), dtype)


@BOTH
@pytest.mark.parametrize("grain", [7, 1 << 16])
def test_divergence_is_the_integral_of_each_weight(monkeypatch, dtype, grain):
    monkeypatch.setattr(module, "GRAIN", grain)
    parameters, _ = problem(dtype)
    mean, log_variance, log_prior = (
        parameters[f"label_weights.{name}"].astype(float) for name in ("mean", "log_variance", "log_prior")
    )
    total = 0
    assert len(mean) > 14
    for m, spread, feature in zip(mean, np.exp(log_variance / 2), parameters["label_weights.features"], strict=True):
        own, prior = norm(m, spread), norm(0, np.exp(log_prior[feature] / 2))
        limits = m - 10 * spread, m + 10 * spread
        total += quad(lambda w, q=own, p=prior: q.pdf(w) * (q.logpdf(w) - p.logpdf(w)), *limits)[0]
    assert LabelWeights(parameters).kl() == pytest.approx(total, rel=1e-8 if dtype == np.float64 else 1e-5)


def test_no_divergence_where_posterior_is_prior():
    parameters, _ = problem()
    parameters["label_weights.mean"][:] = 0
    columns = parameters["label_weights.features"]
    parameters["label_weights.log_variance"] = parameters["label_weights.log_prior"][columns]
    assert LabelWeights(parameters).kl() == pytest.approx(0, abs=1e-12)


@BOTH
@pytest.mark.parametrize("width", [1, 3, K])
def test_moments_are_those_of_dense_products(dtype, width):
    parameters, points = problem(dtype)
    weighted = WeightedPoints(LabelWeights(parameters), points)
    random = np.random.default_rng(3)
    mean, variance = random.normal(size=(2, B, K)).astype(dtype)
    own_mean, own_variance = moments_of(parameters, points)
    # A point without features, and labels without weights.
    assert not own_mean[3].any()
    assert not own_variance[:, [2, K - 1]].any()
    assert own_variance.any(axis=1).sum() == B - 1
    expected = mean + own_mean, variance + own_variance
    for start in range(0, K, width):
        block = slice(start, start + width)
        alone = mean[:, block].copy()
        weighted.add(start, alone)
        weighted.add(start, mean[:, block], variance[:, block])
        np.testing.assert_array_equal(alone, mean[:, block])
    agree(mean, expected[0], dtype)
    agree(variance, expected[1], dtype)


@BOTH
@pytest.mark.parametrize("width", [1, 3, K])
@pytest.mark.parametrize("sign", [1, -1])
def test_gradients_are_those_of_dense_products(dtype, width, sign):
    parameters, points = problem(dtype)
    weighted = WeightedPoints(LabelWeights(parameters), points)
    d_mean, d_variance = np.random.default_rng(4).normal(size=(2, B, K)).astype(dtype)
    weighted.prepare_gradients()
    for start in range(0, K, width):
        weighted.collect(start, d_mean[:, start : start + width], d_variance[:, start : start + width], sign)
    dense = points.toarray().astype(float)
    agree(weighted.by_mean, sign * (d_mean.T @ dense)[places(parameters)], dtype)
    agree(weighted.by_variance, sign * (d_variance.T @ dense**2)[places(parameters)], dtype)


def pairs_and_places(random):
    """Some pairs in no order of labels, of which a point has none and a label neither, and where they are."""
    chosen = random.random((B, K)) < 0.5
    chosen[5], chosen[:, 1] = False, False
    columns = [random.permutation(np.flatnonzero(row)) for row in chosen]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in columns])])
    labels = np.concatenate(columns)
    pairs = PairsByLabel.of(indptr, *np.unique(labels, return_inverse=True))
    return pairs, (np.repeat(np.arange(B), np.diff(indptr)), labels)


@BOTH
@pytest.mark.parametrize("pieces", [1, 3, 32])
@pytest.mark.parametrize("seed", range(3))
def test_pairs_have_the_moments_and_gradients_of_all_labels(monkeypatch, dtype, pieces, seed):
    monkeypatch.setattr(module, "PIECES", pieces)
    parameters, points = problem(dtype)
    weighted = WeightedPoints(LabelWeights(parameters), points)
    random = np.random.default_rng(seed)
    pairs, where = pairs_and_places(random)
    assert not set(pairs.labels) & {1}
    mean, variance = random.normal(size=(2, len(where[0]))).astype(dtype)
    expected = np.zeros((2, B, K), dtype)
    expected[0][where], expected[1][where] = mean, variance
    weighted.add(0, *expected)
    weighted.add_pairs(pairs, mean, variance)
    agree(mean, expected[0][where], dtype)
    agree(variance, expected[1][where], dtype)

    by_pairs = random.normal(size=(2, len(where[0]))).astype(dtype)
    by_all = np.zeros((2, B, K), dtype)
    by_all[0][where], by_all[1][where] = by_pairs
    weighted.prepare_gradients()
    weighted.collect(0, *by_all)
    all_labels = weighted.by_mean, weighted.by_variance
    weighted.prepare_gradients()
    weighted.collect_pairs(pairs, *by_pairs)
    assert weighted.by_mean.any()
    agree(weighted.by_mean, all_labels[0], dtype)
    agree(weighted.by_variance, all_labels[1], dtype)
    assert not weighted.by_mean[places(parameters)[0] == 1].any()


@BOTH
@pytest.mark.parametrize("cores", [1, 3])
def test_gradients_of_the_bound_agree_with_central_differences(monkeypatch, dtype, cores):
    monkeypatch.setattr(threads, "core_count", lambda: cores)
    monkeypatch.setattr(module, "core_count", lambda: cores)
    parameters, _ = problem(dtype)
    random = np.random.default_rng(6)
    count, scale = len(parameters["label_weights.mean"]), 2.5
    slopes = random.normal(size=(2, count)).astype(dtype)
    doubles = {
        name: value if name in LABEL_WEIGHTS_FIXED else value.astype(float) for name, value in parameters.items()
    }

    def bound(changed):
        weights = LabelWeights(changed)
        return scale * (slopes[0] @ weights.mean + slopes[1] @ weights.variance) - weights.kl()

    gradients = LabelWeights(parameters).gradients(scale, *slopes.copy())
    assert gradients.keys() == parameters.keys() - LABEL_WEIGHTS_FIXED
    for name, gradient in gradients.items():
        numeric = np.zeros(len(gradient))
        for index in range(len(gradient)):
            values = []
            for sign in (1, -1):
                moved = doubles | {name: doubles[name].copy()}
                moved[name][index] += sign * 1e-5
                values.append(bound(moved))
            numeric[index] = (values[0] - values[1]) / 2e-5
        assert gradient.dtype == dtype
        tolerance = 1e-7 if dtype == np.float64 else 1e-4
        np.testing.assert_allclose(gradient, numeric, rtol=tolerance, atol=tolerance, err_msg=name)


def test_nothing_and_what_training_stores_fit():
    parameters, _ = problem()
    assert fits(parameters, D, K)
    assert fits(parameters | {"bias": np.zeros(K), "loadings": np.zeros((K, 2))}, D, K)
    assert fits({"bias": np.zeros(K)}, D, K)
    none = {name: value[:0] for name, value in parameters.items()}
    none["label_weights.indptr"], none["label_weights.log_prior"] = np.zeros(K + 1, np.int64), np.zeros(D)
    assert fits(none, D, K)


def column(array):
    return array[:, None]


def scalar(array):
    return array[0]


SHAPES = [shorter, longer, column, scalar]
DAMAGE = {
    "indptr": [
        *SHAPES,
        around,
        changed_at(0, 1),
        changed_at(0, -1),
        changed_at(2, -1),
        changed_at(2, 10**6),
        changed_at(-1, 10**6),
        lambda array: array.astype(np.int32),
        lambda array: array.astype(float),
        lambda array: array.astype(">i8"),
        lambda array: array - 1,
    ],
    "features": [
        *SHAPES,
        changed_at(3, -1),
        changed_at(-1, D),
        changed_at(0, 2**31 - 1),
        lambda array: array.astype(np.int64),
        lambda array: array.astype(np.float32),
        lambda array: array.astype(">i4"),
    ],
}
for name in ("mean", "log_variance", "log_prior"):
    DAMAGE[name] = [*SHAPES, *(lambda array, dtype=dtype: array.astype(dtype) for dtype in ("<i8", ">f8", "<f4"))]


@pytest.mark.parametrize(
    ("name", "damage"), [(name, damage) for name, damages in DAMAGE.items() for damage in [None, *damages]]
)
def test_damaged_arrays_do_not_fit(name, damage):
    parameters, _ = problem()
    name = f"label_weights.{name}"
    if damage is None:
        del parameters[name]
    else:
        parameters[name] = damage(parameters[name])
    assert fits(parameters, D, K) is False


def test_arrays_of_another_model_do_not_fit():
    parameters, _ = problem()
    assert not fits(parameters, D - 1, K)
    assert not fits(parameters, D + 1, K)
    assert not fits(parameters, D, K - 1)
    assert not fits(parameters, D, K + 1)
    assert not fits(parameters | {"label_weights.other": np.zeros(3)}, D, K)
