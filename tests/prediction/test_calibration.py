"""The calibration of probabilities by rank: its map, its fit, and standard deviations."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit

from xmlgp.linear_algebra.array_groups import arrays_fit
from xmlgp.prediction import calibration as module
from xmlgp.prediction.calibration import CALIBRATION, RANKS, Calibration, fit_calibration

RANDOM = np.random.default_rng(0)
#: Probabilities of 40 points, best first.
RANKED = -np.sort(-RANDOM.random((40, 70)), axis=1)
CHOSEN = (0.6, 1.2, -0.4, -0.3, 0.4)


def are_valid(coefficients):
    return arrays_fit({"calibration": coefficients}, {CALIBRATION: True}, {})


def test_the_map_is_the_formula_and_keeps_the_order():
    np.testing.assert_allclose(Calibration(module.IDENTITY)(RANKED), RANKED)
    low, high = np.transpose(module.BOUNDS)
    for coefficients in np.random.default_rng(0).uniform(low, high, (50, 5)):
        assert np.all(np.diff(Calibration(coefficients)(RANKED)[:, :RANKS]) <= 0)
    found = Calibration(CHOSEN)(RANKED)
    a, b, c, d, e = CHOSEN
    for point, column in [(0, 0), (3, 1), (7, 49)]:
        p = RANKED[point, column]
        expected = a * np.log(p) - b * np.log(1 - p) + c + d * np.log(column + 1) + e * (column == 0)
        assert logit(found[point, column]) == pytest.approx(expected)
    np.testing.assert_allclose(
        found[:, 50:] / RANKED[:, 50:], np.repeat(found[:, 49:50] / RANKED[:, 49:50], 20, axis=1)
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_order_stays_and_certain_probabilities_stay_between_0_and_1(dtype):
    probabilities = np.array([[1, 1, 1 - 1e-7, 0.5, 0.5, 1e-30, 0, 0]], dtype)
    for coefficients in np.array([CHOSEN, module.IDENTITY, (20, 0.05, 20, 0, 0), (0.05, 20, -20, -5, 5)]):
        found = Calibration(coefficients)(probabilities)
        assert found.dtype == dtype
        assert np.all(np.diff(found) <= 0)
        assert np.all((found >= 0) & (found < 1))
        assert np.all(np.isfinite(Calibration(coefficients).calibrated_std(probabilities, 0 * probabilities + 0.1)))
    # Beyond the ranks they stay small after an underflow.
    tail = np.zeros((1, 70), dtype)
    tail[0, :3] = 0.9, 0.5, 1e-30
    assert np.all(Calibration(CHOSEN)(tail)[0, RANKS:] == 0)
    # Without a term of the rank, small probabilities stay distinct.
    small = np.array([[0.9, 1e-6, 3e-8, 1e-9, 1e-20, 1e-21]], dtype)
    assert np.all(np.diff(Calibration((1.4, 1.1, 1.2, 0, 0))(small)) < 0)


@pytest.mark.parametrize("count", [1, 10, 300])
def test_the_fit_is_the_maximum_with_the_prior(count):
    random = np.random.default_rng(0)
    probabilities = -np.sort(-random.random((count, 12)), axis=1)
    correct = random.random((count, 12)) < Calibration((0.5, 1.5, -1, 0.8, 0))(probabilities)
    weights = np.where(np.arange(12) < module.FIRST_RANKS, 1, module.OTHER_WEIGHT)

    def loss(coefficients):
        p = Calibration(coefficients)(probabilities)
        off = np.subtract(coefficients, module.IDENTITY)
        return -(np.log(np.where(correct, p, 1 - p)) @ weights).sum() + module.PRECISION * off @ off / 2

    expected = minimize(loss, module.IDENTITY, method="Nelder-Mead", bounds=module.BOUNDS, options={"maxiter": 4000})
    found = fit_calibration(probabilities, correct).coefficients
    assert loss(found) <= expected.fun + 1e-4
    assert are_valid(found)


def test_standard_deviations_agree_with_samples():
    mean, spread = np.array([[1.0, -0.5, -2.0]]), 0.05
    samples = expit(mean + spread * np.random.default_rng(1).standard_normal((200_000, 1)))
    calibration = Calibration(CHOSEN)
    found = calibration.calibrated_std(samples.mean(axis=0, keepdims=True), samples.std(axis=0, keepdims=True))
    np.testing.assert_allclose(found[0], calibration(samples).std(axis=0), rtol=0.02)
    # Beyond the ranks they are scaled as probabilities.
    ratio = calibration.calibrated_std(RANKED, np.full_like(RANKED, 0.01)) / 0.01
    np.testing.assert_allclose(ratio[:, RANKS:], (calibration(RANKED) / RANKED)[:, RANKS:])


def test_no_standard_deviation_is_larger_than_that_of_a_coin():
    # The first map makes probabilities steeper, the second makes those beyond the ranks larger.
    for coefficients in ((3.0, 3.0, 0.0, 0.0, 0.0), (1.0, 1.0, 2.0, 0.0, 0.0)):
        calibration, std = Calibration(coefficients), np.full_like(RANKED, 0.4)
        found, p = calibration.calibrated_std(RANKED, std), calibration(RANKED)
        assert np.all(found <= np.sqrt(p * (1 - p)) + 1e-12)
        assert np.any(found[:, :RANKS] < 0.4)


@pytest.mark.parametrize(
    "coefficients",
    [
        np.ones(3), np.ones((5, 1)), np.array([1, 1, 0, 0.1, 0]), np.array([0, 1, 0, 0.0, 0]),
        np.array([1, np.nan, 0, 0, 0]), np.array([1, 1, 0, 0, -0.1]), np.array([1, 1, 0, 0, 0], np.float32),
    ],
    ids=str,
)  # fmt: skip
def test_untrusted_coefficients_are_checked(coefficients):
    assert not are_valid(coefficients)
    assert are_valid(np.array(CHOSEN))
