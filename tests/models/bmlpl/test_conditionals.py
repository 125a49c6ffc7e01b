"""Samples from conditional posteriors, also of extreme parameters, against exact distributions and their moments."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

from tests.grids import each_value, grid
from tests.models.bmlpl.reference import z_score
from xmlgp.models.bmlpl.counts import Positives
from xmlgp.models.bmlpl.gibbs import (
    LARGE_LOG_ODDS,
    LEAST_ACTIVATION,
    sample_activations,
    sample_counts,
    sample_omega,
    sample_topics,
)
from xmlgp.models.bmlpl.parameters import LEAST_SHAPE

BOTH = pytest.mark.parametrize("dtype", [np.float32, np.float64])


@pytest.mark.parametrize("concentration", [1e-3, 2.0])
def test_topics_are_dirichlet(concentration):
    counts = np.array([[0.0, 3.0], [2.0, 0.0], [0.0, 1.0]])
    random = np.random.default_rng(3)
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


def omega(total, log_odds, size):
    """Return samples of PG(h, z), with h divided into counts and a shape."""
    count = 0 if total < 1 else int(total)
    shape = np.full(1, total - count)
    return sample_omega(np.full((size, 1), float(count)), np.full((size, 1), log_odds), shape, np.random.default_rng(6))


@grid(total=[0.01, 0.5, 1.5, 2.5, 3.5, 7.7, 30.3], log_odds=[0.0, -0.4, 2.0, LARGE_LOG_ODDS - 1, -25.0])
def test_omega_has_the_distribution_of_polya_gamma_variables(total, log_odds):
    samples = omega(total, log_odds, 200_000)
    mean, variance = polya_gamma_moments(total, log_odds)
    assert z_score(samples, mean) < 5
    assert z_score((samples - mean) ** 2, variance) < 5
    # The Laplace transform, (cosh(z/2) / cosh √(z²/4 + s/2))^h.
    for s in 1, 1 / mean:
        logarithms = [w + np.log1p(np.exp(-2 * w)) for w in (abs(log_odds) / 2, np.sqrt(log_odds**2 / 4 + s / 2))]
        assert z_score(np.exp(-s * samples), np.exp(total * (logarithms[0] - logarithms[1]))) < 5


@each_value(total=[1e-6, 1e-3, 1.0, 1000.2], log_odds=[0.0, 1e-5, -LARGE_LOG_ODDS, 1e4, 1e38])
def test_omega_of_extreme_parameters_has_its_mean(total, log_odds):
    samples = omega(total, log_odds, 3000)
    mean, variance = polya_gamma_moments(total, log_odds)
    assert (samples >= 0).all()
    # Samples of a tiny h are nearly all tiny, so their own deviation says nothing.
    assert abs(samples.mean() - mean) < 4.5 * np.sqrt(variance / 3000) + 1e-12 * mean


@BOTH
def test_activations_have_finite_logarithms(dtype):
    extreme = np.array([[-1e9], [0.0], [1e9]], dtype)
    samples = sample_activations(
        np.zeros((3, 1), dtype), extreme, np.full(1, LEAST_SHAPE, dtype), np.random.default_rng(9)
    )
    assert (samples >= dtype(LEAST_ACTIVATION)).all()
    assert np.isfinite(np.log(samples)).all()


@pytest.mark.parametrize("rate", [1e-35, 0.7, 29.9, 300.0])
def test_counts_are_zero_truncated_poisson(rate):
    N = 5000
    positives = Positives(sp.csr_array(np.ones((N, 1), bool)))
    by_point, by_label = sample_counts(positives, np.ones((1, 1)), np.full((N, 1), rate), np.random.default_rng(0))
    assert by_point.min() >= 1
    assert by_label[0, 0] == by_point.sum()
    if rate < 1e-30:
        assert by_point.max() == 1
    else:
        mean = rate / -np.expm1(-rate)
        assert z_score(by_point[:, 0], mean) < 4.5
        assert z_score(by_point[:, 0] ** 2, mean * (1 + rate)) < 4.5
