"""The bound of Jaakkola and Jordan against its formulas with sixty digits, and against the exact expectation."""

from decimal import Decimal

import numpy as np
import pytest

from tests.gp.expectations.exact import many_digits
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
