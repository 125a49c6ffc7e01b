"""A start of MLGPF in closed form: one Newton step towards the posterior mode of all labels, at reduced rank."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.linear_algebra import dense, sparse
from xmlgp.linear_algebra.logistic import expit
from xmlgp.runtime.threads import one_blas_thread

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
LABEL_BLOCK = 8192


def newton_start(
    cross: NDArray[np.floating],
    prior: NDArray[np.floating],
    labels: csr_array,
    bias: NDArray[np.floating],
    size: int,
    scale: float = 1.0,
) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Return weights, M×S, and loadings Φ, K×S, of f = b + K_XZ weights Φᵀ, given K_XZ, N×M, K_Z and Y, N×K.

    From f = b, one step of Newton's method towards the posterior mode of a GP classifier is a ridge regression on the
    residuals of the label. All labels share its eigenvectors, so all steps cost little more than one. For label k, with
    π = σ(b_k) and w_k = π(1 − π), the step is g_k = (w_k K_ZX K_XZ + K_Z)⁻¹ K_ZX (y_k − π), if each point stands for
    `scale` points. The result is `DAMPING` times the minimum of Σ_ik w_k (f_ik − b_k − k(x_i, Z) g_k)² over rank P
    (`size`). Rows of Φ have mean square length one, as random ones have. S is P, or less if the step has fewer
    significant directions.
    """
    import scipy.linalg

    dtype = cross.dtype
    prior = prior.astype(np.float64)
    prior[np.diag_indices_from(prior)] += JITTER * np.trace(prior) / len(prior)
    information = scale * dense.gram(cross).astype(np.float64)
    no_directions = np.empty((len(prior), 0), dtype), np.empty((len(bias), 0), dtype)
    # The covariance of inducing inputs without features is zero. Training reports values that are not finite.
    if not (len(bias) and np.trace(prior) > 0 and np.isfinite(information.sum() + prior.sum())):
        return no_directions
    try:
        with one_blas_thread():
            information, directions = scipy.linalg.eigh(information, prior)
    except np.linalg.LinAlgError:
        return no_directions
    significant = information > NEGLIGIBLE * information[-1]
    information = information[significant]
    directions = directions[:, significant]
    projected = dense.product(cross, directions.astype(dtype))
    totals = projected.sum(axis=0, dtype=np.float64)
    by_label = labels.T.tocsr().astype(dtype)
    count = len(bias)

    def steps(start: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the steps of a block of labels in the basis of eigenvectors, and their weights √w."""
        block = slice(start, start + LABEL_BLOCK)
        probability = expit(bias[block].astype(np.float64))[:, None]
        weight = probability * (1 - probability)
        residual = scale * (sparse.product(by_label[block], projected) - probability * totals)
        step = residual / (weight * information + 1)
        return step * np.sqrt(weight * information), np.sqrt(weight)

    moment = sum(dense.gram(steps(start)[0]) for start in range(0, count, LABEL_BLOCK))
    squares, vectors = np.linalg.eigh(moment)
    rank = min(size, int(np.count_nonzero(squares > NEGLIGIBLE * squares.max(initial=0))))
    leading = np.ascontiguousarray(vectors[:, ::-1][:, :rank])
    loadings = np.empty((count, leading.shape[1]), dtype)
    for start in range(0, count, LABEL_BLOCK):
        step, root = steps(start)
        loadings[start : start + LABEL_BLOCK] = step @ leading / root
    length = np.sqrt(np.square(loadings, dtype=np.float64).sum() / max(1, count)) or 1.0
    loadings /= dtype.type(length)
    weights = DAMPING * length * (directions @ (leading / np.sqrt(information)[:, None]))
    return weights.astype(dtype), loadings
