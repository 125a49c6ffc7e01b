"""Standard deviations of Gaussian utilities f and of the probabilities σ(f)."""

import numpy as np
from numpy.typing import NDArray

from xmlgp.gp.expectations import Quadrature

__all__ = ["logistic_std"]


def logistic_std(
    mean: NDArray[np.floating], variance: NDArray[np.floating], output: str, nodes: int
) -> NDArray[np.floating]:
    """Return the standard deviation of f (utilities) or of σ(f) (probabilities; [S] A.3), elementwise."""
    if output == "probability":
        # In single precision the difference of small variances would be rounding errors.
        probability, half_spread = Quadrature(nodes).gradients(mean.astype(np.float64), variance.astype(np.float64))
        # half_spread is ½ E σ(1−σ), so E σ² = E σ − 2 half_spread.
        variance = probability - 2 * half_spread - probability**2
    std: NDArray[np.floating] = np.sqrt(np.maximum(variance, 0))
    return std.astype(mean.dtype, copy=False)
