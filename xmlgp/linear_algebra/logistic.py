"""The logistic function of arrays.

That of SciPy is not used: importing it takes a tenth of the time of `xmlgp predict` with one text.
"""

import numpy as np
from numpy.typing import NDArray

__all__ = ["expit"]


def expit(x: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return σ(x) = 1/(1 + e^−x), elementwise, with full relative precision for very negative x as well."""
    exponential = np.exp(-np.abs(x))
    result: NDArray[np.floating] = np.where(x >= 0, x.dtype.type(1), exponential) / (1 + exponential)
    return result
