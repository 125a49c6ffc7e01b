"""Cholesky factors, their inverses and solutions, with jitter, from NumPy and SciPy.

NumPy's factorisation releases the global interpreter lock, so that several threads factorise at the same time. Routines
of LAPACK in place of both functions take half to three quarters of the time, which is a tenth of a training step.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs, solve_triangular

from xmlgp.runtime.errors import NumericalError

__all__ = ["Factorised", "add_jitter", "factor_of", "factorise", "inverse_lower", "jitter_backward", "solve_factorised"]

#: Multiples of the mean diagonal that are added, one after the other, until the factorisation succeeds.
JITTERS = (0.0, 1e-6, 1e-4, 1e-2)

#: The multiple that `add_jitter` adds, so that K_Z has an inverse in the given precision.
JITTER = {np.dtype(np.float32): 1e-4, np.dtype(np.float64): 1e-8}


class Factorised:
    """The lower triangular `factor` L of a matrix C = L Lᵀ, M×M, its `inverse` and `log_determinant`, log |C|."""

    def __init__(self, factor: NDArray[np.floating]) -> None:
        self.factor = factor
        self.log_determinant = 2 * float(np.log(np.diagonal(factor)).sum(dtype=np.float64))
        root = inverse_lower(factor)
        # NumPy recognises the symmetric product and computes half of it.
        self.inverse: NDArray[np.floating] = root.T @ root


def factorise(matrix: NDArray[np.floating], name: str) -> Factorised:
    """Return a symmetric matrix, M×M, `Factorised`, with the least of `JITTERS` that makes it positive definite.

    The matrix is overwritten. If it is not finite, or not positive definite with the largest jitter, raise
    NumericalError with its name.
    """
    diagonal = np.einsum("ii->i", matrix)
    scale = float(diagonal.mean(dtype=np.float64))
    added = 0.0
    if not np.isfinite(scale):
        raise NumericalError(f"{name} is not finite")
    for jitter in JITTERS:
        diagonal += matrix.dtype.type((jitter - added) * scale)
        added = jitter
        factor = factor_of(matrix)
        if factor is not None:
            return Factorised(factor)
    raise NumericalError(f"{name} is not positive definite, even with {JITTERS[-1]:g} of its mean diagonal added")


def add_jitter(K_Z: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return K_Z + ε tr(K_Z)/M I, with the `JITTER` ε of its precision."""
    jittered: NDArray[np.floating] = K_Z.copy()
    # Inducing inputs without features have K_Z = 0; their mean diagonal counts as one.
    scale = np.trace(K_Z) / len(K_Z) or K_Z.dtype.type(1)
    diagonal = np.einsum("ii->i", jittered)
    diagonal += K_Z.dtype.type(JITTER[K_Z.dtype]) * scale
    return jittered


def jitter_backward(d_jittered: NDArray[np.floating]) -> None:
    """Turn the gradient with respect to K_Z with jitter into that with respect to K_Z, M×M, in place."""
    jitter = d_jittered.dtype.type(JITTER[d_jittered.dtype])
    diagonal = np.einsum("ii->i", d_jittered)
    diagonal += jitter * np.trace(d_jittered) / len(d_jittered)


def factor_of(matrix: NDArray[np.floating]) -> NDArray[np.floating] | None:
    """Return L with L Lᵀ = A, I×I, given the lower triangle of A; None if A has no such factor."""
    try:
        factor: NDArray[np.floating] = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return None
    # OpenBLAS reports success for NaN.
    return factor if np.isfinite(np.diagonal(factor)).all() else None


def inverse_lower(factor: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return L⁻¹ of a lower triangular matrix L, I×I, whose elements above the diagonal are zero."""
    (invert,) = get_lapack_funcs(("trtri",), (factor,))
    # The transpose is upper triangular, and in the order of Fortran.
    transposed, _ = invert(factor.T)
    inverse: NDArray[np.floating] = transposed.T
    return inverse


def solve_factorised(
    factor: NDArray[np.floating], right: NDArray[np.floating], noise: NDArray[np.floating] | float = 0
) -> NDArray[np.floating]:
    """Return (L Lᵀ)⁻¹ b, I, or with noise ε ~ N(0, I) the sample L⁻ᵀ (L⁻¹ b + ε) from N((L Lᵀ)⁻¹ b, (L Lᵀ)⁻¹)."""
    whitened = solve_triangular(factor, right, lower=True, check_finite=False) + noise
    solution: NDArray[np.floating] = solve_triangular(factor, whitened, trans="T", lower=True, check_finite=False)
    return solution
