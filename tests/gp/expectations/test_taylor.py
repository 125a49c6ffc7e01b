"""The second-order Taylor expansion against its formulas with sixty digits, and against the exact expectation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from tests.gp.expectations.exact import derivative, expectation, log_one_plus_exp, many_digits
from tests.gp.reference import DETERMINISTIC
from xmlgp.gp.expectations import Taylor

PRECISION = pytest.mark.parametrize(("dtype", "error"), [(np.float64, 1e-12), (np.float32, 2e-6)])


def formulas(m, v):
    sigmoid = 1 / (1 + (-m).exp())
    curvature = sigmoid / (1 + m.exp())
    value = (1 + m.exp()).ln() + v * curvature / 2
    return value, sigmoid + v * curvature * (1 - 2 * sigmoid) / 2, curvature / 2


@PRECISION
def test_results_are_accurate_to_rounding(dtype, error):
    random = np.random.default_rng(0)
    mean = (random.normal(size=3000) * 10 ** random.uniform(-8, 1.2, 3000)).clip(-75, 75).astype(dtype)
    variance = (random.exponential(size=3000) * 10 ** random.uniform(-10, 1, 3000)).astype(dtype)
    mean[:50], variance[25:75] = 0, 0
    expected = many_digits(formulas, mean, variance)
    result = Taylor().expected_softplus(mean, variance), *Taylor().gradients(mean, variance)
    # The derivative with respect to the mean is a difference of numbers up to one and the variance.
    rounding = [0, error * (1 + variance), 0]
    for values, correct, least in zip(result, expected, rounding, strict=True):
        assert values.dtype == dtype
        assert (np.abs(values - correct) <= np.maximum(error * np.abs(correct), least)).all()


@PRECISION
def test_small_probabilities_are_accurate(dtype, error):
    mean, variance = np.linspace(-75, -1, 500).astype(dtype), np.linspace(0, 1, 500).astype(dtype)
    _, expected, _ = many_digits(formulas, mean, variance)
    np.testing.assert_allclose(Taylor().gradients(mean, variance)[0], expected, rtol=error)


@PRECISION
def test_result_is_exact_without_variance(dtype, error):
    mean = np.linspace(-30, 30, 301).astype(dtype)
    d_mean, d_variance = Taylor().gradients(mean, 0)
    wide = mean.astype(np.float64)
    np.testing.assert_allclose(Taylor().expected_softplus(mean, 0), log_one_plus_exp(wide), rtol=error)
    np.testing.assert_allclose(d_mean, expit(wide), rtol=error)
    np.testing.assert_allclose(2 * d_variance, expit(wide) * expit(-wide), rtol=error)


@pytest.mark.parametrize("mean", [-4.0, -1.0, 0.0, 0.7, 3.0])
def test_error_is_of_second_order_in_the_variance(mean):
    errors = [
        Taylor().expected_softplus(np.array([mean]), np.array([variance]))[0]
        - expectation(log_one_plus_exp, mean, variance)
        for variance in (0.02, 0.01)
    ]
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.05)


@DETERMINISTIC
@given(st.floats(-20, 20), st.floats(0.05, 5))
def test_gradients_are_derivatives_of_the_value(mean, variance):
    def value(m, v):
        return Taylor().expected_softplus(np.array([m]), np.array([v]))[0]

    d_mean, d_variance = Taylor().gradients(np.array([mean]), np.array([variance]))
    assert d_mean[0] == pytest.approx(derivative(lambda m: value(m, variance), mean, 1e-3), rel=1e-8, abs=1e-11)
    assert d_variance[0] == pytest.approx(derivative(lambda v: value(mean, v), variance, 1e-3), rel=1e-8, abs=1e-9)
