"""Gauss–Hermite quadrature against adaptive quadrature, and on extreme numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from tests.gp.expectations.exact import derivative, expectation, log_one_plus_exp
from tests.gp.reference import DETERMINISTIC
from tests.grids import each_value
from xmlgp.gp.expectations import Quadrature, expected_sigmoid
from xmlgp.gp.expectations.quadrature import _fill_gradients

#: Largest standard deviation, nodes and error: the integrands are analytic only near the real axis.
REGIMES = [(1.0, 10, 2e-6), (2.0, 40, 1e-7)]


@pytest.mark.parametrize(("deviation", "nodes", "error"), REGIMES)
def test_values_agree_with_adaptive_quadrature(deviation, nodes, error):
    @DETERMINISTIC
    @given(st.floats(-30, 30), st.floats(0, deviation))
    def check(mean, deviation):
        variance = deviation**2
        arguments = np.array([mean]), np.array([variance])
        value = Quadrature(nodes).expected_softplus(*arguments)[0]
        assert value == pytest.approx(expectation(log_one_plus_exp, mean, variance), abs=error)
        assert expected_sigmoid(*arguments, nodes)[0] == pytest.approx(expectation(expit, mean, variance), abs=error)

    check()


@pytest.mark.parametrize(("deviation", "nodes", "error"), REGIMES)
def test_gradients_are_derivatives_of_the_integral(deviation, nodes, error):
    @DETERMINISTIC
    @given(st.floats(-15, 15), st.floats(0.1, deviation))
    def check(mean, deviation):
        variance = deviation**2
        d_mean, d_variance = Quadrature(nodes).gradients(np.array([mean]), np.array([variance]))
        expected = derivative(lambda m: expectation(log_one_plus_exp, m, variance), mean, 1e-2)
        assert d_mean[0] == pytest.approx(expected, abs=error)
        expected = derivative(lambda v: expectation(log_one_plus_exp, mean, v), variance, 0.1 * variance)
        assert d_variance[0] == pytest.approx(expected, abs=5 * error)

    check()


@each_value(dtype=[np.float32, np.float64], order=["together", "shuffled"])
def test_fast_gradients_have_small_errors(dtype, order):
    mean, variance = np.meshgrid(np.linspace(-30, 10, 401), np.geomspace(1e-4, 2, 40))
    mean, variance = mean.ravel(), variance.ravel()
    if order == "shuffled":  # so that chunks contain tails and centres
        permutation = np.random.default_rng(0).permutation(mean.size)
        mean, variance = mean[permutation], variance[permutation]
    exact = Quadrature(60).gradients(mean, variance)
    fast = Quadrature().gradients(mean.astype(dtype), variance.astype(dtype), for_step=True)
    for value, expected in zip(fast, exact, strict=True):
        np.testing.assert_allclose(value, expected, atol=1.1e-4)
        # Rare labels need accurate small probabilities.
        assert np.abs(value / expected - 1)[(mean < -5) & (mean > -15)].max() < 2e-3


@each_value(count=[1, 5, 10, 16, 20, 47, 100], dtype=[np.float32, np.float64])
def test_probabilities_are_at_most_one(dtype, count):
    # Rounded weights of the rule can sum to more than one.
    mean = np.linspace(0, 200, 401, dtype=dtype)
    for variance in (0, 1, 100):
        probability = expected_sigmoid(mean, np.full_like(mean, variance), count)
        assert 1 - 1e-6 < probability.max() <= 1


@each_value(dtype=[np.float32, np.float64], variance=[0, 1e-30, 1.0, 27.5, 28.5, 1e6, 1e30, 3e38])
def test_extreme_inputs_give_results_within_their_bounds(dtype, variance):
    magnitudes = np.array([0, 1e-30, 1, 30, 90, 800, 1e4, 3e38], dtype)
    mean = np.concatenate([magnitudes, -magnitudes])
    variances = np.full_like(mean, variance)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        value, probability = Quadrature().expected_softplus(mean, variances), expected_sigmoid(mean, variances)
        d_mean, d_variance = Quadrature().gradients(mean, variances)
    rounding = 2 * np.finfo(dtype).eps
    # max(f, 0) ≤ log(1 + e^f) ≤ max(f, 0) + log 2, and by Jensen the expectation is at least the value at m.
    least = np.maximum(mean, 0).astype(np.float64)
    most = least + np.log(2) + np.sqrt(variance)
    for values, low, high in (value, least, most), (probability, 0, 1), (d_mean, 0, 1), (d_variance, 0, 0.125):
        assert (values >= low * (1 - 8 * rounding) - rounding).all()
        assert (values <= high * (1 + 8 * rounding) + rounding).all()
    certain = np.abs(mean) > 9 * np.sqrt(variance) + 100
    np.testing.assert_allclose(value[certain], least[certain], rtol=8 * rounding, atol=rounding)
    np.testing.assert_allclose(probability[certain], mean[certain] > 0, atol=rounding)
    np.testing.assert_allclose(d_variance[certain], 0, atol=rounding)


def test_arrays_and_numbers_as_variances_have_the_same_machine_code():
    mean = np.zeros((2, 3), np.float32)
    Quadrature(5).gradients(mean, np.ones_like(mean))
    signatures = list(_fill_gradients.signatures)
    Quadrature(5).gradients(mean, 1.0)
    assert _fill_gradients.signatures == signatures
