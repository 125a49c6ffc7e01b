"""Scores of labels with probability σ(f) of Gaussian utilities f, and their standard deviations."""

import numpy as np
from numpy.typing import NDArray

from xmlgp.gp.expectations import Quadrature, expected_sigmoid

__all__ = ["logistic_scores", "logistic_std"]


def logistic_scores(
    mean: NDArray[np.floating], variance: NDArray[np.floating] | None, output: str, nodes: int
) -> NDArray[np.floating]:
    """Return the mean of f (utilities, which need no variance) or E σ(f) (probabilities), elementwise."""
    return mean if output == "utility" or variance is None else expected_sigmoid(mean, variance, nodes)


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
