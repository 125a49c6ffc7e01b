"""Initial values, updates of topics, shapes and precisions against what they maximise, and shares of topics."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats
from scipy.optimize import minimize_scalar
from scipy.special import expit

from tests.grids import each_value
from xmlgp.models.bmlpl.activations import expected_activations, prior_mean
from xmlgp.models.bmlpl.counts import reveal_labels
from xmlgp.models.bmlpl.least_squares import INTERCEPT_PRECISION
from xmlgp.models.bmlpl.parameters import (
    SHAPE_RATE,
    initial_topics,
    initial_values,
    list_topics,
    topic_shares,
    update_precisions,
    update_shapes,
    update_topics,
)
from xmlgp.models.bmlpl.settings import BMLPLSettings

BOTH = pytest.mark.parametrize("dtype", [np.float32, np.float64])


@each_value(dtype=[np.float32, np.float64], concentration=[1e-3, 0.5, 3.0])
def test_topics_are_posterior_means(dtype, concentration):
    random = np.random.default_rng(0)
    counts = random.gamma(0.5, 5.0, (6, 4)).astype(dtype)
    counts[2] = 0
    topics = update_topics(counts.copy(), concentration)
    assert topics.dtype == dtype
    mean = np.stack([stats.dirichlet.mean(m + concentration) for m in counts.T.astype(float)], axis=1)
    np.testing.assert_allclose(topics, mean, rtol=1e-5 if dtype == np.float32 else 1e-11)


def evidence(shape, counts, log_odds):
    """Return Σ_n log NegBin(m_n; r, σ(ψ_n)) + log Gamma(r; 1, rate 1); SciPy's probability is 1 − σ(ψ)."""
    prior = stats.gamma.logpdf(shape, 1, scale=1 / SHAPE_RATE)
    return stats.nbinom.logpmf(counts, shape, expit(-log_odds)).sum() + prior


def update(shape, counts, log_odds):
    u = np.empty((len(counts), 1))
    sums = expected_activations(counts[:, None].astype(float), log_odds[:, None], np.array([shape]), u)
    return update_shapes(np.array([shape]), sums)[0]


@each_value(seed=list(range(3)), start=[1e-5, 0.01, 0.3, 2.0, 50.0])
def test_updates_of_a_shape_raise_its_evidence_and_converge_to_the_maximum(seed, start):
    random = np.random.default_rng(seed)
    counts = random.negative_binomial(0.5 * (seed + 1), 0.3, 30)
    log_odds = random.normal(0, 1.5, 30)
    shape = start
    value = evidence(start, counts, log_odds)
    for number in range(400):
        shape = update(shape, counts, log_odds)
        if number < 20 or number % 20 == 0:
            before = value
            value = evidence(shape, counts, log_odds)
            assert value >= before - 1e-9 * abs(before)
    best = minimize_scalar(lambda s: -evidence(np.exp(s), counts, log_odds), (-3, 1), tol=1e-10)
    assert shape == pytest.approx(np.exp(best.x), rel=1e-3)
    # The maximum is a fixed point of the update.
    shape = np.exp(best.x)
    assert update(shape, counts, log_odds) == pytest.approx(shape, rel=1e-5)


@BOTH
def test_precisions_maximise_the_expected_log_prior(dtype):
    moments = np.random.default_rng(2).gamma(0.5, 2.0, (6, 4))
    result = update_precisions(moments, dtype)
    assert result.dtype == dtype
    for precision, squares in zip(result, moments, strict=True):
        # E log N(w | 0, 1/τ) equals log N(√(E w²) | 0, 1/τ).
        best = minimize_scalar(
            lambda s, squares=squares: -stats.norm.logpdf(np.sqrt(squares), 0, np.exp(-s / 2)).sum(), (-2, 2), tol=1e-10
        )
        assert float(precision) == pytest.approx(np.exp(best.x), rel=1e-5)


def test_a_random_share_of_labels_is_revealed():
    labels = sp.csr_array(np.random.default_rng(0).random((200, 50)) < 0.3)
    assert reveal_labels(labels, 1, None) is labels
    everything = labels.toarray()
    part = reveal_labels(labels, 0.25, np.random.default_rng(1))
    assert part.dtype == bool
    assert (everything | ~part.toarray()).all()
    assert abs(part.nnz - 0.25 * labels.nnz) < 4.5 * np.sqrt(labels.nnz * 0.25 * 0.75)


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


def test_shares_weight_labels_and_not_counts():
    # Label 0 has three counts per point, two of topic 0; label 1 has one count per point; label 2 has no points.
    counts = np.array([[20.0, 10.0], [1.0, 4.0], [0.0, 0.0]])
    result = topic_shares(counts, np.array([10, 5, 0]))
    np.testing.assert_allclose(result, [(10 * 2 / 3 + 1) / 15, (10 / 3 + 4) / 15])
    # Without positives they are equal.
    np.testing.assert_array_equal(topic_shares(np.zeros((3, 4)), np.zeros(3, int)), 0.25)


@pytest.mark.parametrize("top", [1, 4, 15])
def test_listed_labels_agree_with_a_full_sort(top):
    V = np.random.default_rng(0).choice([0, 0.1, 0.2], size=(12, 3)).astype(np.float32)
    topics = list_topics({"topics": V, "shares": np.array([0.2, 0.6, 0.2])}, top)
    assert [topic.number for topic in topics] == [1, 0, 2]
    for topic in topics:
        column = V[:, topic.number]
        np.testing.assert_array_equal(topic.labels, np.lexsort((np.arange(12), -column))[:top])
        np.testing.assert_array_equal(topic.weights, column[topic.labels])


def test_topics_of_similar_points_are_joined_with_the_weights_of_their_share():
    random = np.random.default_rng(0)
    directions = random.standard_normal((2, 30))
    # The length of weights says how sure a topic is, not which points have it.
    kinds = [0, 1, 0, 1, 0]
    lengths = np.array([1, 9, 3, 1, 5])
    weights = (directions[kinds].T + 0.1 * random.standard_normal((30, 5))) * lengths
    V = random.dirichlet(np.full(8, 0.1), 5).T.astype(np.float32)
    shares = np.array([0.1, 0.2, 0.3, 0.15, 0.25], np.float32)
    parameters = {"topics": V, "weights": weights.astype(np.float32), "shares": shares}
    first, second = list_topics(parameters, 8, 2)
    assert (first.number, first.joined, second.number, second.joined) == (2, [2, 4, 0], 1, [1, 3])
    assert (first.share, second.share) == pytest.approx((0.65, 0.35))
    mean = V[:, [2, 4, 0]] @ np.array([0.3, 0.25, 0.1]) / 0.65
    np.testing.assert_allclose(first.weights, np.sort(mean)[::-1], rtol=1e-5)
    assert [topic.joined for topic in list_topics(parameters, 1, 5)] == [[2], [4], [1], [3], [0]]
