"""Standard deviations of scores: of normally distributed utilities f, or of the probabilities σ(f)."""

import numpy as np
from numpy.typing import NDArray

from xmlgp.gp.expectations import Quadrature

__all__ = ["score_std"]


def score_std(
    mean: NDArray[np.floating], variance: NDArray[np.floating], output: str, nodes: int
) -> NDArray[np.floating]:
    """Return the standard deviations of scores, elementwise, given the mean and variance of the utility f.

    With the output "utility" they are those of f. With "probability" they are those of σ(f), √(E σ² − (E σ)²), by
    Gauss–Hermite quadrature with so many nodes ([S] A.3).
    """
    if output == "probability":
        # In single precision the difference E σ² − (E σ)² would be a rounding error if the variance is small.
        probability, half_spread = Quadrature(nodes).gradients(mean.astype(np.float64), variance.astype(np.float64))
        # half_spread is ½ E σ(1 − σ), so E σ² = E σ − 2 half_spread.
        variance = probability - 2 * half_spread - probability**2
    # Rounding can leave a variance slightly below zero.
    std: NDArray[np.floating] = np.sqrt(np.maximum(variance, 0))
    return std.astype(mean.dtype, copy=False)
