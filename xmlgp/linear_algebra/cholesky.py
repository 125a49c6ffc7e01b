"""Cholesky factorisation of covariance matrices, with jitter if needed."""

import numpy as np

from xmlgp.errors import NumericalError
from xmlgp.linear_algebra import lapack

__all__ = ["JITTERS", "Factorised", "factorise"]

#: Multiples of the mean diagonal that are added, one after the other, until the factorisation succeeds.
JITTERS = (0.0, 1e-6, 1e-4, 1e-2)


class Factorised:
    """The Cholesky factor, the inverse and the log determinant of a symmetric positive definite matrix C, M×M.

    Attributes
    ----------
    factor, inverse : ndarray, M×M
        Lower triangular L with L Lᵀ = C; and C⁻¹, symmetric.
    log_determinant : float
        log |C|.
    """

    def __init__(self, factor):
        self.factor = factor
        self.log_determinant = 2 * float(np.log(np.diagonal(factor)).sum(dtype=np.float64))
        self.inverse = factor.copy()
        lapack.invert_factorised(self.inverse)
        lapack.mirror_lower(self.inverse)


def factorise(matrix, name):
    """Factorise a symmetric matrix, with the least of `JITTERS` on its diagonal that makes this possible.

    Parameters
    ----------
    matrix : ndarray, M×M
        Overwritten.
    name : str
        Name of the matrix in the error message.

    Returns
    -------
    Factorised

    Raises
    ------
    NumericalError
        If the matrix is not finite, or not positive definite with the largest of `JITTERS`.
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
