"""Expected log likelihoods against a double loop over points and labels, and sampled against complete negatives."""

import numpy as np
import pytest
import scipy.sparse as sp

from tests.central_differences import central_differences
from tests.gp.reference import complete_pairs, log_likelihood, pairs_of, random_labels
from tests.grids import each_value
from xmlgp.gp.expectations import Quadrature
from xmlgp.gp.likelihood import Moments, Negatives, full_log_likelihood, sampled_log_likelihood

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


def dense_sampled(*args, **options):
    """Return the sampled estimate with dense gradients."""
    value, d_moments, gradients = sampled_log_likelihood(*args, **options)
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
    result = full_log_likelihood(moments, loadings, bias, labels, EXACT)
    assert_agrees_with_double_loop(result, moments, loadings, bias, positives)
    weights = np.array([1, 2.5, 1, 1.5, 4, 1])
    result = full_log_likelihood(moments, loadings, bias, labels, EXACT, negatives=Negatives(weights))
    assert_agrees_with_double_loop(result, moments, loadings, bias, positives, np.where(positives, 1, weights))


@EITHER_VARIANCE
@pytest.mark.parametrize("weights", [None, np.array([1, 2.5, 1, 1.5, 4, 1])], ids=["all", "weighted"])
def test_unknown_pairs_are_in_no_sum(shared, weights):
    moments, loadings, bias, positives = problem(shared)
    unknown = ~positives & (np.random.default_rng(1).random(positives.shape) < 0.4)
    # A label and a point of which nothing but positives is known.
    unknown[:, 0], unknown[2] = ~positives[:, 0], ~positives[2]
    negatives = Negatives(weights, sp.csr_array(unknown))
    result = full_log_likelihood(moments, loadings, bias, sp.csr_array(positives), EXACT, negatives=negatives)
    counted = np.where(positives, 1, ~unknown * (1 if weights is None else weights))
    assert_agrees_with_double_loop(result, moments, loadings, bias, positives, counted)


@EITHER_VARIANCE
def test_sampled_log_likelihood_agrees_with_a_weighted_double_loop(shared):
    moments, loadings, bias, positives = problem(shared)
    negatives = [np.flatnonzero(~row)[:2] for row in positives]
    pairs = pairs_of(positives, negatives)
    weights = np.zeros((B, K))
    weights[np.repeat(np.arange(B), np.diff(pairs.indptr)), pairs.labels] = pairs.weight
    result = dense_sampled(moments, loadings, bias, pairs, EXACT)
    assert_agrees_with_double_loop(result, moments, loadings, bias, positives, weights)


@each_value(shared=[True, False], dtype=[np.float32, np.float64])
def test_gradients_are_the_same_without_the_value(shared, dtype):
    moments, loadings, bias, positives = problem(shared, dtype=dtype)
    for function, labels in (
        (full_log_likelihood, sp.csr_array(positives)),
        (dense_sampled, complete_pairs(positives)),
    ):
        _, d_moments, gradients = function(moments, loadings, bias, labels, Quadrature())
        value, d_without, without = function(moments, loadings, bias, labels, Quadrature(), value_needed=False)
        assert value is None
        arrays, others = [*d_moments, *gradients.values()], [*d_without, *without.values()]
        for array, other in zip(arrays, others, strict=True):
            assert array.dtype == other.dtype == dtype
            np.testing.assert_allclose(array, other, rtol=4 * np.finfo(dtype).eps)
