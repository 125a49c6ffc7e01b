"""Initial values of BMLPL: number of topics, topics, weights, precisions, revealed labels."""

import numpy as np
import pytest
import scipy.sparse as sp

from tests.grids import each_value
from xmlgp.bmlpl.activations import prior_mean
from xmlgp.bmlpl.initial import (
    DEFAULT_TOPICS,
    initial_precisions,
    initial_topics,
    initial_weights,
    reveal_labels,
    topic_count,
)
from xmlgp.bmlpl.least_squares import INTERCEPT_PRECISION
from xmlgp.bmlpl.settings import BMLPLSettings

BOTH = pytest.mark.parametrize("dtype", [np.float32, np.float64])


@pytest.mark.parametrize(
    ("asked", "K", "T"), [(None, 1, 1), (None, 7, 7), (None, 1000, DEFAULT_TOPICS), (3, 7, 3), (30, 7, 7), (None, 0, 1)]
)
def test_the_number_of_topics_is_at_most_the_number_of_labels(asked, K, T):
    assert topic_count(BMLPLSettings(topics=asked), K) == T


def test_a_random_share_of_labels_is_revealed():
    labels = sp.csr_array(np.random.default_rng(0).random((200, 50)) < 0.3)
    assert reveal_labels(labels, 1, None) is labels
    whole = labels.toarray()
    part = reveal_labels(labels, 0.25, np.random.default_rng(1))
    assert part.dtype == bool
    assert part.shape == labels.shape
    assert part.nnz == part.toarray().sum()
    assert (whole | ~part.toarray()).all()
    assert abs(part.nnz - 0.25 * labels.nnz) < 4.5 * np.sqrt(labels.nnz * 0.25 * 0.75)
    # The argument is unchanged.
    np.testing.assert_array_equal(labels.toarray(), whole)
    np.testing.assert_array_equal(reveal_labels(labels, 0.25, np.random.default_rng(1)).toarray(), part.toarray())
    assert (reveal_labels(labels, 0.25, np.random.default_rng(2)).toarray() != part.toarray()).any()


@BOTH
@pytest.mark.parametrize(("K", "T"), [(8, 3), (5, 5), (2, 1), (1, 1)])
def test_topics_start_from_the_most_frequent_labels(K, T, dtype):
    random = np.random.default_rng(K)
    frequencies = random.permutation(K) / (2 * K)
    topics = initial_topics(frequencies, T, random, dtype)
    assert topics.dtype == dtype
    assert (topics > 0).all()
    np.testing.assert_allclose(topics.sum(axis=0), 1, rtol=1e-5)
    np.testing.assert_array_equal(topics.argmax(axis=0), np.argsort(-frequencies)[:T])
    # Topics with equal initial values would stay equal.
    assert len(np.unique(topics, axis=1).T) == T


@each_value(dtype=[np.float32, np.float64], T=[1, 4])
def test_topics_without_positives_are_distributions(T, dtype):
    topics = initial_topics(np.zeros(4), T, np.random.default_rng(0), dtype)
    np.testing.assert_allclose(topics.sum(axis=0), 1, rtol=1e-5)


@each_value(dtype=[np.float32, np.float64], positives=[0.01, 3.5])
def test_initial_weights_predict_the_mean_number_of_labels(positives, dtype):
    weights, shapes = initial_weights(5, 4, positives, dtype)
    assert weights.shape == (6, 4)
    assert weights.dtype == shapes.dtype == dtype
    assert not weights[:-1].any()
    # Topics sum to one, so the sum of the rates is that of the activations.
    assert prior_mean(weights[-1:], shapes).sum() == pytest.approx(positives, rel=1e-5)


@BOTH
def test_weights_without_positives_are_finite(dtype):
    assert np.isfinite(initial_weights(2, 3, 0, dtype)[0]).all()


@BOTH
def test_precisions_are_equal_except_for_the_intercept(dtype):
    found = initial_precisions(3, 0.7, dtype)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, [0.7, 0.7, 0.7, INTERCEPT_PRECISION], rtol=1e-6)
