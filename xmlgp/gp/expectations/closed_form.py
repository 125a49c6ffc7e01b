"""Gaussian expectations of the logistic likelihood in closed form: a bound, and approximations."""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from xmlgp.gp.expectations.elementwise import CHUNK, fill
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.linear_algebra.elementary import exponential, polynomial, softplus

__all__ = ["JaakkolaJordan", "Taylor", "approximate_log_odds", "expected_softplus_and_slope"]

#: In single precision, λ(ξ) is computed by seven terms of its series up to this ξ, where they are exact to rounding,
#: and by tanh for larger ξ, where tanh has no cancellation.
SINGLE_SERIES = 1.0

#: The same in double precision.
DOUBLE_SERIES = 0.25

#: Coefficients of tanh(x)/x in x², the highest first.
TANH = (21844 / 6081075, -1382 / 155925, 62 / 2835, -17 / 315, 2 / 15, -1 / 3, 1.0)


class JaakkolaJordan:
    """The upper bound on E log(1 + e^f), f ~ N(m, v), by Jaakkola and Jordan.

    For every ξ, log(1 + e^f) ≤ f/2 + log(2 cosh(ξ/2)) + λ(ξ)(f² − ξ²) with λ(ξ) = tanh(ξ/2)/(4ξ). The expectation of
    the right side is least at ξ² = E f² = m² + v, where E log(1 + e^f) ≤ m/2 + log(2 cosh(ξ/2)). Equality holds for
    v = 0. Source: T. Jaakkola, M. Jordan, Bayesian parameter estimation via variational methods, Statistics and
    Computing 10, 2000; [I] section 1.
    """

    def expected_softplus(
        self, mean: NDArray[np.floating], variance: NDArray[np.floating] | float
    ) -> NDArray[np.floating]:
        """Return m/2 + log(2 cosh(ξ/2)), elementwise."""
        return fill(_expected_softplus, 1, mean, variance)[0]

    def gradients(
        self,
        mean: NDArray[np.floating],
        variance: NDArray[np.floating] | float,
        fast: bool = False,
        out: Sequence[NDArray[np.floating]] | None = None,
    ) -> Sequence[NDArray[np.floating]]:
        """Return the derivatives ½ + 2λ(ξ)m by the mean and λ(ξ) by the variance, elementwise."""
        return fill(_gradients, 2, mean, variance, out=out)


@compiled
def _optimal_xi(magnitude: float, variance: float, real: Callable[[float], float]) -> tuple[float, float]:
    """Return ξ = √(m² + v) and ½ (ξ − |m|) = ½ v/(ξ + |m|), without overflow or cancellation."""
    std = np.sqrt(variance)
    larger = max(max(magnitude, std), real(1e-30))
    ratio = min(magnitude, std) / larger
    xi = larger * np.sqrt(real(1) + ratio * ratio)
    return xi, real(0.5) * variance / max(xi + magnitude, real(1e-30))


@compiled
def _expected_softplus(mean: NDArray[np.floating], variance: NDArray[np.floating], out: NDArray[np.floating]) -> None:
    real = mean.dtype.type
    for k in range(mean.size):
        m = mean[k]
        v = max(variance[k], real(0))
        xi, excess = _optimal_xi(abs(m), v, real)
        # m/2 + log(2 cosh(ξ/2)) = (m + ξ)/2 + log(1 + e^−ξ), and (m + ξ)/2 = max(m, 0) + (ξ − |m|)/2.
        out[k] = max(m, real(0)) + (excess + softplus(-xi))


@compiled
def _lambda(x: float, e: float, real: Callable[[float], float], limit: float) -> float:
    """Return λ(x) = tanh(x/2)/(4x), given e = e^−x and the `limit` of the series."""
    s = real(0.25) * x * x
    series = polynomial(s, TANH)
    # NaN takes the quotient.
    return real(0.125) * series if x < limit else real(0.25) * (real(1) - e) / ((real(1) + e) * max(x, limit))


@compiled
def expected_softplus_and_slope(m: float, v: float) -> tuple[float, float]:
    """Return the bound on E log(1 + e^f) and λ(ξ) for one f ~ N(m, v); callable in compiled functions."""
    mean = np.float64(m)
    variance = np.float64(v)
    xi, excess = _optimal_xi(abs(mean), max(variance, 0.0), np.float64)
    e = exponential(-xi)
    slope = _lambda(xi, e, np.float64, DOUBLE_SERIES)
    return max(mean, 0.0) + excess + softplus(-xi), slope


