"""Topics as a reader wants them: shares as SciPy has the probabilities, labels as NumPy sorts them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import nbinom

from tests.problems import STEADY
from xmlgp.bmlpl import topics as module
from xmlgp.bmlpl.topics import heaviest_labels, shares


def problem(K, T, dtype=np.float32, seed=0):
    """Return V, intercepts and shapes."""
    random = np.random.default_rng(seed)
    topics = random.dirichlet(np.full(K, 0.2), size=T).T
    return topics.astype(dtype), random.normal(-2, 2, T).astype(dtype), random.gamma(2.0, size=T).astype(dtype)


@pytest.mark.parametrize("block", [1, 200, 1 << 24])
def test_shares_are_those_of_the_labels_that_negative_binomial_counts_give(monkeypatch, block):
    monkeypatch.setattr(module, "BLOCK", block)
    topics, intercepts, shapes = problem(K=9, T=7)
    # A gamma mixture of Poisson counts: with mean r v e^ψ, and so success probability 1 / (1 + v e^ψ).
    success = 1 / (1 + topics * np.exp(intercepts.astype(np.float64)))
    expected = nbinom.sf(0, shapes.astype(np.float64), success).sum(axis=0)
    np.testing.assert_allclose(shares(topics, intercepts, shapes), expected / expected.sum(), rtol=1e-6)


def test_where_labels_are_rare_shares_are_those_of_activations():
    topics, intercepts, shapes = problem(K=9, T=7)
    expected = shapes * np.exp(intercepts)
    np.testing.assert_allclose(shares(topics, intercepts - 20, shapes), expected / expected.sum(), rtol=1e-5)


def test_a_label_counts_once_however_often_a_topic_would_have_it():
    topics = np.array([[1, 0.5], [0, 0.5]])
    np.testing.assert_allclose(shares(topics, np.array([30.0, 30]), np.array([5.0, 5])), [1 / 3, 2 / 3])


@pytest.mark.parametrize("value", [5e-324, 1e-30, 1e30, 1e308])
@pytest.mark.parametrize("intercept", [-1e308, 0, 1e308])
def test_shares_are_numbers_whatever_the_parameters(value, intercept):
    topics, intercepts, shapes = problem(K=5, T=4, dtype=np.float64)
    found = shares(topics, np.full_like(intercepts, intercept), np.full_like(shapes, value))
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(1)


@STEADY
@given(st.lists(st.sampled_from([0.0, 0.1, 0.2, 0.3]), min_size=1, max_size=12), st.integers(1, 15))
def test_the_heaviest_labels_are_the_first_of_all_sorted(topic, count):
    topic = np.array(topic, np.float32)
    np.testing.assert_array_equal(heaviest_labels(topic, count), np.lexsort((np.arange(len(topic)), -topic))[:count])
