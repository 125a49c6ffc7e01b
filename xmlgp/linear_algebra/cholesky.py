"""Cholesky factors by the LAPACK routines of SciPy, called without the global interpreter lock.

SciPy's own wrappers hold the lock, so a factorisation would stop all other threads. Matrices are in C order. Fortran
sees their transposes, so its upper triangle is the lower triangle here.
"""

import ctypes
import functools

import numpy as np
from scipy.linalg import cython_lapack

from xmlgp.errors import NumericalError
from xmlgp.linear_algebra.compiled import compiled

__all__ = [
    "Factorised",
    "add_jitter",
    "factorise",
    "factorise_lower",
    "invert_lower",
    "jitter_backward",
    "solve_factorised",
]

#: Multiples of the mean diagonal that are added, one after the other, until the factorisation succeeds.
JITTERS = (0.0, 1e-6, 1e-4, 1e-2)

#: The multiple that `add_jitter` adds, so that K_Z has an inverse in the given precision.
JITTER = {np.dtype(np.float32): 1e-4, np.dtype(np.float64): 1e-8}

#: The first letter of the routines.
PREFIX = {np.dtype(np.float32): "s", np.dtype(np.float64): "d"}


class Factorised:
    """The lower triangular `factor` L of a matrix C = L Lᵀ, M×M, its `inverse` and `log_determinant`, log |C|."""

    def __init__(self, factor):
        self.factor = factor
        self.log_determinant = 2 * float(np.log(np.diagonal(factor)).sum(dtype=np.float64))
        self.inverse = factor.copy()
        _call("potri", self.inverse, b"U", len(factor), self.inverse, max(1, len(factor)))
        _mirror_lower(self.inverse)


def factorise(matrix, name):
    """Return a symmetric matrix `Factorised`, with the least of `JITTERS` that makes this possible; overwrite it.

    A matrix that is not finite, or not positive definite with the largest of them, raises NumericalError with its name.
    """
    diagonal = np.einsum("ii->i", matrix)
    scale = float(diagonal.mean(dtype=np.float64))
    added = 0.0
    if not np.isfinite(scale):
        raise NumericalError(f"{name} is not finite")
    for jitter in JITTERS:
        diagonal += matrix.dtype.type((jitter - added) * scale)
        added = jitter
        factor = np.tril(matrix)
        if factorise_lower(factor):
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


@functools.cache
def _routine(name, dtype, arguments):
    """Return a LAPACK routine of SciPy's Cython interface as a function of addresses."""
    capsule = cython_lapack.__pyx_capi__[PREFIX[dtype] + name]
    get_name = ctypes.pythonapi.PyCapsule_GetName
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_name.restype = ctypes.c_char_p
    get_name.argtypes = [ctypes.py_object]
    get_pointer.restype = ctypes.c_void_p
    get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    # CFUNCTYPE releases the interpreter lock during a call; PYFUNCTYPE does not.
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * arguments)(get_pointer(capsule, get_name(capsule)))


def _call(name, matrix, *arguments):
    """Call the routine for the dtype of a matrix, with letters, integers and arrays; return its `info`."""
    info = ctypes.c_int(0)
    kinds = {bytes: ctypes.c_char, int: ctypes.c_int}
    addresses = [
        value.ctypes.data if isinstance(value, np.ndarray) else ctypes.byref(kinds[type(value)](value))
        for value in arguments
    ]
    _routine(name, matrix.dtype, len(addresses) + 1)(*addresses, ctypes.byref(info))
    return info.value


def factorise_lower(matrix):
    """Replace the lower triangle of a matrix A, I×I, by that of L with L Lᵀ = A; return whether A has such a factor."""
    info = _call("potrf", matrix, b"U", len(matrix), matrix, max(1, len(matrix)))
    # OpenBLAS reports success for NaN.
    return info == 0 and bool(np.isfinite(np.diagonal(matrix)).all())


def invert_lower(matrix):
    """Replace the lower triangle of L, I×I, by that of L⁻¹."""
    _call("trtri", matrix, b"U", b"N", len(matrix), matrix, max(1, len(matrix)))


def solve_factorised(matrix, right, noise=None):
    """Return (L Lᵀ)⁻¹ b, I, or with noise ε ~ N(0, I) the sample L⁻ᵀ (L⁻¹ b + ε) from N((L Lᵀ)⁻¹ b, (L Lᵀ)⁻¹).

    The lower triangle of the matrix, I×I, is L.
    """
    solution = np.array(right, matrix.dtype)
    size = max(1, len(matrix))
    for transposed in (b"T", b"N"):
        _call("trtrs", matrix, b"U", transposed, b"N", len(matrix), 1, matrix, size, solution, size)
        if noise is not None and transposed == b"T":
            solution += noise
    return solution


@compiled
def _mirror_lower(matrix):
    """Copy the lower triangle of a matrix, I×I, to its upper triangle."""
    for i in range(matrix.shape[0]):
        for j in range(i):
            matrix[j, i] = matrix[i, j]
