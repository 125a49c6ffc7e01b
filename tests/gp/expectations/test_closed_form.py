"""Expectations in closed form against their formulas with sixty digits, and against exact expectations."""

from decimal import Decimal

import numpy as np
import pytest

from tests.gp.expectations.exact import expectation, log_one_plus_exp, many_digits
from xmlgp.gp.expectations import JaakkolaJordan, Quadrature, Taylor, approximate_log_odds

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


def taylor_formulas(m, v):
    sigmoid = 1 / (1 + (-m).exp())
    curvature = sigmoid / (1 + m.exp())
    value = (1 + m.exp()).ln() + v * curvature / 2
    return value, sigmoid + v * curvature * (1 - 2 * sigmoid) / 2, curvature / 2


@PRECISION
def test_results_of_taylor_are_accurate_to_rounding(dtype, error):
    random = np.random.default_rng(0)
    mean = (random.normal(size=3000) * 10 ** random.uniform(-8, 1.2, 3000)).clip(-75, 75).astype(dtype)
    variance = (random.exponential(size=3000) * 10 ** random.uniform(-10, 1, 3000)).astype(dtype)
    mean[:50], variance[25:75] = 0, 0
    expected = many_digits(taylor_formulas, mean, variance)
    result = Taylor().expected_softplus(mean, variance), *Taylor().gradients(mean, variance)
    # The derivative with respect to the mean is a difference of numbers up to one and the variance.
    rounding = [0, error * (1 + variance), 0]
    for values, correct, least in zip(result, expected, rounding, strict=True):
        assert values.dtype == dtype
        assert (np.abs(values - correct) <= np.maximum(error * np.abs(correct), least)).all()


@pytest.mark.parametrize("mean", [-4.0, -1.0, 0.0, 0.7, 3.0])
def test_error_is_of_second_order_in_the_variance(mean):
    errors = [
        Taylor().expected_softplus(np.array([mean]), np.array([variance]))[0]
        - expectation(log_one_plus_exp, mean, variance)
        for variance in (0.02, 0.01)
    ]
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.05)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_approximate_log_odds_have_the_formula_of_mackay(dtype):
    mean = np.linspace(-9, 9, 4001).astype(dtype).reshape(-1, 1)
    variance = np.array([-1e-6, 0, 0.5, 40], dtype)
    mean, variance = np.broadcast_arrays(mean, variance)
    result = approximate_log_odds(mean, variance)
    assert result.dtype == dtype
    np.testing.assert_allclose(result, mean / np.sqrt(1 + np.pi / 8 * np.maximum(variance, 0)), rtol=1e-6)
