"""Factorisation of covariance matrices."""

import numpy as np
from scipy.linalg import lapack

from xmlgp.errors import NumericalError

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
        (potri,) = lapack.get_lapack_funcs(("potri",), (factor,))
        # LAPACK fills one triangle; in Fortran's order the lower one of the transpose is our upper one.
        triangle, _ = potri(factor.T, lower=0)
        lower = np.tril(triangle.T, -1)
        self.inverse = lower + lower.T
        self.inverse[np.diag_indices_from(lower)] = np.diagonal(triangle)


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
        When even the largest of `JITTERS` does not help.
    """
    (potrf,) = lapack.get_lapack_funcs(("potrf",), (matrix,))
    diagonal = np.einsum("ii->i", matrix)
    scale, added = float(diagonal.mean()), 0.0
    for jitter in JITTERS:
        diagonal += matrix.dtype.type((jitter - added) * scale)
        added = jitter
        upper, failed = potrf(matrix.T, lower=0, clean=1)
        # OpenBLAS factorises NaN without complaint.
        if not failed and np.isfinite(np.diagonal(upper)).all():
            return Factorised(upper.T)
    raise NumericalError(f"{name} is not positive definite, even with {JITTERS[-1]:g} of its mean diagonal added")
