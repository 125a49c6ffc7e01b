"""Samples from conditional posteriors against exact distributions, enumeration and integrals."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats
from scipy.special import expit

from tests.bmlpl.reference import z_score
from tests.grids import each_value
from xmlgp.bmlpl.counts import Positives
from xmlgp.bmlpl.gibbs import (
    LARGE_LOG_ODDS,
    LEAST_ACTIVATION,
    LEAST_TOTAL,
    sample_activations,
    sample_counts,
    sample_omega,
    sample_shapes,
    sample_topics,
)
from xmlgp.bmlpl.parameters import LEAST_SHAPE

BOTH = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def chi_square(values, probabilities):
    """Return the p-value of a chi-square test of integers against probabilities; rare values are merged."""
    counted = np.bincount(values, minlength=len(probabilities))
    assert not counted[len(probabilities) :].any()
    expected, counted = probabilities * len(values), counted[: len(probabilities)]
    rare = expected < 10
    if rare.any():
        counted = np.append(counted[~rare], counted[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    # Values of negligible probability must not occur.
    assert not counted[expected < 1e-6].any()
    counted, expected = counted[expected >= 1e-6], expected[expected >= 1e-6]
    return stats.chisquare(counted, expected * counted.sum() / expected.sum()).pvalue if len(counted) > 1 else 1.0


@pytest.mark.parametrize("rate", [1e-35, 0.7, 29.9, 300.0])
def test_counts_are_zero_truncated_poisson(rate):
    N = 5000
    positives = Positives(sp.csr_array(np.ones((N, 1), bool)))
    by_point, by_label = sample_counts(positives, np.ones((1, 1)), np.full((N, 1), rate), np.random.default_rng(0))
    values = by_point[:, 0].astype(int)
    m = np.arange(1000)
    probabilities = stats.poisson.pmf(m, rate) / -np.expm1(-rate) if rate > 1e-30 else (m == 1) * 1.0
    probabilities[0] = 0
    assert chi_square(values, probabilities) > 1e-4
    assert by_label[0, 0] == values.sum()


def enumerated_counts(topics, activations, most=9):
    """Return P(m_1, m_2) of the two topics of a point that has both labels, by enumeration."""
    total = np.zeros((2 * most, 2 * most))
    for first, second in itertools.product(range(1, most), repeat=2):
        of_first, of_second = (stats.poisson.pmf(m, topics[k] @ activations) for k, m in ((0, first), (1, second)))
        shares = topics[:, 0] * activations[0] / (topics @ activations)
        for i, j in itertools.product(range(first + 1), range(second + 1)):
            split = stats.binom.pmf(i, first, shares[0]) * stats.binom.pmf(j, second, shares[1])
            total[i + j, first + second - i - j] += of_first * of_second * split
    return total / np.prod(-np.expm1(-topics @ activations))


def test_counts_of_topics_agree_with_enumeration():
    N, topics, activations = 5000, np.array([[0.7, 0.2], [0.3, 0.8]]), np.array([0.3, 0.8])
    expected = enumerated_counts(topics, activations)
    assert expected.sum() == pytest.approx(1, abs=1e-6)
    positives = Positives(sp.csr_array(np.ones((N, 2), bool)))
    result = sample_counts(positives, topics, np.tile(activations, (N, 1)), np.random.default_rng(1))[0].astype(int)
    assert chi_square(result[:, 0] * len(expected) + result[:, 1], expected.ravel()) > 1e-4


@pytest.mark.parametrize("concentration", [1e-3, 2.0])
def test_topics_are_dirichlet(concentration):
    counts, random = np.array([[0.0, 3.0], [2.0, 0.0], [0.0, 1.0]]), np.random.default_rng(3)
    samples = np.array([sample_topics(counts.copy(), concentration, random) for _ in range(6000)])
    np.testing.assert_allclose(samples.sum(axis=1), 1, rtol=1e-12)
    for t in range(2):
        dirichlet = stats.dirichlet(counts[:, t] + concentration)
        seen = samples[:, :, t].std(axis=0) > 0
        assert (z_score(samples[:, :, t], dirichlet.mean())[seen] < 4.5).all()
        squares = dirichlet.var() + dirichlet.mean() ** 2
        assert (z_score(samples[:, :, t] ** 2, squares)[seen] < 4.5).all()
        # A component of a Dirichlet variable is beta.
        beta = stats.beta(counts[1, t] + concentration, counts[[0, 2], t].sum() + 2 * concentration)
        if concentration > 0.1:
            assert stats.kstest(samples[:, 1, t], beta.cdf).pvalue > 1e-4


@BOTH
def test_topics_with_tiny_concentration_have_one_label_each(dtype):
    topics = sample_topics(np.zeros((4, 500), dtype), 1e-30, np.random.default_rng(4))
    assert topics.dtype == dtype
    assert ((topics > 0.999).sum(axis=0) == 1).all()
    assert stats.chisquare((topics > 0.5).sum(axis=1)).pvalue > 1e-4


def polya_gamma_moments(total, log_odds):
    """Return mean and variance of PG(h, z)."""
    z = np.abs(log_odds)
    if z < 1e-3:
        return total / 4, total / 24
    # (sinh z − z) / (1 + cosh z), without overflow.
    e = np.exp(-z)
    return total / (2 * z) * np.tanh(z / 2), total / (2 * z**3) * (1 - e * e - 2 * z * e) / (1 + e) ** 2


@each_value(
    total=[1e-6, LEAST_TOTAL, 1.0, 200.2], log_odds=[0.0, -3.0, LARGE_LOG_ODDS - 1.0, LARGE_LOG_ODDS + 1.0, 1e4]
)
def test_omega_has_the_moments_of_polya_gamma_variables(total, log_odds):
    count = 0 if total < 1 else int(total)
    shape = (1, 3000)
    random = np.random.default_rng(6)
    samples = sample_omega(
        np.full(shape, float(count)), np.full(shape, log_odds), np.full(shape[1], total - count), random
    )
    mean, variance = polya_gamma_moments(total, log_odds)
    assert (samples >= 0).all()
    assert abs(samples.mean() - mean) < 4.5 * np.sqrt(variance / shape[1])
    if total >= 0.1:
        assert z_score((samples[0] - mean) ** 2, variance) < 4.5


@each_value(log_odds=[-5.0, 0.0, 3.0], count=[0, 4], dtype=[np.float32, np.float64])
def test_activations_are_gamma(log_odds, count, dtype):
    shape = (1, 5000)
    samples = sample_activations(
        np.full(shape, count, dtype),
        np.full(shape, log_odds, dtype),
        np.full(5000, 0.6, dtype),
        np.random.default_rng(8),
    )
    assert samples.dtype == dtype
    assert stats.kstest(samples[0], stats.gamma(count + 0.6, scale=expit(log_odds)).cdf).pvalue > 1e-4


@BOTH
def test_activations_have_finite_logarithms(dtype):
    extreme = np.array([[-1e9], [0.0], [1e9]], dtype)
    samples = sample_activations(
        np.zeros((3, 1), dtype), extreme, np.full(1, LEAST_SHAPE, dtype), np.random.default_rng(9)
    )
    assert (samples >= dtype(LEAST_ACTIVATION)).all()
    assert np.isfinite(np.log(samples)).all()


def table_probabilities(customers, shape):
    """Return P(l) of l ~ CRT(m, r): customer j opens a new table with probability r/(r + j)."""
    probabilities = np.ones(1)
    for j in range(customers):
        new = shape / (shape + j)
        probabilities = np.append(probabilities * (1 - new), 0) + np.append(0, probabilities * new)
    return probabilities


@each_value(counts=[[0, 0], [3, 2], [0, 9]], shape=[0.05, 1.0, 6.0])
def test_shapes_are_a_mixture_of_gammas_over_table_counts(counts, shape):
    T, log_odds = 5000, np.array([0.4, -1.0])
    samples = sample_shapes(
        np.repeat(np.array(counts, float)[:, None], T, axis=1),
        np.repeat(log_odds[:, None], T, axis=1),
        np.full(T, shape),
        np.random.default_rng(10),
    )
    tables = np.ones(1)
    for customers in counts:
        tables = np.convolve(tables, table_probabilities(customers, shape))
    scale = 1 / (1 + np.logaddexp(0, log_odds).sum())

    def distribution(r):
        return sum(p * stats.gamma.cdf(r, 1 + count, scale=scale) for count, p in enumerate(tables))

    assert stats.kstest(samples, distribution).pvalue > 1e-4
