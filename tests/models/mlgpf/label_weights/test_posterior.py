"""Label weights: initial values, hidden ones, and the arrays of a model."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit

from tests.gp.reference import random_labels
from tests.problems import small_features
from xmlgp.linear_algebra.array_groups import arrays_fit
from xmlgp.models.mlgpf.label_weights.pattern import label_features
from xmlgp.models.mlgpf.label_weights.posterior import (
    LABEL_WEIGHTS,
    LabelWeights,
    hidden_label_weights,
    initial_label_weights,
)

D, K = 11, 7
BOTH = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def are_valid(parameters, D, K):
    return arrays_fit(parameters, {LABEL_WEIGHTS: True}, {"D": D, "K": K})


@BOTH
def test_initial_variances_are_of_the_laplace_approximation_at_zero(dtype):
    features, labels = small_features(30, D), random_labels(np.random.default_rng(0), 30, K, 0.1)
    bias = np.random.default_rng(1).normal(size=K).astype(dtype)
    weights = initial_label_weights(features, labels, bias, dtype)
    indptr, columns = label_features(features, labels)
    np.testing.assert_array_equal(weights.indptr, indptr)
    np.testing.assert_array_equal(weights.features, columns)
    assert are_valid(weights.parameters(), D, K)
    np.testing.assert_array_equal(weights.mean, np.zeros(len(columns), dtype), strict=True)
    np.testing.assert_array_equal(weights.log_prior, np.full(D, np.log(4), dtype), strict=True)
    # The negative second derivative of log N(w; 0, 4) + Σ_i log σ(±(b + w x_i)) at zero.
    probability = expit(bias.astype(float))
    curvature = (probability * (1 - probability))[:, None] * np.square(features.toarray().astype(float)).sum(axis=0)
    owner = np.repeat(np.arange(K), np.diff(indptr))
    assert weights.variance.dtype == dtype
    np.testing.assert_allclose(
        weights.variance, 1 / (0.25 + curvature[owner, columns]), rtol=1e-12 if dtype == np.float64 else 2e-5
    )


def test_weights_on_features_without_points_are_hidden():
    random = np.random.default_rng(0)
    labels = random_labels(random, 20, K).toarray()
    features = small_features(20, D, density=0.2)
    weights = initial_label_weights(features, sp.csr_array(labels), np.zeros(K), np.float64)
    weights.mean[:] = random.normal(size=len(weights.mean))
    before = LabelWeights(*(array.copy() for array in weights))
    fewer = labels.copy()
    fewer[::2] = False
    hidden = ((fewer.astype(int).T @ np.abs(features.toarray())) == 0)[
        np.repeat(np.arange(K), np.diff(weights.indptr)), weights.features
    ]
    assert 0 < hidden.sum() < len(hidden)
    with hidden_label_weights(weights.parameters(), features, sp.csr_array(fewer)):
        np.testing.assert_array_equal(weights.mean[hidden], 0)
        assert weights.variance[hidden].max() < 1e-15
        np.testing.assert_array_equal(weights.mean[~hidden], before.mean[~hidden])
        np.testing.assert_array_equal(weights.variance[~hidden], before.variance[~hidden])
    for array, kept in zip(weights, before, strict=True):
        np.testing.assert_array_equal(array, kept)


def test_arrays_are_those_of_so_many_features_and_labels():
    labels = random_labels(np.random.default_rng(0), 30, K)
    weights = initial_label_weights(small_features(30, D), labels, np.zeros(K), np.float64)
    parameters = weights.parameters()
    assert are_valid(parameters, D, K)
    for features, labels in (D - 1, K), (D + 1, K), (D, K - 1), (D, K + 1):
        assert not are_valid(parameters, features, labels)
