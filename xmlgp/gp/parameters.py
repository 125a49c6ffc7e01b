"""Parameters and their gradients, by name, and exponentials of those that are logarithms.

Variances, lengthscales and relevances are trained as logarithms, which are clipped to ±`LIMIT`. Neither an exponential
nor the product of two, such as a variance and a relevance, can then overflow in single precision, whatever values
training reaches. A clipped parameter has a gradient of zero.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from xmlgp.runtime.errors import NumericalError

__all__ = ["LIMIT", "Gradients", "IndexedRows", "Parameters", "bounded_exp", "checked_log", "is_inside"]

#: Logarithms are clipped to ± this: e^40 is 2e17.
LIMIT = 40.0

#: Relative rounding error of the exponential of a limit.
ROUNDING = 1e-5

#: The parameters of a model in an unconstrained space, by name.
Parameters = Mapping[str, NDArray[np.floating]]


class IndexedRows(NamedTuple):
    """A gradient that is zero except in U rows: the indices of these rows, ascending, and their values, U×... ."""

    indices: NDArray[np.integer]
    values: NDArray[np.floating]

    def toarray(self, count: int) -> NDArray[np.floating]:
        """Return the dense gradient, of `count` rows."""
        dense = np.zeros((count, *self.values.shape[1:]), self.values.dtype)
        dense[self.indices] = self.values
        return dense


#: The gradients of a function by its parameters, by parameter name.
Gradients = Mapping[str, NDArray[np.floating] | IndexedRows]


def bounded_exp(logarithm: NDArray[np.floating] | float, power: float = 1.0) -> NDArray[np.floating]:
    """Return e^(x·power), with x clipped to ±`LIMIT`, elementwise."""
    clipped = np.clip(logarithm, -LIMIT, LIMIT)
    exponential: NDArray[np.floating] = np.exp(clipped if power == 1 else power * clipped)
    return exponential


def is_inside(values: NDArray[np.floating], power: float = 1.0) -> NDArray[np.bool_]:
    """Return whether results of `bounded_exp` are inside the limits, where they vary with x; the power is positive."""
    least = np.exp(-LIMIT * power)
    most = np.exp(LIMIT * power)
    inside: NDArray[np.bool_] = (values > least * (1 + ROUNDING)) & (values < most * (1 - ROUNDING))
    return inside


def checked_log(value: float, name: str, share: float = 1.0) -> float:
    """Return the logarithm of a positive initial value; outside ±`share`·`LIMIT` raise NumericalError with its name."""
    logarithm = float(np.log(value))
    if not abs(logarithm) <= LIMIT * share:
        least = np.exp(-LIMIT * share)
        most = np.exp(LIMIT * share)
        raise NumericalError(f"{name} is {value:g}, but must be from {least:.1g} to {most:.1g}")
    return logarithm
