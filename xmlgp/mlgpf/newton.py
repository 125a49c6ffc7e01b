"""Initial loadings and means in closed form: one Newton step for each label, approximated with rank P.

From f = b, one step of Newton's method towards the posterior mode of a GP classifier is a ridge regression on the
residuals of the label. All labels share its eigenvectors, so that all steps cost little more than one.
"""

import numpy as np
import scipy.linalg
from scipy.special import expit

from xmlgp.linear_algebra import dense, sparse

__all__ = ["DAMPING", "newton_start"]

#: Share of the step that is taken: a whole one fits the training points so well that training learns little from them.
#: The best of 0.3, 0.5 and 1 on validation points of Bibtex and Delicious.
DAMPING = 0.3

#: Multiple of the mean diagonal of K_Z that is added to the diagonal; K_Z can be singular and has single precision.
JITTER = 1e-4

#: Directions with less than this share of the largest information, or of the largest part of the step, are rounding
#: errors of single precision.
NEGLIGIBLE = 1e-6

#: Number of labels processed at a time.
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
        Number of points that each of these represents.

    Returns
    -------
    weights : ndarray, M×S
        `DAMPING` times the step; S is P, or less if the step has fewer significant directions.
    loadings : ndarray, K×S
        Φ, with rows of mean square length one, as random ones have.
    """
    dtype = cross.dtype
    prior = prior.astype(np.float64)
    prior[np.diag_indices_from(prior)] += JITTER * np.trace(prior) / len(prior)
    information = scale * dense.gram(cross).astype(np.float64)
    none = np.empty((len(prior), 0), dtype), np.empty((len(bias), 0), dtype)
    # Inducing inputs without features have no covariance. Training itself reports values that are not finite.
    if not (len(bias) and np.trace(prior) > 0 and np.isfinite(information.sum() + prior.sum())):
        return none
    try:
        information, directions = scipy.linalg.eigh(information, prior)
    except np.linalg.LinAlgError:
        return none
    significant = information > NEGLIGIBLE * information[-1]
    information, directions = information[significant], directions[:, significant]
    projected = dense.product(cross, directions.astype(dtype))
    totals = projected.sum(axis=0, dtype=np.float64)
    by_label = labels.T.tocsr().astype(dtype)
    count = len(bias)

    def steps(start):
        """Return the steps of a block of labels in the basis of eigenvectors, and their weights √w."""
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
