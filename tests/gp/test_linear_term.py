"""The linear term W x against dense products, for blocks of labels and for pairs."""

import numpy as np
import pytest

from tests.gp.test_label_weights import BOTH, B, K, assert_close, positions, random_weights, to_dense
from tests.grids import each_value
from xmlgp.gp import linear_term as module
from xmlgp.gp.label_weights import LabelWeights
from xmlgp.gp.linear_term import LinearTerm, PairsByLabel


def dense_moments(parameters, points):
    """Return mean and variance of W x by dense products."""
    mean = to_dense(parameters, parameters["label_weights.mean"].astype(float))
    variance = to_dense(parameters, np.exp(parameters["label_weights.log_variance"].astype(float)))
    points = points.toarray().astype(float)
    return points @ mean.T, points**2 @ variance.T


@BOTH
@pytest.mark.parametrize("width", [1, 3, K])
def test_moments_of_blocks_agree_with_dense_products(dtype, width):
    parameters, points = random_weights(dtype)
    term = LinearTerm(LabelWeights(parameters), points)
    random = np.random.default_rng(3)
    mean, variance = random.normal(size=(2, B, K)).astype(dtype)
    term_mean, term_variance = dense_moments(parameters, points)
    # The point without features and the labels without weights have a term of zero.
    assert not term_mean[3].any()
    assert not term_variance[:, [2, K - 1]].any()
    assert term_variance.any(axis=1).sum() == B - 1
    expected = mean + term_mean, variance + term_variance
    for start in range(0, K, width):
        block = slice(start, start + width)
        mean_only = mean[:, block].copy()
        term.add_moments(start, mean_only)
        term.add_moments(start, mean[:, block], variance[:, block])
        np.testing.assert_array_equal(mean_only, mean[:, block])
    assert_close(mean, expected[0], dtype)
    assert_close(variance, expected[1], dtype)


@BOTH
@each_value(width=[1, 3, K], sign=[1, -1])
def test_gradients_of_blocks_agree_with_dense_products(dtype, width, sign):
    parameters, points = random_weights(dtype)
    term = LinearTerm(LabelWeights(parameters), points)
    d_mean, d_variance = np.random.default_rng(4).normal(size=(2, B, K)).astype(dtype)
    term.zero_gradients()
    for start in range(0, K, width):
        term.set_gradients(start, d_mean[:, start : start + width], d_variance[:, start : start + width], sign)
    dense = points.toarray().astype(float)
    assert_close(term.d_mean, sign * (d_mean.T @ dense)[positions(parameters)], dtype)
    assert_close(term.d_variance, sign * (d_variance.T @ dense**2)[positions(parameters)], dtype)


def random_pairs(random):
    """Return pairs in random order of labels, with one point and one label left out, and their positions."""
    chosen = random.random((B, K)) < 0.5
    chosen[5], chosen[:, 1] = False, False
    columns = [random.permutation(np.flatnonzero(row)) for row in chosen]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in columns])])
    labels = np.concatenate(columns)
    pairs = PairsByLabel.from_pairs(indptr, *np.unique(labels, return_inverse=True))
    return pairs, (np.repeat(np.arange(B), np.diff(indptr)), labels)


@BOTH
@each_value(tasks=[1, 3, 32], seed=list(range(3)))
def test_pairs_have_the_moments_and_gradients_of_blocks(monkeypatch, dtype, tasks, seed):
    monkeypatch.setattr(module, "TASKS", tasks)
    parameters, points = random_weights(dtype)
    term = LinearTerm(LabelWeights(parameters), points)
    random = np.random.default_rng(seed)
    pairs, pair_positions = random_pairs(random)
    assert not set(pairs.labels) & {1}
    mean, variance = random.normal(size=(2, len(pair_positions[0]))).astype(dtype)
    expected = np.zeros((2, B, K), dtype)
    expected[0][pair_positions], expected[1][pair_positions] = mean, variance
    term.add_moments(0, *expected)
    term.add_pair_moments(pairs, mean, variance)
    assert_close(mean, expected[0][pair_positions], dtype)
    assert_close(variance, expected[1][pair_positions], dtype)

    d_pairs = random.normal(size=(2, len(pair_positions[0]))).astype(dtype)
    d_blocks = np.zeros((2, B, K), dtype)
    d_blocks[0][pair_positions], d_blocks[1][pair_positions] = d_pairs
    term.zero_gradients()
    term.set_gradients(0, *d_blocks)
    of_blocks = term.d_mean, term.d_variance
    term.zero_gradients()
    term.set_pair_gradients(pairs, *d_pairs)
    assert term.d_mean.any()
    assert_close(term.d_mean, of_blocks[0], dtype)
    assert_close(term.d_variance, of_blocks[1], dtype)
    assert not term.d_mean[positions(parameters)[0] == 1].any()
