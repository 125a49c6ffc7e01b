"""Expected log likelihoods against a double loop over points and labels, and sampled against complete negatives."""

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp

from tests.central_differences import central_differences
from tests.gp.reference import complete_pairs, log_likelihood, pairs_of, random_labels
from tests.grids import each_value
from xmlgp.gp import likelihood
from xmlgp.gp.expectations import Quadrature
from xmlgp.gp.likelihood import AllPairs, Moments
from xmlgp.runtime.threads import limit_threads

B, K, P = 5, 6, 3
EXACT = Quadrature(40)
EITHER_VARIANCE = pytest.mark.parametrize("shared", [True, False], ids=["shared", "unshared"])


def problem(shared, seed=0, dtype=np.float64):
    """Return moments, Φ, b and labels, with a point without positives, one with all, and a label without points."""
    random = np.random.default_rng(seed)
    moments = Moments(random.normal(size=(B, P)), 0.5 * random.random((B, 1 if shared else P)))
    arrays = [*moments, random.normal(size=(K, P)) / np.sqrt(P), random.normal(size=K)]
    positives = random_labels(random, B, K).toarray()
    positives[1], positives[:, 2], positives[3] = False, False, True
    mean, variance, loadings, bias = (array.astype(dtype) for array in arrays)
    return Moments(mean, variance), loadings, bias, positives


def dense_sampled(pairs, *args, **options):
    """Return the sampled estimate with dense gradients."""
    value, d_moments, gradients = pairs.value_and_gradients(*args, **options)
    return value, d_moments, {name: rows.toarray(K) for name, rows in gradients.items()}


def assert_agrees_with_double_loop(result, moments, loadings, bias, positives, weights=None):
    value, d_moments, gradients = result

    arrays = {"mean": moments.mean, "variance": moments.variance, "loadings": loadings, "bias": bias}

    def expected(arrays):
        return log_likelihood(*arrays.values(), positives, weights)

    assert value == pytest.approx(expected(arrays), rel=1e-9)
    gradients |= d_moments._asdict()
    for name, numeric in central_differences(expected, arrays).items():
        np.testing.assert_allclose(gradients[name], numeric, rtol=1e-6, atol=1e-7)


@EITHER_VARIANCE
def test_full_log_likelihood_agrees_with_a_double_loop(shared):
    moments, loadings, bias, positives = problem(shared)
    labels = sp.csr_array(positives)
    result = AllPairs(labels).value_and_gradients(moments, loadings, bias, EXACT)
    assert_agrees_with_double_loop(result, moments, loadings, bias, positives)
    weights = np.array([1, 2.5, 1, 1.5, 4, 1])
    result = AllPairs(labels, weights).value_and_gradients(moments, loadings, bias, EXACT)
    assert_agrees_with_double_loop(result, moments, loadings, bias, positives, np.where(positives, 1, weights))


@EITHER_VARIANCE
def test_sampled_log_likelihood_agrees_with_a_weighted_double_loop(shared):
    moments, loadings, bias, positives = problem(shared)
    negatives = [np.flatnonzero(~row)[:2] for row in positives]
    pairs = pairs_of(positives, negatives)
    weights = np.zeros((B, K))
    weights[np.repeat(np.arange(B), np.diff(pairs.indptr)), pairs.labels] = pairs.weight
    result = dense_sampled(pairs, moments, loadings, bias, EXACT)
    assert_agrees_with_double_loop(result, moments, loadings, bias, positives, weights)


@each_value(shared=[True, False], dtype=[np.float32, np.float64])
def test_gradients_are_the_same_without_the_value(shared, dtype):
    moments, loadings, bias, positives = problem(shared, dtype=dtype)
    for function in (
        AllPairs(sp.csr_array(positives)).value_and_gradients,
        partial(dense_sampled, complete_pairs(positives)),
    ):
        _, d_moments, gradients = function(moments, loadings, bias, Quadrature())
        value, d_without, without = function(moments, loadings, bias, Quadrature(), value_needed=False)
        assert value is None
        arrays, others = [*d_moments, *gradients.values()], [*d_without, *without.values()]
        for array, other in zip(arrays, others, strict=True):
            assert array.dtype == other.dtype == dtype
            np.testing.assert_allclose(array, other, rtol=4 * np.finfo(dtype).eps)


@each_value(dtype=[np.float32, np.float64], weighted=[True, False], block=[7, 2000])
def test_a_shared_variance_is_as_good_as_equal_ones(monkeypatch, dtype, weighted, block):
    monkeypatch.setattr(likelihood, "ONE_BLOCK", 0)
    monkeypatch.setattr(likelihood, "PAIR_OF_BLOCKS", block)
    random = np.random.default_rng(3)
    count, width, size = 4, 3, 2100
    mean = random.normal(size=(count, width)).astype(dtype)
    shared = random.random((count, 1)).astype(dtype)
    loadings = random.normal(size=(size, width)).astype(dtype)
    bias = random.normal(size=size).astype(dtype) - 3
    labels = random_labels(random, count, size)
    weights = 1 + 3 * random.random(size) if weighted else None
    results = [
        AllPairs(labels, weights).value_and_gradients(
            Moments(mean, variance), loadings, bias, Quadrature(), for_step=True
        )
        for variance in (shared, np.repeat(shared, width, axis=1))
    ]
    shared, separate = results
    tolerance = {"rtol": 2e-3, "atol": 2e-3} if dtype == np.float32 else {"rtol": 1e-4, "atol": 1e-4}
    assert shared[0] == pytest.approx(separate[0], rel=1e-5)
    np.testing.assert_allclose(shared[1].mean, separate[1].mean, **tolerance)
    np.testing.assert_allclose(shared[1].variance, separate[1].variance.sum(axis=1, keepdims=True), **tolerance)
    for name, gradient in shared[2].items():
        np.testing.assert_allclose(gradient, separate[2][name], **tolerance)


@EITHER_VARIANCE
def test_gradients_do_not_depend_on_the_number_of_threads(monkeypatch, shared):
    monkeypatch.setattr(likelihood, "ONE_BLOCK", 0)
    monkeypatch.setattr(likelihood, "PAIR_OF_BLOCKS", 12)
    moments, loadings, bias, positives = problem(shared, dtype=np.float32)
    results = []
    for threads in (1, 2, 3):
        with limit_threads(threads):
            value, d_moments, gradients = AllPairs(sp.csr_array(positives)).value_and_gradients(
                moments, loadings, bias, Quadrature()
            )
        results.append([value, *d_moments, *gradients.values()])
    for first, *others in zip(*results, strict=True):
        assert all(np.array_equal(first, other) for other in others)
