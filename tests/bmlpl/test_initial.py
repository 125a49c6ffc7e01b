"""Initial values of BMLPL: number of topics, topics, weights, precisions, revealed labels."""

import numpy as np
import pytest
import scipy.sparse as sp

from xmlgp.bmlpl.activations import prior_mean
from xmlgp.bmlpl.initial import DEFAULT_TOPICS, initial_topics, initial_values, reveal_labels, topic_count
from xmlgp.bmlpl.least_squares import INTERCEPT_PRECISION
from xmlgp.bmlpl.settings import BMLPLSettings


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
    assert (reveal_labels(labels, 0.25, np.random.default_rng(2)).toarray() != part.toarray()).any()


@pytest.mark.parametrize(("K", "T"), [(8, 3), (5, 5), (1, 1)])
def test_topics_start_from_the_most_frequent_labels(K, T):
    random = np.random.default_rng(K)
    frequencies = random.permutation(K) / (2 * K)
    topics = initial_topics(frequencies, T, random, np.float32)
    assert topics.dtype == np.float32
    assert (topics > 0).all()
    np.testing.assert_allclose(topics.sum(axis=0), 1, rtol=1e-5)
    np.testing.assert_array_equal(topics.argmax(axis=0), np.argsort(-frequencies)[:T])
    # Topics with equal initial values would stay equal.
    assert len(np.unique(topics, axis=1).T) == T


@pytest.mark.parametrize(("dtype", "share"), [("float32", 0.3), ("float64", 0.01), ("float32", 0)])
def test_initial_values(dtype, share):
    labels = sp.csr_array(np.random.default_rng(1).random((50, 6)) < share)
    settings = BMLPLSettings(topics=4, precision=0.7, dtype=dtype)
    topics, weights, shapes, precisions = values = initial_values(5, labels, settings, np.random.default_rng(0))
    assert all(value.dtype == dtype and np.isfinite(value).all() for value in values)
    assert weights.shape == (6, 4)
    assert not weights[:-1].any()
    np.testing.assert_allclose(topics.sum(axis=0), 1, rtol=1e-5)
    np.testing.assert_allclose(precisions, [0.7] * 5 + [INTERCEPT_PRECISION], rtol=1e-6)
    # Topics sum to one, so the sum of the rates is that of the activations.
    assert prior_mean(weights[-1:], shapes).sum() == pytest.approx(labels.nnz / 50, rel=1e-5, abs=1e-17)
