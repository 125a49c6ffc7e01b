"""Lengthscales of words and of dense blocks, which maximise the marginal likelihood of some of the points."""

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from xmlgp.data.blocks import dense_of, sparse_of
from xmlgp.regression.kernel import NOISE

__all__ = ["SUBSET", "learned_lengthscales"]

#: Points that the likelihood is of, at most. With twice as many, held-out documents with 592 tags are ranked as well,
#: and it takes four times as long.
SUBSET = 1000

#: Logarithm of how far a lengthscale may be from where it starts: at both ends it changes nothing any more.
FARTHEST = 4.0

#: The search ends where the objective, a number for each point and function, changes by less than this share.
CHANGE = 1e-6


def learned_lengthscales(features, right):
    """Return the lengthscales of words and of each dense column, 1+E, those of the columns of a block all the same.

    `features` are n weighted and scaled points (`Blocks`), `right` their projected labels (Y − 1πᵀ) V, n×P. These are P
    functions with the covariance σ² (K + noise I), where σ² is at its best; see `objective`. The noise is not learned:
    labels are not Gaussian, and the most likely noise, a fifth of this, ranks held-out points worse.
    """
    dense = dense_of(features)
    values = dense.values(float)
    blocks = [sparse_of(features).astype(float), *(values[:, start:stop] for start, stop in dense.bounds())]
    distances = [_squared_distances(block) for block in blocks]
    means = np.array([block.mean() for block in distances])
    # At the start, the mean exponent of the kernel is −1.
    start = 0.5 * np.log(np.where(means > 0, means * len(means) / 2, 1))
    if np.isfinite(means).all() and right.any():
        bounds = [(value - FARTHEST, value + FARTHEST) for value in start]
        options = {"ftol": CHANGE, "maxiter": 50}
        arguments = (distances, right.astype(float))
        start = minimize(objective, start, arguments, "L-BFGS-B", jac=True, bounds=bounds, options=options).x
    return np.repeat(np.exp(start), [1, *dense.widths]).astype(np.float32)


def objective(log_lengthscales, distances, right):
    """Return ½ log tr(RᵀA⁻¹R) + log|A| / 2n, A = K + noise I, and its gradient; `distances` are squared, n×n a block.

    Up to a constant, it is the negative log marginal likelihood of R, n×P, for each of its elements.
    """
    n = len(right)
    precisions = np.exp(-2 * log_lengthscales)
    covariance = np.exp(-0.5 * sum(map(np.multiply, precisions, distances)))
    noisy = covariance + NOISE * np.eye(n)
    factor = cho_factor(noisy, lower=True, overwrite_a=True, check_finite=False)
    inverse = cho_solve(factor, np.eye(n), overwrite_b=True, check_finite=False)
    solved = inverse @ right
    quadratic = np.vdot(right, solved)
    value = 0.5 * np.log(quadratic) + np.log(factor[0].diagonal()).sum() / n
    by_covariance = (inverse / n - solved @ solved.T / quadratic) / 2
    by_covariance *= covariance
    return value, precisions * [np.vdot(by_covariance, block) for block in distances]


def _squared_distances(block):
    """Return ‖x − x′‖² of all points, n×n, in double precision."""
    products = block @ block.T
    products = products if isinstance(products, np.ndarray) else products.toarray()
    norms = products.diagonal()
    return np.maximum(norms[:, None] + norms - 2 * products, 0)
