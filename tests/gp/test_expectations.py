"""Gaussian expectations against adaptive quadrature, and their behaviour at the ends of the range of floats."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import expit, factorial2

from tests.gp.reference import STEADY
from xmlgp.gp.expectations import logistic, logistic_gradients, nodes_and_weights, softplus

#: Standard deviations, nodes and the error they allow: the integrands are analytic only near the real axis.
REGIMES = [(1.0, 10, 2e-6), (2.0, 40, 1e-7)]


def expectation(function, mean, variance):
    """E function(f) under f ~ N(mean, variance), by adaptive quadrature over twelve deviations."""
    if variance == 0:
        return function(mean)
    deviation = np.sqrt(variance)
    # Told where the integrand bends, the adaptive rule does not step over it.
    bend = [-mean / deviation] if abs(mean) < 12 * deviation else None
    density = 1 / np.sqrt(2 * np.pi)
    value, _ = quad(
        lambda z: function(mean + deviation * z) * density * np.exp(-z * z / 2),
        -12, 12, points=bend, limit=200, epsabs=1e-13, epsrel=1e-12,
    )  # fmt: skip
    return value


def log_one_plus_exp(f):
    return np.logaddexp(0, f)


def derivative(function, at, step):
    """Five-point central difference."""
    near, far = (function(at + s * step) - function(at - s * step) for s in (1, 2))
    return (8 * near - far) / (12 * step)


@pytest.mark.parametrize("count", [1, 5, 10, 20])
def test_rule_is_exact_for_polynomials(count):
    z, w = nodes_and_weights(count, np.float64)
    for degree in range(2 * count):
        moment = 0 if degree % 2 else factorial2(degree - 1) if degree else 1
        scale = (w * np.abs(z) ** degree).sum()
        assert (w * z**degree).sum() == pytest.approx(moment, rel=1e-11, abs=1e-11 * max(scale, 1))


@pytest.mark.parametrize(("deviation", "nodes", "error"), REGIMES)
def test_values_agree_with_adaptive_quadrature(deviation, nodes, error):
    @STEADY
    @given(st.floats(-30, 30), st.floats(0, deviation))
    def check(mean, deviation):
        variance = deviation**2
        arguments = np.array([mean]), np.array([variance]), nodes
        assert softplus(*arguments)[0] == pytest.approx(expectation(log_one_plus_exp, mean, variance), abs=error)
        assert logistic(*arguments)[0] == pytest.approx(expectation(expit, mean, variance), abs=error)

    check()


@pytest.mark.parametrize(("deviation", "nodes", "error"), REGIMES)
def test_gradients_are_the_derivatives_of_the_integral(deviation, nodes, error):
    @STEADY
    @given(st.floats(-15, 15), st.floats(0.1, deviation))
    def check(mean, deviation):
        variance = deviation**2
        by_mean, by_variance = logistic_gradients(np.array([mean]), np.array([variance]), nodes)
        expected = derivative(lambda m: expectation(log_one_plus_exp, m, variance), mean, 1e-2)
        assert by_mean[0] == pytest.approx(expected, abs=error)
        expected = derivative(lambda v: expectation(log_one_plus_exp, mean, v), variance, 0.1 * variance)
        assert by_variance[0] == pytest.approx(expected, abs=5 * error)

    check()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["together", "shuffled"])
def test_economy_costs_little_precision(dtype, order):
    mean, variance = np.meshgrid(np.linspace(-30, 10, 401), np.geomspace(1e-4, 2, 40))
    mean, variance = mean.ravel(), variance.ravel()
    if order == "shuffled":  # such as are far out in the tails beside such as are not
        places = np.random.default_rng(0).permutation(mean.size)
        mean, variance = mean[places], variance[places]
    exact = logistic_gradients(mean, variance, 60)
    economical = logistic_gradients(mean.astype(dtype), variance.astype(dtype), economical=True)
    for value, expected in zip(economical, exact, strict=True):
        np.testing.assert_allclose(value, expected, atol=1.1e-4)
        # Rare labels are learned from probabilities far below that.
        assert np.abs(value / expected - 1)[(mean < -5) & (mean > -15)].max() < 2e-3


def test_results_may_take_the_place_of_arguments():
    random = np.random.default_rng(0)
    for low in (-12, -4, 0):
        mean, variance = random.normal(low, 2, 5000), random.random(5000)
        for economical in (False, True):
            expected = logistic_gradients(mean, variance, economical=economical)
            out = mean.copy(), variance.copy()
            assert logistic_gradients(*out, economical=economical, out=out) is out
            np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("count", [1, 5, 10, 16, 20, 47, 100])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_probability_is_beyond_one(dtype, count):
    # The weights of the rule, rounded, can sum up to more.
    mean = np.linspace(0, 200, 401, dtype=dtype)
    for variance in (0, 1, 100):
        probability = logistic(mean, np.full_like(mean, variance), count)
        assert 1 - 1e-6 < probability.max() <= 1


@pytest.mark.parametrize("economical", [False, True])
def test_what_is_no_number_stays_none(economical):
    mean, variance = np.array([-20, np.nan, -20, 1.0]), np.array([0.1, 0.1, np.nan, 0.1])
    for values in logistic_gradients(mean, variance, economical=economical):
        assert np.isfinite(values[[0, 3]]).all()
        assert np.isnan(values[1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("variance", [0, 1e-30, 1.0, 27.5, 28.5, 1e6, 1e30, 3e38])
def test_no_input_overflows(dtype, variance):
    magnitudes = np.array([0, 1e-30, 1, 30, 90, 800, 1e4, 3e38], dtype)
    mean = np.concatenate([magnitudes, -magnitudes])
    spread = np.full_like(mean, variance)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        results = [softplus(mean, spread), logistic(mean, spread), *logistic_gradients(mean, spread)]
        economical = logistic_gradients(mean, spread, economical=True)
    assert all(np.isfinite(result).all() for result in economical)
    assert {result.dtype for result in results} == {np.dtype(dtype)}
    assert all(np.isfinite(result).all() for result in results)

    rounding = 2 * np.finfo(dtype).eps
    value, probability, by_mean, by_variance = (result.astype(np.float64) for result in results)
    # log(1 + e^f) lies between max(f, 0) and log 2 above it, and by Jensen no expectation is below its value at m.
    least = np.maximum(mean, 0).astype(np.float64)
    most = least + np.log(2) + np.sqrt(variance)
    assert (value >= least * (1 - 8 * rounding)).all()
    assert (value <= most * (1 + 8 * rounding)).all()
    for fraction in (probability, by_mean):
        assert fraction.min() >= -rounding
        assert fraction.max() <= 1 + rounding
    assert by_variance.min() >= -rounding
    assert by_variance.max() <= 0.125 + rounding
    certain = np.abs(mean) > 9 * np.sqrt(variance) + 100
    np.testing.assert_allclose(value[certain], least[certain], rtol=8 * rounding, atol=rounding)
    np.testing.assert_allclose(probability[certain], mean[certain] > 0, atol=rounding)
    np.testing.assert_allclose(by_variance[certain], 0, atol=rounding)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("variance", [-1e-30, -1e-6, -0.1])
def test_variance_below_zero_counts_as_zero(dtype, variance):
    mean = np.linspace(-5, 5, 11).astype(dtype)
    below, zero = np.full_like(mean, variance), np.zeros_like(mean)
    np.testing.assert_array_equal(softplus(mean, below), softplus(mean, zero))
    # The relative precision of e^−|f|.
    precision = 1e-5 if dtype == np.float32 else 1e-9
    np.testing.assert_allclose(softplus(mean, below), np.log1p(np.exp(mean)), rtol=precision)
    np.testing.assert_array_equal(logistic(mean, below), logistic(mean, zero))
    np.testing.assert_array_equal(logistic_gradients(mean, below), logistic_gradients(mean, zero))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_long_arrays_equal_their_pieces(dtype):
    # Whatever power of two a chunk is, some sizes end at its boundary or one beside it; those of pieces never do.
    random = np.random.default_rng(0)
    longest, piece = 2**16 + 1, 997
    mean, variance = random.normal(0, 3, longest).astype(dtype), random.random(longest).astype(dtype)
    for function in (softplus, logistic, lambda *arguments: logistic_gradients(*arguments)[1]):
        pieces = [function(mean[i : i + piece], variance[i : i + piece]) for i in range(0, longest, piece)]
        expected, tolerance = np.concatenate(pieces), 8 * np.finfo(dtype).eps
        for size in (2**power + offset for power in range(10, 17) for offset in (-1, 0, 1)):
            values = function(mean[:size], variance[:size])
            np.testing.assert_allclose(values, expected[:size], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("arrange", [np.asfortranarray, lambda a: np.repeat(a, 2, axis=1)[:, ::2], lambda a: a[::-1]])
def test_layout_in_memory_does_not_matter(arrange):
    random = np.random.default_rng(0)
    mean, variance = arrange(random.normal(size=(70, 300))), arrange(random.random((70, 300)))
    before = mean.copy(), variance.copy()
    for function in (softplus, logistic):
        expected = function(np.ascontiguousarray(mean), np.ascontiguousarray(variance))
        np.testing.assert_allclose(function(mean, variance), expected, rtol=1e-14)
    np.testing.assert_array_equal(mean, before[0])
    np.testing.assert_array_equal(variance, before[1])


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (2, 3, 4)])
def test_shapes_are_kept(shape):
    arguments = np.zeros(shape), np.ones(shape)
    for result in (softplus(*arguments), logistic(*arguments), *logistic_gradients(*arguments)):
        assert result.shape == shape
