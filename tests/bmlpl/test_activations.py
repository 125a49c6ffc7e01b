"""Activations, element by element, against scipy.stats, the package polyagamma and written-out formulas."""

import numpy as np
import pytest
from polyagamma import random_polyagamma
from scipy import stats
from scipy.special import digamma, expit

from tests.bmlpl.reference import z_score
from xmlgp.bmlpl import activations as module
from xmlgp.bmlpl.activations import expected_activations, log_prior, polya_gamma_row, prior_mean, softplus_sums
from xmlgp.runtime import threads

BOTH = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def problem(N=40, T=3, dtype=np.float64, seed=0):
    """Counts m, some of them zero, log odds ψ from −60 to 60, one of them 0, and shapes r from 1e-6 to 10."""
    random = np.random.default_rng(seed)
    counts = random.gamma(0.5, 4.0, (N, T)) * (random.random((N, T)) < 0.5)
    log_odds = random.normal(size=(N, T)) * 10.0 ** random.uniform(-7, 1.3, (N, T))
    log_odds[0] = 0
    shapes = np.resize([1e-6, 0.3, 10.0], T)
    return counts.astype(dtype), log_odds.astype(dtype), shapes.astype(dtype)


def doubles(*arrays):
    return [array.astype(np.float64) for array in arrays]


def weights_and_residuals(counts, log_odds, shapes):
    omega, residuals = np.empty_like(counts), np.empty_like(counts)
    for n in range(len(counts)):
        polya_gamma_row(counts[n], log_odds[n], shapes, omega[n], residuals[n])
    return omega, residuals


@BOTH
def test_weights_and_residuals_are_written_out(dtype):
    problem_ = problem(dtype=dtype)
    omega, residuals = weights_and_residuals(*problem_)
    m, psi, r = doubles(*problem_)
    safe = np.where(psi == 0, 1, psi)
    expected = (m + r) * np.where(psi == 0, 0.25, np.tanh(safe / 2) / (2 * safe))
    assert omega.dtype == residuals.dtype == dtype
    # The series near 0 has as many digits as single precision.
    np.testing.assert_allclose(omega, expected, rtol=1e-6)
    # Residuals are the gradient of m ψ − (m + r) log(1 + e^ψ).
    assert (np.abs(residuals - (m - (m + r) * expit(psi))) <= 1e-6 * (m + r)).all()


@pytest.mark.parametrize("log_odds", [0.0, 1e-3, 0.8, -2.5, 9.0])
@pytest.mark.parametrize("size", [0.3, 1.0, 4.7])
def test_weights_are_means_of_polya_gamma_variables(log_odds, size):
    draws = random_polyagamma(size, log_odds, size=40_000, random_state=np.random.default_rng(5))
    shapes = np.array([size / 3])
    omega, _ = weights_and_residuals(np.array([[size - shapes[0]]]), np.array([[log_odds]]), shapes)
    assert z_score(draws, omega[0, 0]) < 4.5


def test_the_quadratic_bound_touches_and_stays_below():
    counts, log_odds, shapes = problem(60)
    omega, residuals = weights_and_residuals(counts, log_odds, shapes)
    kappa = (counts - shapes) / 2

    def likelihood(psi):
        return counts * psi - (counts + shapes) * np.logaddexp(0, psi)

    def bound(psi):
        quadratic = kappa * psi - omega * psi**2 / 2
        return quadratic + likelihood(log_odds) - (kappa * log_odds - omega * log_odds**2 / 2)

    size = np.maximum(counts + shapes, 1) * (1 + np.abs(log_odds))
    for psi in (*np.linspace(-50, 50, 41), log_odds + 1e-3, -log_odds, 3 * log_odds):
        assert (bound(psi) <= likelihood(psi) + 1e-9 * size * (1 + np.abs(psi))).all()
    # It touches with the same slope.
    step = 1e-5
    slope = (likelihood(log_odds + step) - likelihood(log_odds - step)) / (2 * step)
    np.testing.assert_allclose(residuals, slope, atol=1e-5)
    np.testing.assert_allclose(kappa - omega * log_odds, slope, atol=1e-5)


