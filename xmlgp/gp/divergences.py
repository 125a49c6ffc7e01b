"""Kullback–Leibler divergences KL[q(u) ‖ p(u)] from the prior, one function for each form of q(u).

The functions take the matrix products that the gradients use as well, so nothing is computed twice.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from xmlgp.linear_algebra.cholesky import Factorisation

__all__ = ["diagonal_kl", "gauss_kl", "whitened_kl"]


def gauss_kl(
    mahalanobis: np.floating, trace: np.floating, logdet_ratio: np.floating | float, dimension: int
) -> np.floating:
    """Return KL[N(m, S) ‖ N(0, K)] = ½ [mᵀ K⁻¹ m + tr(K⁻¹ S) + log|K| − log|S| − M] from these terms.

    Each term may be a sum over several divergences.
    """
    kl: np.floating = 0.5 * (mahalanobis + trace + logdet_ratio - dimension)
    return kl


def whitened_kl(mean: NDArray[np.floating], factors: NDArray[np.floating]) -> np.floating:
    """Return Σ_p KL[N(v_p, L_p L_pᵀ) ‖ N(0, I)], which is Σ_p KL[N(L v_p, L L_p L_pᵀ Lᵀ) ‖ N(0, L Lᵀ)] for any L.

    The means v are M×P, the factors P×M×M, lower triangular with a positive diagonal.
    """
    M, P = mean.shape
    mahalanobis = np.vdot(mean, mean)
    trace = sum(np.vdot(factor, factor) for factor in factors)
    logdet_S = 2 * np.log(np.einsum("pmm->pm", factors)).sum()
    return gauss_kl(mahalanobis, trace, -logdet_S, P * M)


def diagonal_kl(
    mean: NDArray[np.floating],
    K_mean: NDArray[np.floating],
    diagonals: NDArray[np.floating],
    factorised: Sequence[Factorisation],
) -> np.floating:
    """Return Σ_p KL[N(K μ_p, (K⁻¹ + Σ_p⁻¹)⁻¹) ‖ N(0, K)] for diagonal Σ_p, one for each p or one for all ([S] (22)).

    It is ½ Σ_p [μ_pᵀ K μ_p + tr(C_p⁻¹ Σ_p) − M + log|C_p| − log|Σ_p|], given the factorisations of C_p = K + Σ_p. μ and
    K μ are M×P, the diagonals P×M or 1×M.
    """
    kl: np.floating = 0.5 * np.vdot(mean, K_mean)
    copies = mean.shape[1] // len(diagonals)
    for diagonal, C in zip(diagonals, factorised, strict=True):
        trace = np.vdot(diagonal, np.diagonal(C.inverse))
        kl += 0.5 * copies * (trace - len(diagonal) + C.log_determinant - np.log(diagonal).sum())
    return kl
