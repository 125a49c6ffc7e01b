"""Activations and Pólya–Gamma means against scipy.stats and plain formulas."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import digamma, expit

from tests.grids import each_value
from xmlgp.models.bmlpl.activations import expected_activations, polya_gamma_means, prior_mean, softplus_sums

BOTH = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def random_arrays(N=40, T=3, dtype=np.float64, seed=0):
    """Return counts m with zeros, log odds ψ from −60 to 60 with zeros, and shapes r from 1e-6 to 10."""
    random = np.random.default_rng(seed)
    counts = random.gamma(0.5, 4.0, (N, T)) * (random.random((N, T)) < 0.5)
    log_odds = random.normal(size=(N, T)) * 10.0 ** random.uniform(-7, 1.3, (N, T))
    log_odds[0] = 0
    shapes = np.resize([1e-6, 0.3, 10.0], T)
    return counts.astype(dtype), log_odds.astype(dtype), shapes.astype(dtype)


def doubles(*arrays):
    return [array.astype(np.float64) for array in arrays]


@BOTH
def test_omega_and_residuals_agree_with_their_formulas(dtype):
    arrays = random_arrays(dtype=dtype)
    omega = np.empty_like(arrays[0])
    residuals = np.empty_like(arrays[0])
    polya_gamma_means(*arrays, omega, residuals)
    m, psi, r = doubles(*arrays)
    safe = np.where(psi == 0, 1, psi)
    expected = (m + r) * np.where(psi == 0, 0.25, np.tanh(safe / 2) / (2 * safe))
    assert omega.dtype == residuals.dtype == dtype
    # The series near 0 is accurate to single precision.
    np.testing.assert_allclose(omega, expected, rtol=1e-6)
    # The residuals are the gradient of m ψ − (m + r) log(1 + e^ψ).
    assert (np.abs(residuals - (m - (m + r) * expit(psi))) <= 1e-6 * (m + r)).all()


@BOTH
def test_activations_and_sums_agree_with_scipy(dtype):
    arrays = random_arrays(200, dtype=dtype)
    u = np.empty_like(arrays[0])
    result = expected_activations(*arrays, u)
    m, psi, r = doubles(*arrays)
    tolerance = 2e-6 if dtype == np.float32 else 1e-12
    # In single precision rounding errors of ψ up to 60 are in the exponent.
    np.testing.assert_allclose(u, stats.gamma.mean(r + m, scale=expit(psi)), rtol=20 * tolerance)
    np.testing.assert_allclose(result.softplus, np.logaddexp(0, psi).sum(axis=0), rtol=tolerance)
    np.testing.assert_allclose(softplus_sums(arrays[1]), np.logaddexp(0, psi).sum(axis=0), rtol=tolerance)
    clipped = np.clip(psi, -20, 20).astype(dtype)
    prior = expected_activations(arrays[0], clipped, arrays[2], u).log_prior
    clipped, u = doubles(clipped, u)
    expected = (stats.gamma.logpdf(u, r, scale=np.exp(clipped)) + np.log(u)).sum()
    assert prior == pytest.approx(expected, rel=tolerance)
    # For tiny shapes Ψ(r) ≈ −1/r limits the accuracy to single precision.
    expected = (digamma(m + r) - digamma(r)).sum(axis=0)
    np.testing.assert_allclose(result.digamma, expected, rtol=2e-6)


@each_value(count=[1e-9, 1e-3, 1.0, 7.3, 1e4, 1e8], shape=[1e-6, 1e-3, 0.5, 4.0, 1e3])
def test_digamma_differences_have_no_cancellation(count, shape):
    u = np.empty((1, 1))
    rise = expected_activations(np.array([[count]]), np.zeros((1, 1)), np.array([shape]), u).digamma[0]
    # Ψ(r + m) − Ψ(r) = Σ_i 1/(r + i) − 1/(r + m + i), with an asymptotic formula for the remainder of the sum.
    i = np.arange(200_000.0)
    end = shape + len(i)
    tail = np.log1p(count / end) + count / (2 * end * (end + count))
    expected = (count / ((shape + i) * (shape + count + i))).sum() + tail
    assert rise == pytest.approx(expected, rel=2e-6)


@BOTH
def test_prior_mean_is_finite_for_all_log_odds(dtype):
    _, log_odds, shapes = random_arrays(dtype=dtype)
    expected = stats.gamma.mean(shapes.astype(float), scale=np.exp(np.clip(log_odds.astype(float), -40, 40)))
    result = prior_mean(log_odds, shapes)
    assert result.dtype == dtype
    np.testing.assert_allclose(result, expected, rtol=1e-5 if dtype == np.float32 else 1e-12)
    extreme = prior_mean(np.array([[-1e30], [1e30]], dtype), np.ones(1, dtype))
    assert (np.square(extreme) > 0).all()
    assert np.isfinite(np.square(extreme)).all()
