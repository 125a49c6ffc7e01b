"""Label weights: their sparsity pattern, initial values, and the check of untrusted arrays."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import expit

from tests.damage import around, changed_at, longer, shorter
from tests.gp.reference import DETERMINISTIC, random_labels
from tests.problems import small_features
from xmlgp.gp import label_weights as module
from xmlgp.gp.label_weights import (
    LabelWeights,
    are_valid,
    hidden_label_weights,
    initial_label_weights,
    label_features,
    label_weight_count,
)

D, K = 11, 7
BOTH = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def random_weights():
    """Return random label weights of K labels, two without weights."""
    random = np.random.default_rng(0)
    labels = random_labels(random, 20, K).toarray()
    labels[:, 2] = labels[:, K - 1] = False
    features = small_features(20, D, density=0.2)
    parameters = initial_label_weights(features, sp.csr_array(labels), random.normal(size=K), np.float64)
    for name in ("mean", "log_variance", "log_prior"):
        parameters[f"label_weights.{name}"] += random.normal(0, 0.5, parameters[f"label_weights.{name}"].shape)
    return parameters


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
    assert_close(parameters["label_weights.mean"], np.zeros(len(columns)), dtype)
    assert_close(parameters["label_weights.log_prior"], np.full(D, np.log(4)), dtype)
    # The negative second derivative of log N(w; 0, 4) + Σ_i log σ(±(b + w x_i)) at zero.
    probability = expit(bias.astype(float))
    curvature = (probability * (1 - probability))[:, None] * np.square(features.toarray().astype(float)).sum(axis=0)
    variance = np.exp(parameters["label_weights.log_variance"])
    assert_close(variance, 1 / (0.25 + curvature[positions(parameters)]), dtype)


def test_arrays_of_training_and_their_absence_are_valid():
    parameters = random_weights()
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
    parameters = random_weights()
    name = f"label_weights.{name}"
    if damage is None:
        del parameters[name]
    else:
        parameters[name] = damage(parameters[name])
    assert are_valid(parameters, D, K) is False


def test_arrays_of_another_model_are_invalid():
    parameters = random_weights()
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
