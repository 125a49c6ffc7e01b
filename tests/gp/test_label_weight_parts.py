"""The weights of some labels, taken out of W and put back, against dense matrices."""

import numpy as np
import pytest

from xmlgp.gp.label_weights import are_valid, put_labels, take_labels

K, D = 6, 9
NAMES = ("features", "mean", "log_variance")
BOTH = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def pattern_of(present):
    """Return the sparsity pattern of a dense matrix of bool."""
    indptr = np.concatenate([[0], np.cumsum(present.sum(axis=1))]).astype(np.int64)
    return indptr, np.nonzero(present)[1].astype(np.int32)


def weights_of(present, random, dtype):
    """Return random label weights where a matrix of bool is true."""
    indptr, columns = pattern_of(present)
    return {
        "label_weights.indptr": indptr,
        "label_weights.features": columns,
        "label_weights.mean": random.normal(size=len(columns)).astype(dtype),
        "label_weights.log_variance": random.normal(-1, 1, len(columns)).astype(dtype),
        "label_weights.log_prior": random.normal(size=D).astype(dtype),
    }


def dense(parameters, values, count=K):
    """Return a matrix with the values of weights, and NaN where there is no weight."""
    found = np.full((count, D), np.nan)
    rows = np.repeat(np.arange(count), np.diff(parameters["label_weights.indptr"]))
    found[rows, parameters["label_weights.features"]] = values
    return found


def problem(dtype, seed=0):
    """Return W, of which label 2 has no weight, labels to take, which features they shall have, and their scales."""
    random = np.random.default_rng(seed)
    present = random.random((K, D)) < 0.5
    present[2] = False
    labels = np.array([0, 2, 3, 5])
    wanted = random.random((len(labels), D)) < 0.4
    wanted[3] = False
    parameters = weights_of(present, random, dtype) | {"bias": np.zeros(K, dtype)}
    return parameters, labels, wanted, random.uniform(1, 5, len(labels)).astype(dtype)


@BOTH
def test_taken_weights_are_those_of_the_labels_and_zeros_for_new_features(dtype):
    parameters, labels, wanted, scales = problem(dtype)
    part, prior = take_labels(parameters, labels, pattern_of(wanted), scales)
    before = dense(parameters, parameters["label_weights.mean"])[labels]
    known = ~np.isnan(before)
    new = wanted & ~known
    # Every case occurs.
    assert new.any()
    assert (known & ~wanted).any()
    assert (known & wanted).any()
    expected = np.where(known, before, np.where(new, 0, np.nan))
    np.testing.assert_array_equal(dense(part, part["label_weights.mean"], len(labels)), expected)
    np.testing.assert_array_equal(dense(part, prior.mean, len(labels)), expected)

    variance = np.exp(dense(parameters, parameters["label_weights.log_variance"])[labels])
    of_training = scales[:, None] * np.exp(parameters["label_weights.log_prior"])
    variance = np.where(known, variance, np.where(new, of_training, np.nan))
    tolerance = 1e-12 if dtype == np.float64 else 1e-5
    found = np.exp(dense(part, part["label_weights.log_variance"], len(labels)))
    np.testing.assert_allclose(found, variance, rtol=tolerance)
    np.testing.assert_allclose(1 / dense(part, prior.precision, len(labels)), variance, rtol=tolerance)

    assert part.keys() == {name for name in parameters if name.startswith("label_weights.")}
    for name, value in part.items():
        assert value.dtype == parameters[name].dtype, name
    assert (prior.mean.dtype, prior.precision.dtype) == (dtype, dtype)
    assert are_valid(part | {"bias": np.zeros(len(labels), dtype)}, D, len(labels))
    np.testing.assert_array_equal(part["label_weights.log_prior"], parameters["label_weights.log_prior"])


@BOTH
def test_weights_that_are_updated_in_place_change_neither_the_prior_nor_the_model(dtype):
    parameters, labels, wanted, scales = problem(dtype)
    for value in parameters.values():
        value.flags.writeable = False
    part, prior = take_labels(parameters, labels, pattern_of(wanted), scales)
    center, precision = prior.mean.copy(), prior.precision.copy()
    part["label_weights.mean"] += 1
    part["label_weights.log_variance"] += 1
    np.testing.assert_array_equal(prior.mean, center)
    np.testing.assert_array_equal(prior.precision, precision)


@BOTH
@pytest.mark.parametrize("labels", [[0, 2, 3, 5], [2], [], list(range(K))], ids=str)
def test_weights_that_are_put_back_unchanged_give_the_same_model(dtype, labels):
    parameters, *_ = problem(dtype)
    labels = np.array(labels, np.int64)
    nothing = pattern_of(np.zeros((len(labels), D), bool))
    part, _ = take_labels(parameters, labels, nothing, np.ones(len(labels), dtype))
    found = put_labels(parameters, labels, part)
    assert found.keys() == parameters.keys()
    for name, value in parameters.items():
        assert found[name].dtype == value.dtype
        if name == "label_weights.log_variance":
            # It was a variance in between.
            np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(found[name], value)


@BOTH
def test_weights_are_replaced_for_these_labels_only(dtype):
    parameters, labels, wanted, scales = problem(dtype)
    part, _ = take_labels(parameters, labels, pattern_of(wanted), scales)
    random = np.random.default_rng(1)
    for name in NAMES[1:]:
        part[f"label_weights.{name}"] = random.normal(size=len(part["label_weights.mean"])).astype(dtype)
    found = put_labels(parameters, labels, part)
    assert are_valid(found, D, K)
    for name in NAMES:
        name = f"label_weights.{name}"
        expected = dense(parameters, parameters[name])
        expected[labels] = dense(part, part[name], len(labels))
        np.testing.assert_array_equal(dense(found, found[name]), expected)


@BOTH
def test_a_model_without_any_weights_gets_those_of_its_points(dtype):
    random = np.random.default_rng(0)
    parameters = weights_of(np.zeros((K, D), bool), random, dtype) | {"bias": np.zeros(K, dtype)}
    labels, wanted = np.array([1, 4]), random.random((2, D)) < 0.5
    part, prior = take_labels(parameters, labels, pattern_of(wanted), np.array([2, 3], dtype))
    found = put_labels(parameters, labels, part)
    expected = np.zeros((K, D), bool)
    expected[labels] = wanted
    np.testing.assert_array_equal(~np.isnan(dense(found, found["label_weights.mean"])), expected)
    assert not prior.mean.any()
    assert are_valid(found, D, K)
