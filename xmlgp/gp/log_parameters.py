"""Exponentials of parameters that are logarithms: variances, lengthscales, relevances.

They are held within e^±`LIMIT`, so that none overflows in single precision wherever a training may lead, nor the
product of two, such as a variance and a relevance. At the limit a parameter has no gradient.
"""

import numpy as np

from xmlgp.errors import NumericalError

__all__ = ["LIMIT", "exponential", "log_within_limit", "slope", "within"]

#: Logarithms count as no more than this, on either side of zero: e^40 is 2e17.
LIMIT = 40.0

#: What rounding may take from the exponential of a limit, relatively.
ROUNDING = 1e-5


def exponential(logarithm, power=1.0, out=None):
    """Return e^(x·power) with x held within ±`LIMIT`, elementwise.

    Parameters
    ----------
    logarithm : ndarray
        x.
    power : float
    out : ndarray, optional
        Where the result goes.
    """
    held = np.clip(logarithm, -LIMIT, LIMIT, out=out)
    return np.exp(held if power == 1 else power * held, out=out)


def within(values, power=1.0):
    """Return whether exponentials are within the limit, elementwise: where not, they do not change with x.

    Parameters
    ----------
    values : ndarray
        As `exponential` returned them.
    power : float
        As it was there, above 0.
    """
    least, most = np.exp(-LIMIT * power), np.exp(LIMIT * power)
    return (values > least * (1 + ROUNDING)) & (values < most * (1 - ROUNDING))


def slope(values):
    """Return the derivatives of exponentials by x: themselves, or zero at the limit.

    Parameters
    ----------
    values : ndarray
        As `exponential` returned them.
    """
    return np.where(within(values), values, 0)


def log_within_limit(value, name, share=1.0):
    """Return the logarithm of a positive number that a parameter starts from.

    Parameters
    ----------
    value : float
    name : str
        What it is, for the message.
    share : float
        Part of `LIMIT` that is this parameter's.

    Raises
    ------
    NumericalError
        Where it is beyond the limit.
    """
    logarithm = np.log(value)
    if not abs(logarithm) <= LIMIT * share:
        least, most = np.exp(-LIMIT * share), np.exp(LIMIT * share)
        raise NumericalError(f"{name} is {value:g}, but must be from {least:.1g} to {most:.1g}")
    return logarithm
