"""Gaussian expectations of the logistic likelihood in closed form: a bound, and approximations."""

import math

import numpy as np
from numpy.typing import NDArray

from xmlgp.linear_algebra.compiled import compiled_part
from xmlgp.linear_algebra.elementary import exponential, polynomial, softplus

__all__ = ["JaakkolaJordan", "Taylor", "approximate_log_odds", "expected_softplus_and_slope"]

#: λ(ξ) is computed by seven terms of its series up to this ξ, where they are exact to rounding.
SERIES_LIMIT = 0.25

#: Coefficients of tanh(x)/x in x², the highest first.
TANH = (21844 / 6081075, -1382 / 155925, 62 / 2835, -17 / 315, 2 / 15, -1 / 3, 1.0)

#: Least value of a divisor, so that 0/0 is 0.
SMALLEST = 1e-30


class JaakkolaJordan:
    """The upper bound on E log(1 + e^f), f ~ N(m, v), by Jaakkola and Jordan.

    For every ξ, log(1 + e^f) ≤ f/2 + log(2 cosh(ξ/2)) + λ(ξ)(f² − ξ²) with λ(ξ) = tanh(ξ/2)/(4ξ). The expectation of
    the right side is least at ξ² = E f² = m² + v, where E log(1 + e^f) ≤ m/2 + log(2 cosh(ξ/2)). Equality holds for
    v = 0. Source: T. Jaakkola, M. Jordan, Bayesian parameter estimation via variational methods, Statistics and
    Computing 10, 2000; [I] section 1.
    """

    def expected_softplus(self, mean: NDArray[np.floating], variance: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return m/2 + log(2 cosh(ξ/2)), elementwise."""
        xi, excess = _optimal_xi(mean, variance)
        # m/2 + log(2 cosh(ξ/2)) = (m + ξ)/2 + log(1 + e^−ξ), and (m + ξ)/2 = max(m, 0) + (ξ − |m|)/2.
        softplus: NDArray[np.floating] = np.maximum(mean, 0) + excess + np.log1p(np.exp(-xi))
        return softplus

    def gradients(
        self, mean: NDArray[np.floating], variance: NDArray[np.floating]
    ) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """Return the derivatives ½ + 2λ(ξ)m by the mean and λ(ξ) by the variance, elementwise."""
        xi, excess = _optimal_xi(mean, variance)
        slope = np.tanh(0.5 * xi) / (4 * xi)
        e = np.exp(-xi)
        # ½ − 2λ|m| = σ(−ξ) + 2λ(ξ − |m|), which has no cancellation.
        below = e / (1 + e) + 4 * slope * excess
        return np.where(mean >= 0, 1 - below, below), slope


def _optimal_xi(
    mean: NDArray[np.floating], variance: NDArray[np.floating]
) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Return ξ = √(m² + v), above zero, and ½ (ξ − |m|) = ½ v/(ξ + |m|), without overflow or cancellation."""
    variance = np.maximum(variance, 0)
    xi = np.maximum(np.hypot(mean, np.sqrt(variance)), SMALLEST)
    return xi, 0.5 * variance / (xi + np.abs(mean))


@compiled_part
def expected_softplus_and_slope(m: float, v: float) -> tuple[float, float]:
    """Return the bound of Jaakkola and Jordan and λ(ξ) for one f ~ N(m, v); callable in compiled functions."""
    mean = np.float64(m)
    variance = max(np.float64(v), 0.0)
    magnitude = abs(mean)
    std = np.sqrt(variance)
    larger = max(max(magnitude, std), SMALLEST)
    ratio = min(magnitude, std) / larger
    xi = larger * np.sqrt(1.0 + ratio * ratio)
    excess = 0.5 * variance / max(xi + magnitude, SMALLEST)
    e = exponential(-xi)
    series = 0.125 * polynomial(0.25 * xi * xi, TANH)
    # NaN takes the quotient.
    slope = series if xi < SERIES_LIMIT else 0.25 * (1.0 - e) / ((1.0 + e) * max(xi, SERIES_LIMIT))
    return max(mean, 0.0) + (excess + softplus(-xi)), slope


class Taylor:
    """An approximation to E log(1 + e^f), f ~ N(m, v), for small v, exact for v = 0; it is not a bound.

    log(1 + e^f) ≈ log(1 + e^m) + σ(m)(f − m) + ½ σ(m)σ(−m)(f − m)². Source: [I] (16).
    """

    def expected_softplus(self, mean: NDArray[np.floating], variance: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return log(1 + e^m) + ½ v σ(m)σ(−m), elementwise."""
        _, half_curvature = self.gradients(mean, variance)
        softplus: NDArray[np.floating] = np.maximum(mean, 0) + np.log1p(np.exp(-np.abs(mean)))
        softplus += np.maximum(variance, 0) * half_curvature
        return softplus

    def gradients(
        self, mean: NDArray[np.floating], variance: NDArray[np.floating]
    ) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """Return the derivatives σ(m) + ½ v σ(m)σ(−m)(1 − 2σ(m)) by the mean and ½ σ(m)σ(−m) by the variance."""
        # σ(|m|) = 1/(1 + e^−|m|), σ(m)σ(−m) = e^−|m| σ(|m|)² and |1 − 2σ(m)| = (1 − e^−|m|) σ(|m|).
        e = np.exp(-np.abs(mean))
        above = 1 / (1 + e)
        half_curvature = 0.5 * e * above * above
        below = e * above + np.maximum(variance, 0) * half_curvature * (1 - e) * above
        return np.where(mean >= 0, 1 - below, below), half_curvature


def approximate_log_odds(mean: NDArray[np.floating], variance: NDArray[np.floating] | float) -> NDArray[np.floating]:
    """Return m / √(1 + πv/8), elementwise, which approximates the log odds of E σ(f) under f ~ N(m, v).

    It orders labels nearly as E σ(f) does, without quadrature. Source: D. J. C. MacKay, The evidence framework applied
    to classification networks, Neural Computation 4, 1992.
    """
    variance = np.maximum(np.asarray(variance, mean.dtype), 0)
    log_odds: NDArray[np.floating] = mean / np.sqrt(1 + math.pi / 8 * variance)
    return log_odds
