"""Reference expectations by adaptive quadrature, derivatives by finite differences, and formulas with sixty digits."""

import decimal

import numpy as np
from scipy.integrate import quad

__all__ = ["derivative", "expectation", "log_one_plus_exp", "many_digits"]


def expectation(function, mean, variance):
    """Return E function(f) under f ~ N(mean, variance), by adaptive quadrature over ± 12 standard deviations."""
    if variance == 0:
        return function(mean)
    std = np.sqrt(variance)
    # The integrand bends at f = 0; with this breakpoint the adaptive rule does not miss it.
    bend = [-mean / std] if abs(mean) < 12 * std else None
    density = 1 / np.sqrt(2 * np.pi)
    value, _ = quad(
        lambda z: function(mean + std * z) * density * np.exp(-z * z / 2),
        -12, 12, points=bend, limit=200, epsabs=1e-13, epsrel=1e-12,
    )  # fmt: skip
    return value


def log_one_plus_exp(f):
    return np.logaddexp(0, f)


def derivative(function, at, step):
    """Return the derivative by a five-point central difference."""
    near, far = (function(at + s * step) - function(at - s * step) for s in (1, 2))
    return (8 * near - far) / (12 * step)


def many_digits(function, mean, variance):
    """Return the results of a function of Decimals of sixty digits for each mean and variance, as columns of floats."""
    with decimal.localcontext() as context:
        context.prec = 60
        columns = [[decimal.Decimal(float(value)) for value in values] for values in (mean, variance)]
        return np.array([function(*row) for row in zip(*columns, strict=True)], float).T
