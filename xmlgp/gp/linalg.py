"""Factorisation of covariance matrices."""

import numpy as np

from xmlgp.errors import NumericalError
from xmlgp.linear_algebra import native

__all__ = ["JITTERS", "Factorised", "factorise"]

#: Multiples of the mean diagonal added in turn until a matrix factorises; each retry is a hundred times larger.
JITTERS = (0.0, 1e-6, 1e-4, 1e-2)


class Factorised:
    """A symmetric positive definite matrix through its Cholesky factor.

    Attributes
    ----------
    factor : ndarray, M×M
        Lower triangular L with L Lᵀ = C.
    inverse : ndarray, M×M
        C⁻¹, symmetric.
    log_determinant : float
        log |C|.
    """

    def __init__(self, factor):
        self.factor = factor
        self.log_determinant = 2 * float(np.log(np.diagonal(factor)).sum(dtype=np.float64))
        self.inverse = factor.copy()
        native.invert_factorised(self.inverse)
        native.mirror_lower(self.inverse)


def factorise(matrix, name):
    """Return the `Factorised` matrix, with as little jitter on the diagonal as lets it factorise.

    Parameters
    ----------
    matrix : ndarray, M×M
        C, symmetric; overwritten.
    name : str
        What the matrix is, for the message.

    Raises
    ------
    NumericalError
        When even the largest of `JITTERS` does not help, or the matrix is not finite.
    """
    diagonal = np.einsum("ii->i", matrix)
    scale, added = float(diagonal.mean(dtype=np.float64)), 0.0
    if not np.isfinite(scale):
        raise NumericalError(f"{name} is not finite")
    for jitter in JITTERS:
        diagonal += matrix.dtype.type((jitter - added) * scale)
        added = jitter
        factor = np.tril(matrix)
        if native.factorise_lower(factor):
            return Factorised(factor)
    raise NumericalError(f"{name} is not positive definite, even with {JITTERS[-1]:g} of its mean diagonal added")
