"""MacKay's approximation against its formula, and against exact probabilities."""

import numpy as np
import pytest
from scipy.special import logit

from xmlgp.gp.expectations import approximate_log_odds, expected_sigmoid, highest_probability


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_formula(dtype):
    mean = np.linspace(-9, 9, 4001).astype(dtype).reshape(-1, 1)
    variance = np.array([-1e-6, 0, 0.5, 40], dtype)
    mean, variance = np.broadcast_arrays(mean, variance)
    found = approximate_log_odds(mean, variance)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, mean / np.sqrt(1 + np.pi / 8 * np.maximum(variance, 0)), rtol=1e-6)


def test_values_that_are_not_finite_stay_so():
    found = approximate_log_odds(np.array([np.nan, np.inf, -np.inf]), np.ones(3))
    np.testing.assert_array_equal(found, [np.nan, np.inf, -np.inf])


def test_it_is_close_to_the_log_odds_of_probabilities():
    mean, variance = np.meshgrid(np.linspace(-2, 2, 41), np.linspace(0, 4, 9))
    exact = logit(expected_sigmoid(mean, variance, 60))
    assert np.abs(approximate_log_odds(mean, variance) - exact).max() < 0.1


def test_probabilities_do_not_exceed_their_bound():
    mean, variance = np.meshgrid(np.linspace(-30, 10, 161), np.concatenate([[0], np.geomspace(0.01, 50, 30)]))
    found = expected_sigmoid(mean, variance, 100)
    bound = highest_probability(approximate_log_odds(mean, variance))
    assert (found <= bound).all()
    # Around zero it is close.
    near = np.abs(mean) < 1
    assert (bound - found)[near & (mean <= 0)].max() < 0.03
    np.testing.assert_array_equal(bound[mean > 0], 1)
