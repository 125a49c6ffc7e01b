"""Draws from conditional posteriors against exact distributions, enumeration and integrals."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from polyagamma import random_polyagamma
from scipy import stats
from scipy.special import expit, roots_genlaguerre

from tests.bmlpl.reference import random_problem, z_score
from xmlgp.bmlpl.conditionals import (
    LARGE_LOG_ODDS,
    LEAST_ACTIVATION,
    LEAST_TOTAL,
    sample_activations,
    sample_counts,
    sample_omega,
    sample_shapes,
    sample_topics,
)
from xmlgp.bmlpl.counts import expected_counts
from xmlgp.bmlpl.hyperparameters import LEAST_SHAPE
from xmlgp.bmlpl.positives import Positives
from xmlgp.runtime import threads

BOTH = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def chi_square(values, probabilities):
    """p-value of integers that should be i with these probabilities; rare ones are put together."""
    counted = np.bincount(values, minlength=len(probabilities))
    assert not counted[len(probabilities) :].any()
    expected, counted = probabilities * len(values), counted[: len(probabilities)]
    rare = expected < 10
    if rare.any():
        counted = np.append(counted[~rare], counted[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    # What is all but impossible has not happened.
    assert not counted[expected < 1e-6].any()
    counted, expected = counted[expected >= 1e-6], expected[expected >= 1e-6]
    return stats.chisquare(counted, expected * counted.sum() / expected.sum()).pvalue if len(counted) > 1 else 1.0


@pytest.mark.parametrize("rate", [1e-35, 1e-9, 0.02, 0.7, 4.0, 29.9, 30.1, 300.0])
def test_counts_are_poisson_and_not_zero(rate):
    N = 20_000
    positives = Positives(sp.csr_array(np.ones((N, 1), bool)))
    counts = sample_counts(positives, np.ones((1, 1)), np.full((N, 1), rate), np.random.default_rng(0))
    values = counts.by_point[:, 0].astype(int)
    m = np.arange(1000)
    probabilities = stats.poisson.pmf(m, rate) / -np.expm1(-rate) if rate > 1e-30 else (m == 1) * 1.0
    probabilities[0] = 0
    assert chi_square(values, probabilities) > 1e-4
    assert counts.by_label[0, 0] == values.sum()


def both_counts(topics, activations, most=14):
    """P(m_1, m_2), most×most, of two topics of a point with both of two labels, by enumeration."""
    total = np.zeros((2 * most, 2 * most))
    for first, second in itertools.product(range(1, most), repeat=2):
        of_first, of_second = (stats.poisson.pmf(m, topics[k] @ activations) for k, m in ((0, first), (1, second)))
        shares = topics[:, 0] * activations[0] / (topics @ activations)
        for i, j in itertools.product(range(first + 1), range(second + 1)):
            split = stats.binom.pmf(i, first, shares[0]) * stats.binom.pmf(j, second, shares[1])
            total[i + j, first + second - i - j] += of_first * of_second * split
    return total / np.prod(-np.expm1(-topics @ activations))


def test_counts_of_topics_are_as_enumerated():
    N, topics, activations = 20_000, np.array([[0.7, 0.2], [0.3, 0.8]]), np.array([0.4, 1.3])
    expected = both_counts(topics, activations)
    assert expected.sum() == pytest.approx(1, abs=1e-6)
    positives = Positives(sp.csr_array(np.ones((N, 2), bool)))
    found = sample_counts(positives, topics, np.tile(activations, (N, 1)), np.random.default_rng(1)).by_point.astype(
        int
    )
    assert chi_square(found[:, 0] * len(expected) + found[:, 1], expected.ravel()) > 1e-4


@BOTH
def test_means_of_counts_are_the_expected_ones(dtype):
    problem, random = random_problem(7, 5, 3, dtype=dtype), np.random.default_rng(2)
    expected = expected_counts(problem.positives, problem.topics, problem.activations)
    drawn = [sample_counts(problem.positives, problem.topics, problem.activations, random) for _ in range(3000)]
    for name in ("by_point", "by_label"):
        draws = np.array([getattr(one, name) for one in drawn])
        assert draws.dtype == dtype
        never = getattr(expected, name) < 1e-3
        assert (z_score(draws, getattr(expected, name))[~never] < 4.5).all()
        assert (draws.mean(axis=0)[never] < 1e-2).all()
    assert drawn[0].log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-5)
    for one in drawn[:20]:
        np.testing.assert_allclose(one.by_point.sum(axis=0), one.by_label.sum(axis=0), rtol=1e-6)
        assert (one.by_point.sum(axis=1) >= problem.labels.sum(axis=1)).all()


def test_without_positives_no_counts_are_drawn():
    counts = sample_counts(
        Positives(sp.csr_array((3, 2), dtype=bool)), np.ones((2, 1)) / 2, np.ones((3, 1)), np.random.default_rng(0)
    )
    assert not counts.by_point.any()
    assert not counts.by_label.any()
    assert counts.log_likelihood == -3


@pytest.mark.parametrize("concentration", [1e-3, 0.3, 2.0])
def test_topics_are_from_dirichlet(concentration):
    counts, random = np.array([[0.0, 3.0], [2.0, 0.0], [0.0, 1.0]]), np.random.default_rng(3)
    draws = np.array([sample_topics(counts.copy(), concentration, random) for _ in range(6000)])
    np.testing.assert_allclose(draws.sum(axis=1), 1, rtol=1e-12)
    for t in range(2):
        law = stats.dirichlet(counts[:, t] + concentration)
        seen = draws[:, :, t].std(axis=0) > 0
        assert (z_score(draws[:, :, t], law.mean())[seen] < 4.5).all()
        squares = law.var() + law.mean() ** 2
        assert (z_score(draws[:, :, t] ** 2, squares)[seen] < 4.5).all()
        # A column of Dirichlet's is beta.
        one = stats.beta(
            counts[1, t] + concentration, counts[:, t].sum() + 3 * concentration - counts[1, t] - concentration
        )
        if concentration > 0.1:
            assert stats.kstest(draws[:, 1, t], one.cdf).pvalue > 1e-4


@BOTH
def test_topics_of_next_to_no_concentration_are_one_label_each(dtype):
    topics = sample_topics(np.zeros((4, 500), dtype), 1e-30, np.random.default_rng(4))
    assert topics.dtype == dtype
    assert ((topics > 0.999).sum(axis=0) == 1).all()
    assert stats.chisquare((topics > 0.5).sum(axis=1)).pvalue > 1e-4


def polya_gamma_moments(total, log_odds):
    """Mean and variance of PG(h, z)."""
    z = np.abs(log_odds)
    if z < 1e-3:
        return total / 4, total / 24
    # (sinh z − z) / (1 + cosh z), without overflow.
    e = np.exp(-z)
    return total / (2 * z) * np.tanh(z / 2), total / (2 * z**3) * (1 - e * e - 2 * z * e) / (1 + e) ** 2


@pytest.mark.parametrize("total", [1e-6, 1e-4, LEAST_TOTAL, 0.1, 1.0, 13.5, 200.2])
@pytest.mark.parametrize("log_odds", [0.0, 0.5, -3.0, LARGE_LOG_ODDS - 1.0, LARGE_LOG_ODDS + 1.0, -60.0, 1e4])
def test_omega_has_the_moments_of_polya_gamma_variables(total, log_odds):
    count = 0 if total < 1 else int(total)
    shape = (1, 30_000)
    random = np.random.default_rng(6)
    drawn = sample_omega(
        np.full(shape, float(count)), np.full(shape, log_odds), np.full(shape[1], total - count), random
    )
    mean, variance = polya_gamma_moments(total, log_odds)
    assert (drawn >= 0).all()
    assert abs(drawn.mean() - mean) < 4.5 * np.sqrt(variance / shape[1])
    if total >= 0.1:
        assert z_score((drawn[0] - mean) ** 2, variance) < 4.5


@BOTH
def test_omega_is_of_the_law_of_the_package(dtype):
    counts, log_odds, shapes = np.full((1, 4000), 2, dtype), np.full((1, 4000), 1.5, dtype), np.full(4000, 0.7, dtype)
    random = np.random.default_rng(7)
    drawn = sample_omega(counts, log_odds, shapes, random)
    assert drawn.dtype == dtype
    assert stats.ks_2samp(drawn[0], random_polyagamma(2.7, 1.5, size=4000, random_state=random)).pvalue > 1e-4
    # Where the law changes to the inverse Gaussian, it is still that of the package.
    near = sample_omega(counts, np.full_like(log_odds, LARGE_LOG_ODDS + 0.001), shapes, random)
    package = random_polyagamma(2.7, LARGE_LOG_ODDS, size=4000, random_state=random)
    assert stats.ks_2samp(near[0], package).pvalue > 1e-4


@BOTH
@pytest.mark.parametrize("log_odds", [-5.0, 0.0, 3.0])
@pytest.mark.parametrize("count", [0, 4])
def test_activations_are_gamma(log_odds, count, dtype):
    shape = (1, 5000)
    drawn = sample_activations(
        np.full(shape, count, dtype),
        np.full(shape, log_odds, dtype),
        np.full(5000, 0.6, dtype),
        np.random.default_rng(8),
    )
    assert drawn.dtype == dtype
    assert stats.kstest(drawn[0], stats.gamma(count + 0.6, scale=expit(log_odds)).cdf).pvalue > 1e-4


@BOTH
def test_activations_have_logarithms(dtype):
    extreme = np.array([[-1e9], [0.0], [1e9]], dtype)
    drawn = sample_activations(
        np.zeros((3, 1), dtype), extreme, np.full(1, LEAST_SHAPE, dtype), np.random.default_rng(9)
    )
    assert (drawn >= dtype(LEAST_ACTIVATION)).all()
    assert np.isfinite(np.log(drawn)).all()


def table_probabilities(customers, shape):
    """P(l) of l ~ CRT(m, r): customer j sits down at a table of its own with probability r/(r + j)."""
    law = np.ones(1)
    for j in range(customers):
        own = shape / (shape + j)
        law = np.append(law * (1 - own), 0) + np.append(0, law * own)
    return law


@pytest.mark.parametrize("shape", [0.05, 1.0, 6.0])
@pytest.mark.parametrize("counts", [[0, 0], [1, 0], [3, 2], [0, 9]])
def test_shapes_are_the_mixture_of_gamma_variables_over_tables(counts, shape):
    T, log_odds = 5000, np.array([0.4, -1.0])
    drawn = sample_shapes(
        np.repeat(np.array(counts, float)[:, None], T, axis=1),
        np.repeat(log_odds[:, None], T, axis=1),
        np.full(T, shape),
        np.random.default_rng(10),
    )
    law = np.ones(1)
    for customers in counts:
        law = np.convolve(law, table_probabilities(customers, shape))
    scale = 1 / (1 + np.logaddexp(0, log_odds).sum())

    def distribution(r):
        return sum(p * stats.gamma.cdf(r, 1 + tables, scale=scale) for tables, p in enumerate(law))

    assert stats.kstest(drawn, distribution).pvalue > 1e-4


def test_draws_of_shapes_leave_their_posterior_as_it_is():
    random, log_odds, T = np.random.default_rng(11), np.array([0.3, -0.7, 1.1]), 4000
    shapes = random.standard_gamma(1.0, T)
    counts = random.negative_binomial(shapes, expit(-log_odds)[:, None]).astype(float)
    # Prior, then data: so it was a draw from the posterior, and is one still.
    for _ in range(3):
        shapes = sample_shapes(counts, np.repeat(log_odds[:, None], T, axis=1), shapes, random)
    assert stats.kstest(shapes, stats.gamma(1).cdf).pvalue > 1e-4


@BOTH
def test_shapes_without_counts_are_not_below_the_least(dtype):
    shapes = sample_shapes(
        np.zeros((2, 3), dtype), np.full((2, 3), 1e9, dtype), np.ones(3, dtype), np.random.default_rng(0)
    )
    assert shapes.dtype == dtype
    np.testing.assert_array_equal(shapes, np.full(3, LEAST_SHAPE, dtype))


def exact_means(labels, topics, log_odds, shapes):
    """E u_t and E m_t of a point given its labels, by quadrature over the prior of its activations."""
    nodes = [roots_genlaguerre(80, r - 1) for r in shapes]
    u = np.stack(
        np.meshgrid(*(x * np.exp(psi) for (x, _), psi in zip(nodes, log_odds, strict=True)), indexing="ij"), -1
    )
    u = u.reshape(-1, 2)
    weights = np.outer(*(w for _, w in nodes)).ravel()
    rates = u @ topics.T
    weights = weights * np.where(labels, -np.expm1(-rates), np.exp(-rates)).prod(axis=1)
    weights /= weights.sum()
    factors = np.where(labels, 1 / -np.expm1(-np.maximum(rates, 1e-300)), 0)
    return weights @ u, weights @ (u * (factors @ topics))


def test_counts_and_activations_in_turn_have_the_posterior_means_by_integration():
    """Four kinds of points, each many times: chains of their own, of which the last draws are compared."""
    chains, sweeps = 4000, 60
    topics, shapes = np.array([[0.8, 0.3], [0.2, 0.7]]), np.array([0.7, 1.6])
    kinds = np.array([[True, False], [True, True], [False, False], [False, True]])
    log_odds = np.array([[0.5, -1.0], [1.0, 0.2], [-0.3, 0.9], [0.1, -2.0]])
    random = np.random.default_rng(12)
    positives = Positives(sp.csr_array(np.tile(kinds, (chains, 1))))
    psi = np.tile(log_odds, (chains, 1))
    u = random.gamma(shapes, np.exp(psi))
    for _ in range(sweeps):
        counts = sample_counts(positives, topics, u, random).by_point
        u = sample_activations(counts, psi, shapes, random)
    for kind in range(4):
        activations, numbers = exact_means(kinds[kind], topics, log_odds[kind], shapes)
        assert (z_score(u[kind::4], activations) < 4.5).all()
        if kinds[kind].any():
            assert (z_score(counts[kind::4], numbers) < 4.5).all()


def test_threads_change_nothing(monkeypatch):
    problem = random_problem(900, 5, 3)
    one, other = (
        sample_counts(problem.positives, problem.topics, problem.activations, np.random.default_rng(0))
        for cores in (1, 4)
        if not monkeypatch.setattr(threads, "core_count", lambda cores=cores: cores)
    )
    np.testing.assert_array_equal(one.by_point, other.by_point)
    np.testing.assert_array_equal(one.by_label, other.by_label)
