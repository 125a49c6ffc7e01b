"""Latent functions in weight space: against inducing inputs at the unit vectors, differences, and all minibatches."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import hypergeom

from tests.central_differences import central_differences
from xmlgp.data.dataset import Features
from xmlgp.features.inputs import Points
from xmlgp.gp.bound import Batch, Bound
from xmlgp.gp.expectations import Quadrature
from xmlgp.gp.inducing import Inducing
from xmlgp.gp.kernels import Kernel
from xmlgp.gp.likelihood import AllPairs, SharedLabels
from xmlgp.gp.parameters import IndexedRows
from xmlgp.gp.posteriors import POSTERIORS
from xmlgp.gp.posteriors.diagonal import DIAGONAL_FLOOR
from xmlgp.gp.weight_space import WeightSpace, feature_shares, log_absent, unwhitened
from xmlgp.training.minibatches import LabelSampler

N, D, K, P = 6, 5, 7, 3


def problem(seed=0):
    """Return parameters, features and labels; the fourth feature and the third label do not occur."""
    random = np.random.default_rng(seed)
    features = random.random((N, D)) * (random.random((N, D)) < 0.6)
    features[:, 3] = 0
    labels = random.random((N, K)) < 0.3
    labels[:, 2] = False
    parameters = {
        "latent_weights.whitened_mean": random.normal(size=(D, P)),
        "latent_weights.whitened_log_variance": random.normal(-3, 0.3, D),
        "latent_weights.log_prior": random.normal(0, 0.5, D),
        "loadings": random.normal(size=(K, P)),
        "bias": random.normal(-1, 1, K),
    }
    return parameters, sp.csr_array(features), sp.csr_array(labels)


def batch_of(features, labels, rows, pairs=AllPairs):
    points = Points(Features(features[rows]), np.zeros(len(rows)))
    return Batch(points, pairs(labels[rows]), features.shape[0] / len(rows))


def dense(parameters, gradients):
    return {
        name: gradient.toarray(len(parameters[name])) if isinstance(gradient, IndexedRows) else gradient
        for name, gradient in gradients.items()
    }


ALL = np.arange(N)


def test_bound_is_that_of_inducing_inputs_at_the_unit_vectors():
    parameters, features, labels = problem()
    posterior = unwhitened(parameters)
    mean, prior = posterior["latent_weights.mean"], np.exp(posterior["latent_weights.log_prior"])
    variance = np.exp(posterior["latent_weights.log_variance"])
    inducing = {
        "inducing": np.eye(D),
        "kernel.linear.log_variance": np.zeros(()),
        "kernel.linear.log_relevance": np.log(prior),
        "posterior.mean": mean / prior[:, None],
        "posterior.log_diagonal": np.log(1 / (1 / variance - 1 / prior) - DIAGONAL_FLOOR),
        "loadings": parameters["loadings"],
        "bias": parameters["bias"],
    }
    batch = batch_of(features, labels, ALL[:4])
    shares = feature_shares(features)
    expected, _ = Bound(Inducing(Kernel(["linear"], True), POSTERIORS["shared-diagonal"])).value_and_gradients(
        inducing, batch
    )
    value, _ = Bound(WeightSpace(shares)).value_and_gradients(parameters, batch)
    # With the log density of the relevances, but for a constant.
    assert value == pytest.approx(expected - 0.5 * np.square(np.log(prior)).sum(), rel=1e-10)


@pytest.mark.parametrize("sampled", [False, True])
def test_gradients_agree_with_central_differences(sampled):
    parameters, features, labels = problem()
    used, weights = np.array([0, 1, 3, 4, 5, 6]), np.array([1, 2.5, 1, 1.5, 4, 1])
    batch = batch_of(features, labels, ALL, lambda y: SharedLabels.among(used, y, weights) if sampled else AllPairs(y))
    bound = Bound(WeightSpace(feature_shares(features)), Quadrature(40))
    _, gradients = bound.value_and_gradients(parameters, batch)
    result = dense(parameters, gradients)
    assert result.keys() == parameters.keys()
    # Features and labels without points in the minibatch have no gradient, however their divergence changes.
    used = {name: np.ones(len(value), bool) for name, value in parameters.items()}
    for name in WeightSpace.parameter_names:
        used[name][3] = False
    numeric = central_differences(lambda moved: bound.value_and_gradients(moved, batch)[0], parameters, result)
    for name, gradient in result.items():
        assert not gradient[~used[name]].any()
        atol = 1e-6 * np.abs(numeric[name]).max()
        np.testing.assert_allclose(gradient[used[name]], numeric[name][used[name]], rtol=1e-6, atol=atol, err_msg=name)


def test_gradients_over_all_minibatches_have_the_mean_of_the_whole_data_set():
    """For every size of minibatch, with the same bound."""
    parameters, features, labels = problem()
    bound = Bound(WeightSpace(feature_shares(features)), Quadrature(40))
    expected = dense(parameters, bound.value_and_gradients(parameters, batch_of(features, labels, ALL))[1])
    for size in 2, 3, 1, 2:
        gradients = [
            dense(parameters, bound.value_and_gradients(parameters, batch_of(features, labels, list(rows)))[1])
            for rows in itertools.combinations(range(N), size)
        ]
        for name, gradient in expected.items():
            np.testing.assert_allclose(np.mean([result[name] for result in gradients], axis=0), gradient, atol=1e-12)


def test_the_mean_over_minibatches_and_shared_labels_is_the_bound_over_all_pairs():
    parameters, features, labels = problem()
    bound = Bound(WeightSpace(feature_shares(features)), Quadrature(40))
    whole = batch_of(features, labels, ALL)
    value, gradients = bound.value_and_gradients(parameters, whole)
    expected = dense(parameters, gradients)
    numeric = central_differences(lambda moved: bound.value_and_gradients(moved, whole)[0], parameters, expected)
    for name, gradient in expected.items():
        used = np.arange(len(gradient)) != 3 if name in WeightSpace.parameter_names else slice(None)
        np.testing.assert_allclose(gradient[used], numeric[name][used], rtol=1e-6, atol=1e-5)
    sampler, random, estimates = LabelSampler(labels, 2), np.random.default_rng(2), []
    for rows in itertools.combinations(range(N), 3):
        for _ in range(60):
            batch = batch_of(features, labels, list(rows), lambda y: sampler(y, random))
            estimate, gradients = bound.value_and_gradients(parameters, batch)
            estimates.append([estimate, *dense(parameters, gradients)["bias"]])
    error = np.std(estimates, axis=0) / np.sqrt(len(estimates))
    assert (np.abs(np.mean(estimates, axis=0) - [value, *expected["bias"]]) < 4 * error + 1e-12).all()


def test_weights_of_sampled_labels_are_the_inverse_of_their_probability():
    """Of all minibatches with a point that does not have the label, and with all draws."""
    _, features, labels = problem()
    present, size, count = labels.toarray(), 3, 2
    sampler = LabelSampler(labels, count)
    sample = sampler(labels[[0, 1, 2]], np.random.default_rng(0))
    weights = np.full(K, np.nan)
    weights[sample.labels] = sample.pairs.negative_weights
    assert len(sample.labels) > 2
    frequency = present.sum(axis=0)
    draws = 0.5 * frequency / frequency.sum() + 0.5 / K
    for k in sample.labels:
        for i in np.flatnonzero(~present[:, k]):
            others = [rows for rows in itertools.combinations(range(N), size) if i in rows]
            used = np.mean([1 if present[list(rows), k].any() else 1 - (1 - draws[k]) ** count for rows in others])
            assert weights[k] == pytest.approx(1 / used, rel=1e-9)


@pytest.mark.parametrize(("count", "size"), [(1, 1), (20, 7), (1000, 30)])
def test_the_probability_of_no_special_element_is_hypergeometric(count, size):
    special = np.arange(count + 1)
    expected = hypergeom.logpmf(0, count, special, size)
    np.testing.assert_allclose(log_absent(count, special, size), expected, rtol=1e-9, atol=1e-12)
