"""Expectations by SciPy's adaptive quadrature, derivatives by differences, and formulas with sixty digits."""

import decimal

import numpy as np
from scipy.integrate import quad

__all__ = ["derivative", "expectation", "log_one_plus_exp", "many_digits"]


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


def many_digits(function, mean, variance):
    """What `function` makes of every mean and variance, as Decimals of sixty digits: columns of floats."""
    with decimal.localcontext() as context:
        context.prec = 60
        columns = [[decimal.Decimal(float(value)) for value in values] for values in (mean, variance)]
        return np.array([function(*row) for row in zip(*columns, strict=True)], float).T
