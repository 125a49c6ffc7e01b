"""The regression on nearest points against scikit-learn's, and its words and dense features against NumPy."""

import os
import signal

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from tests.grids import each_value
from tests.neighbours.test_search import drawn_rows
from xmlgp.data.dataset import Features
from xmlgp.neighbours import predictions as module
from xmlgp.neighbours.dense import DenseSearch, standardise
from xmlgp.neighbours.predictions import Neighbours, NeighbourTerm, scaled_words
from xmlgp.neighbours.regression import Choices, Kernel
from xmlgp.runtime.interrupts import Interrupted, defer_signals, handle_signals
from xmlgp.runtime.threads import limit_threads

N, D, K, E, B = 80, 30, 6, 4, 12


def problem(dense=False, seed=0):
    """Return words, dense features (or None) and labels of training points, and words and dense features of others."""
    random = np.random.default_rng(seed)
    rows, queries = (drawn_rows(random, size, D, 8) for size in (N, B))
    more = [random.normal([0, 5, -1e3, 2], [1, 3, 2, 0.1], (size, E)) if dense else None for size in (N, B)]
    return rows, more[0], sp.csr_array(random.random((N, K)) < 0.3), queries, more[1]


def inputs(words, dense, kernel):
    """Return words and dense features as one matrix, whose covariances are those of an RBF kernel of lengthscale 1."""
    words = words.toarray().astype(float)
    # ½‖x − x′‖² of unit rows is 1 − x·x′. A row without words is a direction of its own.
    if words.any():
        words = np.hstack([words, np.eye(len(words), N) * ~words.any(axis=1)[:, None]])
    left = words / np.sqrt(kernel.squared_lengthscale)
    return left if dense is None else np.hstack([left, np.sqrt(kernel.dense_relevance) * dense])


def expected_predictions(problem, kernel, n):
    """Return predictions and their variances, B×K and B, by a regression of scikit-learn for each point."""
    rows, dense, labels, queries, new = problem
    if dense is not None:
        standardised = standardise(dense)
        # Training points have them in half precision.
        dense, new = standardised.values.astype(float), (new - standardised.center) / standardised.width
    left, right = inputs(rows, dense, kernel), inputs(queries, new, kernel)
    frequencies = labels.toarray().mean(axis=0)
    shared = queries.toarray() @ rows.toarray().T > 0 if dense is None else np.ones((B, N), bool)
    means, variances = np.empty((B, K)), np.empty(B)
    for b in range(B):
        distances = np.square(left - right[b]).sum(axis=1)
        chosen = [r for r in np.argsort(distances, kind="stable") if shared[b, r]][:n]
        means[b], variances[b] = frequencies, 1
        if chosen:
            model = GaussianProcessRegressor(RBF(1.0), alpha=kernel.noise, optimizer=None)
            model.fit(left[chosen], labels.toarray()[chosen] - frequencies)
            mean, std = model.predict(right[b : b + 1], return_std=True)
            means[b], variances[b] = frequencies + mean[0], np.square(std).flat[0]
    return means, variances


def predictions_of(problem, choices, scales=None):
    rows, dense, labels, *_ = problem
    neighbours = Neighbours.build(rows, labels, choices, dense)
    return NeighbourTerm(neighbours, np.ones(D) if scales is None else scales, labels.sum(axis=0))


@each_value(
    dense=[False, True], n=[5, 20, 100], kernel=[Kernel(0.5, 1.0, 0.2), Kernel(1.0, 2.0, 0.5), Kernel(0.3, 0.5, 0.05)]
)
def test_predictions_are_those_of_scikit_learn(monkeypatch, dense, n, kernel):
    monkeypatch.setattr(module, "NEAREST", n)
    drawn = problem(dense)
    # Points without words are in both parts; rows that share words with few points have fewer than n neighbours.
    predictions = predictions_of(drawn, Choices(kernel, 0.5, 0.0))
    predicted = predictions.predict(Features(drawn[3], drawn[4]))
    frequencies = drawn[2].toarray().mean(axis=0)
    found = predicted.shares.toarray() + np.outer(predicted.regressed.rest, frequencies)
    means, variances = expected_predictions(drawn, kernel, n)
    has_words = np.diff(drawn[3].indptr) > 0
    assert not has_words.all()
    known = has_words if dense else slice(None)
    np.testing.assert_allclose(found[known], means[known], atol=2e-5)
    np.testing.assert_allclose(predicted.regressed.variance[known], variances[known], atol=2e-5)


def test_points_without_words_are_predicted_by_dense_features_alone():
    kernel = Kernel(0.5, 1.0, 0.2)
    rows, dense, labels, _, new = problem(True)
    nothing = sp.csr_array((B, D), dtype=np.float32)
    predictions = predictions_of((rows, dense, labels), Choices(kernel, 0.5, 0.0))
    predicted = predictions.predict(Features(nothing, new))
    found = predicted.shares.toarray() + np.outer(predicted.regressed.rest, labels.toarray().mean(axis=0))
    without_words = sp.csr_array((N, D), dtype=np.float32), dense, labels, nothing, new
    means, variances = expected_predictions(without_words, kernel, 100)
    np.testing.assert_allclose(found, means, atol=2e-5)
    np.testing.assert_allclose(predicted.regressed.variance, variances, atol=2e-5)
    np.testing.assert_array_equal(predicted.least, np.ones(B))