@BOTH
def test_activations_and_what_is_summed_up(dtype):
    problem_ = problem(200, dtype=dtype)
    u = np.empty_like(problem_[0])
    found = expected_activations(*problem_, u)
    m, psi, r = doubles(*problem_)
    tolerance = 2e-6 if dtype == np.float32 else 1e-12
    # Single precision rounds ψ of 60 in the exponent.
    np.testing.assert_allclose(u, stats.gamma.mean(r + m, scale=expit(psi)), rtol=20 * tolerance)
    np.testing.assert_allclose(found.softplus, np.logaddexp(0, psi).sum(axis=0), rtol=tolerance)
    np.testing.assert_allclose(softplus_sums(problem_[1]), np.logaddexp(0, psi).sum(axis=0), rtol=tolerance)
    clipped = np.clip(psi, -20, 20).astype(dtype)
    prior = expected_activations(problem_[0], clipped, problem_[2], u).log_prior
    clipped, u = doubles(clipped, u)
    expected = (stats.gamma.logpdf(u, r, scale=np.exp(clipped)) + np.log(u)).sum()
    assert prior == pytest.approx(expected, rel=tolerance)
    # Where shapes are tiny, single precision has Ψ(r) ≈ −1/r to its 7 digits.
    expected = (digamma(m + r) - digamma(r)).sum(axis=0)
    np.testing.assert_allclose(found.digamma, expected, rtol=2e-6)


def test_activations_are_modes_of_the_density_of_their_logarithm():
    counts, log_odds, shapes = problem(60)
    log_odds = np.clip(log_odds, -20, 20)
    u = np.empty_like(counts)
    expected_activations(counts, log_odds, shapes, u)

    def density(log_u):
        u = np.exp(log_u)
        return stats.gamma.logpdf(u, shapes + counts, scale=expit(log_odds)) + log_u

    best = density(np.log(u))
    for step in (1e-2, 1.0):
        assert (density(np.log(u) + step) < best).all()
        assert (density(np.log(u) - step) < best).all()


@pytest.mark.parametrize("count", [1e-9, 1e-3, 1.0, 7.3, 1e4, 1e8])
@pytest.mark.parametrize("shape", [1e-6, 1e-3, 0.5, 4.0, 1e3])
def test_rises_of_the_digamma_function_keep_their_digits(count, shape):
    u = np.empty((1, 1))
    rise = expected_activations(np.array([[count]]), np.zeros((1, 1)), np.array([shape]), u).digamma[0]
    # Ψ(r + m) − Ψ(r) = Σ_i 1/(r + i) − 1/(r + m + i); what of it is left beyond 10⁶ terms is m / 10⁶ or the logarithm.
    i = np.arange(200_000.0)
    end = shape + len(i)
    tail = np.log1p(count / end) + count / (2 * end * (end + count))
    expected = (count / ((shape + i) * (shape + count + i))).sum() + tail
    assert rise == pytest.approx(expected, rel=2e-6)


def test_the_prior_is_that_of_gamma_variables_by_their_logarithm():
    _, log_odds, shapes = problem(50)
    log_odds = np.clip(log_odds, -20, 20)
    u = np.random.default_rng(1).gamma(1.0, size=log_odds.shape) * np.exp(log_odds)
    expected = (stats.gamma.logpdf(u, shapes, scale=np.exp(log_odds)) + np.log(u)).sum()
    assert log_prior(u, log_odds, shapes) == pytest.approx(expected, rel=1e-12)
    single = log_prior(*(array.astype(np.float32) for array in (u, log_odds, shapes)))
    assert single == pytest.approx(expected, rel=1e-5)


@BOTH
def test_the_prior_is_a_number_for_activations_that_underflow(dtype):
    found = log_prior(np.zeros((2, 1), dtype), np.array([[-1000.0], [3.0]], dtype), np.ones(1, dtype))
    assert np.isfinite(found)


@BOTH
def test_the_mean_of_the_prior_is_a_number_for_all_log_odds(dtype):
    _, log_odds, shapes = problem(dtype=dtype)
    expected = stats.gamma.mean(shapes.astype(float), scale=np.exp(np.clip(log_odds.astype(float), -40, 40)))
    found = prior_mean(log_odds, shapes)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=1e-5 if dtype == np.float32 else 1e-12)
    extreme = prior_mean(np.array([[-1e30], [1e30]], dtype), np.ones(1, dtype))
    assert (np.square(extreme) > 0).all()
    assert np.isfinite(np.square(extreme)).all()


def test_parts_of_threads_change_nothing(monkeypatch):
    counts, log_odds, shapes = problem(300)
    kept = np.empty_like(counts), np.empty_like(counts)
    whole = expected_activations(counts, log_odds, shapes, kept[0])
    monkeypatch.setattr(module, "GRAIN", 1)
    monkeypatch.setattr(threads, "core_count", lambda: 4)
    parts = expected_activations(counts, log_odds, shapes, kept[1])
    np.testing.assert_array_equal(kept[0], kept[1])
    for one, other in zip(parts, whole, strict=True):
        np.testing.assert_array_equal(one, other)
