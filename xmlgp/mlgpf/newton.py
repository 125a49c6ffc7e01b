"""A start in closed form: a Newton step for every label by itself, and its best approximation of rank P.

Seen from f = b, one step of Newton's method for the posterior mode of a Gaussian process classification is a ridge
regression on the residuals of the labels. All labels share its eigenvectors: all steps take little more than one.
"""

import numpy as np
import scipy.linalg
from scipy.special import expit

from xmlgp.linear_algebra import dense, sparse

__all__ = ["DAMPING", "newton_start"]

#: Share of the step that is taken: after a whole one training points are fitted so well that little is learned from
#: them any more. Of 0.3, 0.5 and 1 the best on validation points of Bibtex and Delicious.
DAMPING = 0.3

#: Added to the diagonal of K_Z, as a multiple of its mean: K_Z may be singular, and is of single precision.
JITTER = 1e-4

#: Directions in which points have less than this part of the largest information say nothing: in single precision they
#: consist of rounding. So do directions with less than this part of the step.
NEGLIGIBLE = 1e-6

#: Labels a block.
BLOCK = 8192


def newton_start(cross, prior, labels, bias, size, scale=1.0):
    """Return weights and loadings of f = b + K_XZ weights Φᵀ.

    For label k, with π = σ(b_k) and w_k = π(1 − π), the step is g_k = (w_k K_ZX K_XZ + K_Z)⁻¹ K_ZX (y_k − π); the
    weights and Φ minimise Σ_ik w_k (f_ik − b_k − k(x_i, Z) g_k)² among those of rank P.

    Parameters
    ----------
    cross : ndarray, N×M
        K_XZ.
    prior : ndarray, M×M
        K_Z.
    labels : csr_array, N×K
        Y.
    bias : ndarray, K
        b.
    size : int
        P.
    scale : float
        Points that each of these stands for.

    Returns
    -------
    weights : ndarray, M×S
        `DAMPING` times the step; S is P, or less where the step has fewer directions.
    loadings : ndarray, K×S
        Φ, its rows of mean square length one, as of a random start.
    """
    dtype = cross.dtype
    prior = prior.astype(np.float64)
    prior[np.diag_indices_from(prior)] += JITTER * np.trace(prior) / len(prior)
    information = scale * dense.gram(cross).astype(np.float64)
    nothing = np.empty((len(prior), 0), dtype), np.empty((len(bias), 0), dtype)
    # Inducing inputs without features have no covariance; of numbers beyond single precision training will tell.
    if not (len(bias) and np.trace(prior) > 0 and np.isfinite(information.sum() + prior.sum())):
        return nothing
    try:
        information, directions = scipy.linalg.eigh(information, prior)
    except np.linalg.LinAlgError:
        return nothing
    significant = information > NEGLIGIBLE * information[-1]
    information, directions = information[significant], directions[:, significant]
    projected = dense.product(cross, directions.astype(dtype))
    totals = projected.sum(axis=0, dtype=np.float64)
    by_label = labels.T.tocsr().astype(dtype)
    count = len(bias)

    def steps(start):
        """Return the steps of a block of labels, by eigenvectors, and √w, by which they are weighted."""
        probability = expit(bias[start : start + BLOCK].astype(np.float64))[:, None]
        weight = probability * (1 - probability)
        residual = scale * (sparse.product(by_label[start : start + BLOCK], projected) - probability * totals)
        step = residual / (weight * information + 1)
        return step * np.sqrt(weight * information), np.sqrt(weight)

    moment = sum(dense.gram(steps(start)[0]) for start in range(0, count, BLOCK))
    squares, vectors = np.linalg.eigh(moment)
    found = min(size, int(np.count_nonzero(squares > NEGLIGIBLE * squares.max(initial=0))))
    chosen = np.ascontiguousarray(vectors[:, ::-1][:, :found])
    loadings = np.empty((count, chosen.shape[1]), dtype)
    for start in range(0, count, BLOCK):
        step, root = steps(start)
        loadings[start : start + BLOCK] = step @ chosen / root
    length = np.sqrt(np.square(loadings, dtype=np.float64).sum() / max(1, count)) or 1.0
    loadings /= dtype.type(length)
    weights = DAMPING * length * (directions @ (chosen / np.sqrt(information)[:, None]))
    return weights.astype(dtype), loadings