@compiled
def _gradients(
    mean: NDArray[np.floating],
    variance: NDArray[np.floating],
    d_mean: NDArray[np.floating],
    d_variance: NDArray[np.floating],
) -> None:
    real = mean.dtype.type
    limit = real(SINGLE_SERIES if mean.itemsize == 4 else DOUBLE_SERIES)
    first = np.empty(CHUNK, mean.dtype)
    second = np.empty(CHUNK, mean.dtype)
    for start in range(0, mean.size, CHUNK):
        m = mean[start : start + CHUNK]
        v = variance[start : start + CHUNK]
        for k in range(m.size):
            xi, excess = _optimal_xi(abs(m[k]), max(v[k], real(0)), real)
            e = exponential(-xi)
            slope = _lambda(xi, e, real, limit)
            # ½ − 2λ|m| = σ(−ξ) + 2λ(ξ − |m|), which has no cancellation.
            below = e / (real(1) + e) + real(4) * slope * excess
            first[k] = real(1) - below if m[k] >= real(0) else below
            second[k] = slope
        # The results may overwrite the arguments.
        for k in range(m.size):
            d_mean[start + k] = first[k]
            d_variance[start + k] = second[k]


class Taylor:
    """An approximation to E log(1 + e^f), f ~ N(m, v), for small v, exact for v = 0; it is not a bound.

    log(1 + e^f) ≈ log(1 + e^m) + σ(m)(f − m) + ½ σ(m)σ(−m)(f − m)². Source: [I] (16).
    """

    def expected_softplus(
        self, mean: NDArray[np.floating], variance: NDArray[np.floating] | float
    ) -> NDArray[np.floating]:
        """Return log(1 + e^m) + ½ v σ(m)σ(−m), elementwise."""
        return fill(_expected_by_taylor, 1, mean, variance)[0]

    def gradients(
        self,
        mean: NDArray[np.floating],
        variance: NDArray[np.floating] | float,
        fast: bool = False,
        out: Sequence[NDArray[np.floating]] | None = None,
    ) -> Sequence[NDArray[np.floating]]:
        """Return the derivatives σ(m) + ½ v σ(m)σ(−m)(1 − 2σ(m)) by the mean and ½ σ(m)σ(−m) by the variance."""
        return fill(_taylor_gradients, 2, mean, variance, out=out)


@compiled
def _expected_by_taylor(mean: NDArray[np.floating], variance: NDArray[np.floating], out: NDArray[np.floating]) -> None:
    real = mean.dtype.type
    for k in range(mean.size):
        e = exponential(-abs(mean[k]))
        above = real(1) / (real(1) + e)
        out[k] = softplus(mean[k]) + max(variance[k], real(0)) * (real(0.5) * e * above * above)


@compiled
def _taylor_gradients(
    mean: NDArray[np.floating],
    variance: NDArray[np.floating],
    d_mean: NDArray[np.floating],
    d_variance: NDArray[np.floating],
) -> None:
    real = mean.dtype.type
    first = np.empty(CHUNK, mean.dtype)
    second = np.empty(CHUNK, mean.dtype)
    for start in range(0, mean.size, CHUNK):
        m = mean[start : start + CHUNK]
        v = variance[start : start + CHUNK]
        for k in range(m.size):
            # σ(|m|) = 1/(1 + e^−|m|), σ(m)σ(−m) = e^−|m| σ(|m|)² and |1 − 2σ(m)| = (1 − e^−|m|) σ(|m|).
            e = exponential(-abs(m[k]))
            above = real(1) / (real(1) + e)
            half = real(0.5) * e * above * above
            below = e * above + max(v[k], real(0)) * half * (real(1) - e) * above
            first[k] = real(1) - below if m[k] >= real(0) else below
            second[k] = half
        # The results may overwrite the arguments.
        for k in range(m.size):
            d_mean[start + k] = first[k]
            d_variance[start + k] = second[k]


def approximate_log_odds(mean: NDArray[np.floating], variance: NDArray[np.floating] | float) -> NDArray[np.floating]:
    """Return m / √(1 + πv/8), elementwise, which approximates the log odds of E σ(f) under f ~ N(m, v).

    It orders labels nearly as E σ(f) does, without quadrature. Source: D. J. C. MacKay, The evidence framework applied
    to classification networks, Neural Computation 4, 1992.
    """
    return fill(_shrink, 1, mean, variance)[0]


@compiled
def _shrink(mean: NDArray[np.floating], variance: NDArray[np.floating], out: NDArray[np.floating]) -> None:
    real = mean.dtype.type
    for k in range(mean.size):
        out[k] = mean[k] / math.sqrt(real(1) + real(math.pi / 8) * max(variance[k], real(0)))
