"""Cholesky factorisation of covariance matrices, with jitter on their diagonals if needed, or always."""

import numpy as np

from xmlgp.errors import NumericalError
from xmlgp.linear_algebra import lapack

__all__ = ["JITTER", "JITTERS", "Factorised", "add_jitter", "factorise", "jitter_backward"]

#: Multiples of the mean diagonal that are added, one after the other, until the factorisation succeeds.
JITTERS = (0.0, 1e-6, 1e-4, 1e-2)

#: The multiple that `add_jitter` adds, so that K_Z has an inverse in the given precision.
JITTER = {np.dtype(np.float32): 1e-4, np.dtype(np.float64): 1e-8}


class Factorised:
    """The lower triangular `factor` L of a matrix C = L Lᵀ, M×M, its `inverse` and `log_determinant`, log |C|."""

    def __init__(self, factor):
        self.factor = factor
        self.log_determinant = 2 * float(np.log(np.diagonal(factor)).sum(dtype=np.float64))
        self.inverse = factor.copy()
        lapack.invert_factorised(self.inverse)
        lapack.mirror_lower(self.inverse)


def factorise(matrix, name):
    """Return a symmetric matrix `Factorised`, with the least of `JITTERS` that makes this possible; overwrite it.

    A matrix that is not finite, or not positive definite with the largest of them, raises NumericalError with its name.
    """
    diagonal = np.einsum("ii->i", matrix)
    scale, added = float(diagonal.mean(dtype=np.float64)), 0.0
    if not np.isfinite(scale):
        raise NumericalError(f"{name} is not finite")
    for jitter in JITTERS:
        diagonal += matrix.dtype.type((jitter - added) * scale)
        added = jitter
        factor = np.tril(matrix)
        if lapack.factorise_lower(factor):
            return Factorised(factor)
    raise NumericalError(f"{name} is not positive definite, even with {JITTERS[-1]:g} of its mean diagonal added")


def add_jitter(K_Z):
    """Return K_Z + ε tr(K_Z)/M I, with the `JITTER` ε of its precision."""
    jittered = K_Z.copy()
    # Inducing inputs without features have K_Z = 0; their mean diagonal counts as one.
    scale = np.trace(K_Z) / len(K_Z) or K_Z.dtype.type(1)
    jittered[np.diag_indices_from(jittered)] += K_Z.dtype.type(JITTER[K_Z.dtype]) * scale
    return jittered


def jitter_backward(d_jittered):
    """Turn the gradient with respect to K_Z with jitter into that with respect to K_Z, M×M, in place."""
    jitter = d_jittered.dtype.type(JITTER[d_jittered.dtype])
    d_jittered[np.diag_indices_from(d_jittered)] += jitter * np.trace(d_jittered) / len(d_jittered)
