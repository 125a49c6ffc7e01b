"""Lengthscales of words and of dense blocks, with the least leave-one-out error of some of the points.

Source of the formulas: Rasmussen and Williams 2006, section 5.4.2.
"""

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from xmlgp.data.blocks import dense_of, sparse_of
from xmlgp.regression.kernel import DENSE_NOISE

__all__ = ["learned_lengthscales", "leave_one_out"]

#: Points drawn at random, and the number of points nearest to each of them: together those that are left out one at a
#: time. Neighbours are as close as among all points; points at random are farther apart, so that lengthscales would be
#: those of few points. On 22,338 documents with 592 tags, embeddings get 1.5 in place of 2.3. Where 14,000 predict, 1.2
#: to 1.4 rank held-out documents best, 0.3 points of P@3 better than 2.4.
CENTRES = 40
NEAREST = 50

#: Logarithm of how far a lengthscale may be from where it starts: at both ends it changes nothing any more.
FARTHEST = 4.0

#: The search ends where the logarithm of the error changes by less than about this.
CHANGE = 1e-5


def learned_lengthscales(features, right):
    """Return the lengthscales of words and of each dense column, 1+E, those of the columns of a block all the same.

    `features` are N weighted and scaled points (`Blocks`), `right` their projected labels (Y − 1πᵀ) V, N×P. The noise
    is not learned: what fits some of the points best ranks held-out points worse.
    """
    dense = dense_of(features)
    N = len(right)
    values = dense.values()
    blocks = [sparse_of(features), *(values[:, start:stop] for start, stop in dense.bounds())]
    centres = np.random.default_rng(0).choice(N, min(N, CENTRES), replace=False)
    distances = [_squared_distances(block[centres], block) for block in blocks]
    means = np.array([block.mean() for block in distances])
    # Blocks whose points are all equal tell nothing. At the start, the mean exponent of the kernel is −1.
    squares = np.where(means > 0, means * len(blocks) / 2, 1)
    start = 0.5 * np.log(squares)
    if np.isfinite(means).all():
        relative = sum(block / square for block, square in zip(distances, squares, strict=True))
        nearest = np.argpartition(relative, min(N, NEAREST) - 1, axis=1)[:, :NEAREST]
        rows = np.unique(nearest)
        arguments = [_squared_distances(block[rows], block[rows]) for block in blocks], right[rows].astype(float)
        if arguments[1].any():
            bounds = [(value - FARTHEST, value + FARTHEST) for value in start]
            options = {"ftol": CHANGE, "maxiter": 50}
            start = minimize(leave_one_out, start, arguments, "L-BFGS-B", jac=True, bounds=bounds, options=options).x
    return np.repeat(np.exp(start), [1, *dense.widths]).astype(np.float32)


def leave_one_out(log_lengthscales, distances, right):
    """Return ½ log Σ e², and its gradient; e are the errors of R, n×P, by the regression on all other points.

    These are A⁻¹R divided by the diagonal of A⁻¹, A = K + noise I; `distances` are squared, n×n for each block.
    """
    n = len(right)
    precisions = np.exp(-2 * log_lengthscales)
    covariance = np.exp(-0.5 * sum(map(np.multiply, precisions, distances)))
    factor = cho_factor(covariance + DENSE_NOISE * np.eye(n), lower=True, overwrite_a=True, check_finite=False)
    inverse = cho_solve(factor, np.eye(n), overwrite_b=True, check_finite=False)
    solved = inverse @ right
    diagonal = inverse.diagonal()
    errors = solved / diagonal[:, None]
    squares = np.square(errors).sum(axis=1)
    total = squares.sum()
    by_covariance = (inverse * (squares / diagonal)) @ inverse
    by_covariance -= (inverse @ (errors / diagonal[:, None])) @ solved.T
    by_covariance *= covariance / total
    return 0.5 * np.log(total), precisions * [np.vdot(by_covariance, block) for block in distances]


def _squared_distances(points, others):
    """Return ‖x − x′‖² of all pairs of two sets of points, in double precision."""
    points = points.astype(float)
    others = others.astype(float)
    products = points @ others.T
    if isinstance(products, np.ndarray):
        norms = [np.square(block).sum(axis=1) for block in (points, others)]
    else:
        products = products.toarray()
        norms = [block.power(2).sum(axis=1) for block in (points, others)]
    return np.maximum(norms[0][:, None] + norms[1] - 2 * products, 0)