def test_points_without_known_words_get_the_frequencies_of_labels():
    rows, _, labels, *_ = problem()
    predictions = predictions_of((rows, None, labels), Choices(Kernel(0.5, 1.0, 0.2), 0.5, 0.0))
    predicted = predictions.predict(Features(sp.csr_array((3, D), dtype=np.float32)))
    assert predicted.shares.nnz == 0
    np.testing.assert_array_equal(predicted.regressed.rest, np.ones(3))
    np.testing.assert_array_equal(predicted.regressed.variance, np.ones(3))
    np.testing.assert_array_equal(predicted.least, np.zeros(3))


@pytest.mark.parametrize("offset", [0, 1.6e9])
def test_half_of_the_mean_squared_distance_of_standardised_points_is_one(offset):
    random = np.random.default_rng(1)
    dense = random.normal(offset, [1, 50, 3, 1, 7], (300, 5))
    dense[:, 3] = offset
    features = standardise(dense)
    assert features.values.dtype == np.float16
    halves = 0.5 * np.square(features.values[:, None] - features.values.astype(float)).mean(axis=(0, 1))
    # The same share for each column, none for a constant one.
    np.testing.assert_allclose(halves, np.where(np.arange(5) == 3, 0, 1 / 5), rtol=2e-3)
    assert abs(features.standardised(dense + np.arange(5) * 1e3)[:, 3]).max() < 1e-20


def test_the_mean_squared_distance_of_random_columns_is_one():
    dense = np.random.default_rng(2).normal(size=(200, 6)).astype(np.float32)
    values = standardise(dense).values.astype(float)
    np.testing.assert_allclose(0.5 * np.square(values[:, None] - values).sum(axis=2).mean(), 1, rtol=2e-3)


def test_the_search_by_dense_features_depends_neither_on_blocks_nor_on_other_points(monkeypatch):
    rows, dense, _, queries, new = problem(True)
    kernel = Kernel(0.5, 1.0, 0.2)
    search = DenseSearch(rows, standardise(dense))
    whole = search.search(queries, new, 10, kernel)
    monkeypatch.setattr("xmlgp.neighbours.dense.MAX_ROWS", 5)
    blocks = search.search(queries, new, 10, kernel)
    part = search.search(queries[4:6], new[4:6], 10, kernel)
    np.testing.assert_array_equal(whole.nearest, blocks.nearest)
    np.testing.assert_array_equal(whole.nearest[4:6], part.nearest)
    np.testing.assert_allclose(whole.half_distances, blocks.half_distances, rtol=1e-5)
    assert search.search(queries[:0], new[:0], 10, kernel).nearest.shape == (0, 10)


def test_scaled_words_do_not_depend_on_other_rows():
    random = np.random.default_rng(3)
    values = random.random((50, D)) * (random.random((50, D)) < 0.3)
    scales = np.where(np.arange(D) < 2, 1e-6, 100.0)
    values[40] = np.where(np.arange(D) < 2, 0.5, 0)
    rows = sp.csr_array(values.astype(np.float32))
    found = scaled_words(rows, scales)
    expected = values * scales
    expected /= np.maximum(np.linalg.norm(expected, axis=1, keepdims=True), 1e-30)
    np.testing.assert_allclose(found.toarray(), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found[[40]].toarray(), scaled_words(rows[[40]], scales).toarray())


@each_value(dense=[False, True])
def test_regressions_depend_neither_on_other_points_nor_on_other_kernels_nor_on_threads(dense):
    rows, features, labels, queries, new = problem(dense)
    kernels = Kernel(0.5, 1.0, 0.2), Kernel(1.0, 2.0, 0.5), Kernel(0.3, 0.5, 0.05)
    term = predictions_of((rows, features, labels), Choices(kernels[0], 0.5, 0.0))
    whole = term.search(Features(queries, new))
    with limit_threads(1):
        alone = [term.regress(whole, [kernel])[0].regressed for kernel in kernels]
    with limit_threads(3):
        together = [predicted.regressed for predicted in term.regress(whole, kernels)]
    part = whole._replace(**{name: a[4:6] for name, a in whole._asdict().items() if a is not None})
    parts = [predicted.regressed for predicted in term.regress(part, kernels)]
    for one, other, of_part in zip(alone, together, parts, strict=True):
        for values, others, of_two in zip(one, other, of_part, strict=True):
            np.testing.assert_array_equal(values, others)
            np.testing.assert_array_equal(values[4:6], of_two)


@each_value(noise=[0.01, 0.2])
def test_many_equal_neighbours_share_the_weight(noise):
    # K_RR is of ones, so each of n weights is 1/(n + σ²); no word is in few of the rows.
    n = module.NEAREST
    words, labels = sp.csr_array(np.tile(np.float32([[0.6, 0.8]]), (n, 1))), sp.csr_array(np.ones((n, 1), bool))
    term = predictions_of((words, None, labels), Choices(Kernel(1, 1, noise), 0.5, 0.0), np.ones(2))
    found = term.predict(Features(words[:1])).regressed
    np.testing.assert_allclose(found.weights, np.full((1, n), 1 / (n + noise)), rtol=1e-4)
    np.testing.assert_allclose(found.variance, [1 - n / (n + noise)], atol=1e-6)


def test_a_signal_that_waits_ends_the_regressions(monkeypatch):
    rows, _, labels, queries, _ = problem()
    term = NeighbourTerm(
        Neighbours.build(rows, labels, Choices(Kernel(1.0, 1.0, 0.2), 0.5, 0.0)), np.ones(D, np.float32), np.ones(K)
    )
    found = term.search(Features(queries))
    monkeypatch.setattr("xmlgp.neighbours.regression.PART", 2)
    with handle_signals(), defer_signals():
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(Interrupted) as caught:
            term.regress(found, [Kernel(1.0, 1.0, 0.2)])
    assert caught.value.was_asked_for
