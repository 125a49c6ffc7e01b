"""Scores of labels with probability σ(f) of Gaussian utilities f, and their standard deviations."""

import numpy as np

from xmlgp.gp.expectations import Quadrature, expected_sigmoid

__all__ = ["logistic_scores", "logistic_std"]


def logistic_scores(mean, variance, output, nodes):
    """Return the mean of f (utilities, without need of a variance) or E σ(f) (probabilities), elementwise."""
    return mean if output == "utility" else expected_sigmoid(mean, variance, nodes)


def logistic_std(mean, variance, output, nodes):
    """Return the standard deviation of f (utilities) or of σ(f) (probabilities; [S] A.3), elementwise."""
    if output == "utility":
        return np.sqrt(np.maximum(variance, 0))
    # In single precision the difference of small variances would be rounding errors.
    exact = (array.astype(np.float64, copy=False) for array in (mean, variance))
    probability, half_spread = Quadrature(nodes).gradients(*exact)
    # half_spread is ½ E σ(1−σ), so E σ² = E σ − 2 half_spread.
    spread = np.sqrt(np.maximum(probability - 2 * half_spread - probability**2, 0))
    return spread.astype(mean.dtype, copy=False)
