"""Label weights: initial values, the weights of some labels, taken and put back, and hidden ones."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit

from tests.gp.reference import random_labels
from tests.problems import small_features
from xmlgp.label_weights.pattern import label_features
from xmlgp.label_weights.posterior import LABEL_WEIGHTS, LabelWeights, hidden_label_weights, initial_label_weights
from xmlgp.linear_algebra.array_groups import arrays_fit

D, K = 11, 7
BOTH = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def are_valid(parameters, D, K):
    return arrays_fit(parameters, {LABEL_WEIGHTS: True}, {"D": D, "K": K})


def pattern_of(present):
    """Return the sparsity pattern of a dense matrix of bool."""
    indptr = np.concatenate([[0], np.cumsum(present.sum(axis=1))]).astype(np.int64)
    return indptr, np.nonzero(present)[1].astype(np.int32)


def weights_of(present, dtype):
    """Return random label weights where a matrix of bool is true."""
    random, pattern = np.random.default_rng(1), pattern_of(present)
    moments = random.normal(size=(2, len(pattern[1]))).astype(dtype)
    return LabelWeights(*pattern, *moments, random.normal(size=D).astype(dtype))


def dense(weights, values):
    """Return a matrix with the values of weights, and NaN where there is no weight."""
    count = len(weights.indptr) - 1
    found = np.full((count, D), np.nan)
    found[np.repeat(np.arange(count), np.diff(weights.indptr)), weights.features] = values
    return found


def problem(dtype):
    """Return W, of which label 2 has no weight, labels to take, which features they shall have, and their scales."""
    random = np.random.default_rng(0)
    present = random.random((K, D)) < 0.5
    present[2] = False
    labels = np.array([0, 2, 3, 5])
    wanted = random.random((len(labels), D)) < 0.4
    wanted[3] = False
    return weights_of(present, dtype), labels, wanted, random.uniform(1, 5, len(labels)).astype(dtype)


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


@BOTH
def test_taken_weights_are_those_of_the_labels_and_zeros_for_new_features(dtype):
    weights, labels, wanted, scales = problem(dtype)
    part, prior = weights.take(labels, pattern_of(wanted), scales)
    before = dense(weights, weights.mean)[labels]
    known = ~np.isnan(before)
    new = wanted & ~known
    # Every case occurs.
    assert new.any()
    assert (known & ~wanted).any()
    assert (known & wanted).any()
    expected = np.where(known, before, np.where(new, 0, np.nan))
    np.testing.assert_array_equal(dense(part, part.mean), expected)
    np.testing.assert_array_equal(dense(part, prior.mean), expected)

    variance = dense(weights, weights.variance)[labels]
    variance = np.where(known, variance, np.where(new, scales[:, None] * np.exp(weights.log_prior), np.nan))
    tolerance = 1e-12 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(dense(part, part.variance), variance, rtol=tolerance)
    np.testing.assert_allclose(1 / dense(part, prior.precision), variance, rtol=tolerance)
    assert [array.dtype for array in part] == [array.dtype for array in weights]
    assert (prior.mean.dtype, prior.precision.dtype) == (dtype, dtype)
    assert are_valid(part.parameters(), D, len(labels))
    np.testing.assert_array_equal(part.log_prior, weights.log_prior)


@BOTH
@pytest.mark.parametrize("labels", [[0, 2, 3, 5], [2], [], list(range(K))], ids=str)
def test_weights_are_replaced_for_these_labels_only(dtype, labels):
    weights, labels = problem(dtype)[0], np.array(labels, np.int64)
    wanted = np.random.default_rng(2).random((len(labels), D)) < 0.4
    part, _ = weights.take(labels, pattern_of(wanted), np.ones(len(labels), dtype))
    moments = np.random.default_rng(1).normal(size=(2, len(part.mean))).astype(dtype)
    part = part._replace(mean=moments[0], log_variance=moments[1])
    found = weights.put(labels, part)
    assert are_valid(found.parameters(), D, K)
    for name in ("features", "mean", "log_variance"):
        expected = dense(weights, getattr(weights, name))
        expected[labels] = dense(part, getattr(part, name))
        np.testing.assert_array_equal(dense(found, getattr(found, name)), expected)


def test_new_labels_have_no_weights_and_new_features_the_first_prior_variance():
    weights = problem(np.float32)[0]
    found = weights.grown(K + 2, D + 3)
    assert are_valid(found.parameters(), D + 3, K + 2)
    np.testing.assert_array_equal(np.diff(found.indptr), [*np.diff(weights.indptr), 0, 0])
    np.testing.assert_array_equal(found.log_prior[:D], weights.log_prior)
    np.testing.assert_array_equal(found.log_prior[D:], np.log(np.float32(4)))


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
    parameters = problem(np.float64)[0].parameters()
    assert are_valid(parameters, D, K)
    assert are_valid(weights_of(np.zeros((K, D), bool), np.float32).parameters(), D, K)
    for features, labels in (D - 1, K), (D + 1, K), (D, K - 1), (D, K + 1):
        assert not are_valid(parameters, features, labels)
