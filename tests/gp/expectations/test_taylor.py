"""The second-order Taylor expansion against its formulas with sixty digits, and against the exact expectation."""

import numpy as np
import pytest

from tests.gp.expectations.exact import expectation, log_one_plus_exp, many_digits
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


@pytest.mark.parametrize("mean", [-4.0, -1.0, 0.0, 0.7, 3.0])
def test_error_is_of_second_order_in_the_variance(mean):
    errors = [
        Taylor().expected_softplus(np.array([mean]), np.array([variance]))[0]
        - expectation(log_one_plus_exp, mean, variance)
        for variance in (0.02, 0.01)
    ]
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.05)
