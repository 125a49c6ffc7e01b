"""Scores and standard deviations of a normally distributed utility, against integrals by SciPy."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

from xmlgp.gp.expectations import expected_sigmoid
from xmlgp.prediction.predictor import score_std

MEAN = np.array([[-30.0, -3, -0.5], [0, 1, 4]])
VARIANCE = np.array([[0.1, 2, 0], [1, 5, 0.3]])


def integral(function):
    """Return the expectation of a function of f, elementwise."""
    of_normal = np.vectorize(
        lambda mean, deviation: quad(lambda z: function(mean + deviation * z) * norm.pdf(z), -12, 12, epsabs=0)[0]
    )
    return of_normal(MEAN, np.sqrt(VARIANCE))


def test_utilities():
    np.testing.assert_allclose(score_std(MEAN, VARIANCE, "utility", 10), np.sqrt(VARIANCE))
    # Rounding can leave a variance slightly below zero.
    assert score_std(MEAN, VARIANCE - 1e-12, "utility", 10)[0, 2] == 0


@pytest.mark.parametrize("variance", [0, 1e-6, 1e-3])
def test_small_deviations_are_not_rounding_errors(variance):
    mean = np.array([-9, -1, 0, 2], np.float32)
    found = score_std(mean, np.full(4, variance, np.float32), "probability", 20)
    np.testing.assert_allclose(found, expit(mean) * expit(-mean) * np.sqrt(variance), rtol=2e-3, atol=1e-7)


@pytest.mark.parametrize(("nodes", "tolerance"), [(60, 1e-4), (10, 5e-3)])
def test_probabilities(nodes, tolerance):
    np.testing.assert_allclose(expected_sigmoid(MEAN, VARIANCE, nodes), integral(expit), rtol=tolerance)
    deviation = score_std(MEAN, VARIANCE, "probability", nodes)
    variance = integral(lambda f: expit(f) ** 2) - integral(expit) ** 2
    np.testing.assert_allclose(deviation**2, variance, rtol=20 * tolerance, atol=1e-15)
