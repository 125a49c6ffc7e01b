"""The bound of Jaakkola and Jordan against its formulas with sixty digits, and against the exact expectation."""

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import expit

from tests.gp.expectations.exact import derivative, expectation, log_one_plus_exp, many_digits
from tests.gp.reference import DETERMINISTIC
from xmlgp.gp.expectations import JaakkolaJordan, Quadrature

PRECISION = pytest.mark.parametrize(("dtype", "error"), [(np.float64, 1e-12), (np.float32, 2e-6)])


def formulas(m, v):
    xi = (m * m + v).sqrt()
    decay = (-xi).exp()
    slope = (1 - decay) / (1 + decay) / (4 * xi) if xi else Decimal(1) / 8
    return (m + xi) / 2 + (1 + decay).ln(), Decimal(1) / 2 + 2 * slope * m, slope


def arguments(dtype, seed=0, count=3000):
    """Return means and variances of all magnitudes, with zeros."""
    random = np.random.default_rng(seed)
    mean = random.normal(size=count) * 10 ** random.uniform(-8, 1.5, count)
    variance = random.exponential(size=count) * 10 ** random.uniform(-10, 3, count)
    mean[:50], variance[25:75] = 0, 0
    return mean.astype(dtype), variance.astype(dtype)


@PRECISION
def test_results_are_accurate_to_rounding(dtype, error):
    mean, variance = arguments(dtype)
    result = JaakkolaJordan().expected_softplus(mean, variance), *JaakkolaJordan().gradients(mean, variance)
    for values, expected in zip(result, many_digits(formulas, mean, variance), strict=True):
        assert values.dtype == dtype
        np.testing.assert_allclose(values, expected, rtol=error)


@PRECISION
def test_slope_is_accurate_where_the_series_replaces_the_quotient(dtype, error):
    # ξ on both sides of the limit of the series, for either precision.
    mean = np.linspace(0, 2, 4001).astype(dtype)
    zero = np.zeros_like(mean)
    _, _, expected = many_digits(formulas, mean, zero)
    np.testing.assert_allclose(JaakkolaJordan().gradients(mean, zero)[1], expected, rtol=error / 2)


@PRECISION
def test_result_is_exact_without_variance(dtype, error):
    mean = np.linspace(-30, 30, 300).astype(dtype)
    d_mean, d_variance = JaakkolaJordan().gradients(mean, 0)
    wide = mean.astype(np.float64)
    np.testing.assert_allclose(JaakkolaJordan().expected_softplus(mean, 0), log_one_plus_exp(wide), rtol=error)
    np.testing.assert_allclose(d_mean, expit(wide), rtol=error)
    np.testing.assert_allclose(d_variance, np.tanh(wide / 2) / (4 * wide), rtol=error)


@DETERMINISTIC
@given(st.floats(-40, 40), st.floats(0, 15))
def test_bound_is_above_adaptive_quadrature(mean, std):
    value = JaakkolaJordan().expected_softplus(np.array([mean]), np.array([std**2]))[0]
    exact = expectation(log_one_plus_exp, mean, std**2)
    assert value >= exact - 1e-12 * (1 + exact)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bound_is_never_below_quadrature(dtype):
    mean, variance = arguments(dtype, count=20_000)
    extremes = np.array([0, 1e-30, 1, 90, 1e4, 1e30], dtype)
    extreme_mean, extreme_variance = (a.ravel() for a in np.meshgrid([*extremes, *-extremes], extremes))
    mean = np.concatenate([mean, extreme_mean.astype(dtype)])
    variance = np.concatenate([variance, extreme_variance.astype(dtype)])
    bound, value = JaakkolaJordan().expected_softplus(mean, variance), Quadrature(40).expected_softplus(mean, variance)
    assert np.isfinite(bound).all()
    # Exponentials in quadrature have relative errors of 2e-9 and 1e-5 and are at least e^−80; sums are rounded.
    error = 1e-8 if dtype == np.float64 else 2e-5
    assert (bound >= value * (1 - error) - np.exp(-79)).all()


@pytest.mark.parametrize(("mean", "variance"), [(0.0, 1.0), (-3.0, 0.5), (2.0, 9.0), (-0.01, 1e-4)])
def test_xi_is_optimal(mean, variance):
    def bound(x):
        return mean / 2 + np.log(2 * np.cosh(x / 2)) + np.tanh(x / 2) / (4 * x) * (mean**2 + variance - x**2)

    best = minimize_scalar(bound, bounds=(1e-3, 20), method="bounded", options={"xatol": 1e-9})
    value = JaakkolaJordan().expected_softplus(np.array([mean]), np.array([variance]))[0]
    assert value == pytest.approx(best.fun, rel=1e-12)


@DETERMINISTIC
@given(st.floats(-20, 20), st.floats(0.05, 30))
def test_gradients_are_derivatives_of_the_value(mean, variance):
    def value(m, v):
        return JaakkolaJordan().expected_softplus(np.array([m]), np.array([v]))[0]

    d_mean, d_variance = JaakkolaJordan().gradients(np.array([mean]), np.array([variance]))
    assert d_mean[0] == pytest.approx(derivative(lambda m: value(m, variance), mean, 1e-3), rel=1e-8, abs=1e-11)
    step = 1e-3 * variance
    assert d_variance[0] == pytest.approx(derivative(lambda v: value(mean, v), variance, step), rel=1e-8, abs=1e-9)
