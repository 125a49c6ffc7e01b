"""Label weights: their sparsity pattern, initial values, divergence, gradients, and the check of untrusted arrays."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.integrate import trapezoid
from scipy.special import expit
from scipy.stats import norm

from tests.central_differences import central_differences
from tests.damage import around, changed_at, longer, shorter
from tests.gp.reference import DETERMINISTIC, random_labels
from tests.grids import each_value
from tests.problems import small_features
from xmlgp.gp import divergences
from xmlgp.gp import label_weights as module
from xmlgp.gp.label_weights import (
    LABEL_WEIGHTS_FIXED,
    LabelWeights,
    are_valid,
    hidden_label_weights,
    initial_label_weights,
    label_features,
    label_weight_count,
)
from xmlgp.runtime import threads

B, D, K = 9, 11, 7
BOTH = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def random_weights(dtype=np.float64, seed=0):
    """Return random label weights of K labels, two without weights, and B other points, one without features."""
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


def to_dense(parameters, values):
    """Return one value per weight as a dense matrix, K×D."""
    matrix = np.zeros((K, D), values.dtype)
    matrix[positions(parameters)] = values
    return matrix


def positions(parameters):
    """Return the label and the feature of each weight."""
    lengths = np.diff(parameters["label_weights.indptr"])
    return np.repeat(np.arange(K), lengths), parameters["label_weights.features"]


def assert_close(result, expected, dtype):
    assert result.dtype == dtype
    tolerance = 1e-12 if dtype == np.float64 else 2e-5
    np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)


def lists(indptr, features):
    """Return the features of each label as a list."""
    return [features[start:stop].tolist() for start, stop in itertools.pairwise(indptr)]


@pytest.mark.parametrize("block", [1, 3, 100])
def test_label_has_the_features_of_its_points(monkeypatch, block):
    monkeypatch.setattr(module, "BLOCK", block)
    features, labels = small_features(30, D), random_labels(np.random.default_rng(0), 30, K, 0.1)
    features.data[::2] *= -1
    present, positives = features.toarray() != 0, labels.toarray()
    expected = [sorted({d for i in range(30) if positives[i, k] for d in range(D) if present[i, d]}) for k in range(K)]
    indptr, columns = label_features(features, labels)
    assert (indptr.dtype, columns.dtype) == (np.int64, np.int32)
    assert len(indptr) == K + 1
    assert lists(indptr, columns) == expected


@pytest.mark.parametrize("shape", [(0, 3), (4, 0), (4, 3)])
def test_pattern_is_empty_without_positives(shape):
    points, labels = shape
    indptr, columns = label_features(small_features(points, D), sp.csr_array(shape, dtype=bool))
    np.testing.assert_array_equal(indptr, np.zeros(labels + 1))
    assert len(columns) == 0


# Small integers, so that sums are exact and often equal.
some_features = arrays(np.float32, (6, 5), elements=st.sampled_from([0, 0, 1, -1, 2]))


@DETERMINISTIC
@given(some_features, arrays(bool, (6, 4)), st.integers(0, 25))
def test_beyond_the_limit_labels_keep_the_features_of_largest_value(features, positives, limit):
    whole = lists(*label_features(sp.csr_array(features), sp.csr_array(positives)))
    kept = lists(*label_features(sp.csr_array(features), sp.csr_array(positives), limit))
    assert label_weight_count(sp.csr_array(features), sp.csr_array(positives), limit) == sum(map(len, kept))
    totals = positives.T.astype(float) @ np.abs(features)
    most = max([1, *(m for m in range(6) if sum(min(len(row), m) for row in whole) <= limit)])
    assert sum(map(len, kept)) <= max(limit, sum(map(bool, whole)))
    for k, row in enumerate(whole):
        # Of features with equal totals the first are kept.
        assert kept[k] == sorted(sorted(row, key=lambda d: (-totals[k, d], d))[:most])  # noqa: B023 -- called immediately


@BOTH
def test_initial_variances_are_of_the_laplace_approximation_at_zero(dtype):
    features, labels = small_features(30, D), random_labels(np.random.default_rng(0), 30, K, 0.1)
    bias = np.random.default_rng(1).normal(size=K).astype(dtype)
    parameters = initial_label_weights(features, labels, bias, dtype)
    indptr, columns = label_features(features, labels)
    np.testing.assert_array_equal(parameters["label_weights.indptr"], indptr)
    np.testing.assert_array_equal(parameters["label_weights.features"], columns)
    assert are_valid(parameters, D, K)
    assert parameters.keys() > LABEL_WEIGHTS_FIXED
    assert_close(parameters["label_weights.mean"], np.zeros(len(columns)), dtype)
    assert_close(parameters["label_weights.log_prior"], np.full(D, np.log(4)), dtype)
    # The negative second derivative of log N(w; 0, 4) + Σ_i log σ(±(b + w x_i)) at zero.
    probability = expit(bias.astype(float))
    curvature = (probability * (1 - probability))[:, None] * np.square(features.toarray().astype(float)).sum(axis=0)
    variance = to_dense(parameters, np.exp(parameters["label_weights.log_variance"]))[positions(parameters)]
    assert_close(variance, 1 / (0.25 + curvature[positions(parameters)]), dtype)


@each_value(dtype=[np.float32, np.float64], chunk=[7, 1 << 16])
def test_divergence_agrees_with_an_integral_for_each_weight(monkeypatch, dtype, chunk):
    monkeypatch.setattr(divergences, "CHUNK", chunk)
    parameters, _ = random_weights(dtype)
    mean, log_variance, log_prior = (
        parameters[f"label_weights.{name}"].astype(float) for name in ("mean", "log_variance", "log_prior")
    )
    assert len(mean) > 14
    prior_std = np.exp(log_prior[parameters["label_weights.features"]] / 2)
    z = np.linspace(-10, 10, 2001)
    weights = mean[:, None] + np.exp(log_variance / 2)[:, None] * z
    log_ratio = norm.logpdf(z) - log_variance[:, None] / 2 - norm.logpdf(weights, 0, prior_std[:, None])
    total = trapezoid(norm.pdf(z) * log_ratio, z).sum()
    assert LabelWeights(parameters).kl() == pytest.approx(total, rel=1e-8 if dtype == np.float64 else 1e-5)


def test_divergence_of_the_prior_is_zero():
    parameters, _ = random_weights()
    parameters["label_weights.mean"][:] = 0
    columns = parameters["label_weights.features"]
    parameters["label_weights.log_variance"] = parameters["label_weights.log_prior"][columns]
    assert LabelWeights(parameters).kl() == pytest.approx(0, abs=1e-12)


@each_value(dtype=[np.float32, np.float64], cores=[1, 3])
def test_backward_agrees_with_central_differences(monkeypatch, dtype, cores):
    monkeypatch.setattr(threads, "_all_cores", lambda: cores)
    parameters, _ = random_weights(dtype)
    random = np.random.default_rng(6)
    count, scale = len(parameters["label_weights.mean"]), 2.5
    d_moments = random.normal(size=(2, count)).astype(dtype)
    doubles = {
        name: value if name in LABEL_WEIGHTS_FIXED else value.astype(float) for name, value in parameters.items()
    }

    def bound(changed):
        weights = LabelWeights(changed)
        return scale * (d_moments[0] @ weights.mean + d_moments[1] @ weights.variance) - weights.kl()

    gradients = LabelWeights(parameters).backward(scale, *d_moments.copy())
    assert gradients.keys() == parameters.keys() - LABEL_WEIGHTS_FIXED
    for name, numeric in central_differences(bound, doubles, gradients).items():
        assert gradients[name].dtype == dtype
        tolerance = 1e-7 if dtype == np.float64 else 1e-4
        np.testing.assert_allclose(gradients[name], numeric, rtol=tolerance, atol=tolerance, err_msg=name)


def test_arrays_of_training_and_their_absence_are_valid():
    parameters, _ = random_weights()
    assert are_valid(parameters, D, K)
    assert are_valid(parameters | {"bias": np.zeros(K), "loadings": np.zeros((K, 2))}, D, K)
    assert are_valid({"bias": np.zeros(K)}, D, K)
    none = {name: value[:0] for name, value in parameters.items()}
    none["label_weights.indptr"], none["label_weights.log_prior"] = np.zeros(K + 1, np.int64), np.zeros(D)
    assert are_valid(none, D, K)


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
def test_damaged_arrays_are_invalid(name, damage):
    parameters, _ = random_weights()
    name = f"label_weights.{name}"
    if damage is None:
        del parameters[name]
    else:
        parameters[name] = damage(parameters[name])
    assert are_valid(parameters, D, K) is False


def test_arrays_of_another_model_are_invalid():
    parameters, _ = random_weights()
    assert not are_valid(parameters, D - 1, K)
    assert not are_valid(parameters, D + 1, K)
    assert not are_valid(parameters, D, K - 1)
    assert not are_valid(parameters, D, K + 1)
    assert not are_valid(parameters | {"label_weights.other": np.zeros(3)}, D, K)


def test_weights_on_features_without_points_are_hidden():
    random = np.random.default_rng(0)
    labels = random_labels(random, 20, K).toarray()
    features = small_features(20, D, density=0.2)
    parameters = initial_label_weights(features, sp.csr_array(labels), np.zeros(K), np.float64)
    parameters["label_weights.mean"][:] = random.normal(size=len(parameters["label_weights.mean"]))
    before = {name: value.copy() for name, value in parameters.items()}
    fewer = labels.copy()
    fewer[::2] = False
    owner, columns = positions(parameters)
    hidden = ((fewer.astype(int).T @ np.abs(features.toarray())) == 0)[owner, columns]
    assert 0 < hidden.sum() < len(hidden)
    with hidden_label_weights(parameters, features, sp.csr_array(fewer)):
        found = LabelWeights(parameters)
        np.testing.assert_array_equal(found.mean[hidden], 0)
        assert found.variance[hidden].max() < 1e-15
        for name in ("mean", "variance"):
            np.testing.assert_array_equal(
                getattr(found, name)[~hidden], getattr(LabelWeights(before), name)[~hidden], strict=True
            )
    for name, value in before.items():
        np.testing.assert_array_equal(parameters[name], value)
