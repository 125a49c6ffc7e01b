"""LAPACK routines of SciPy, called without the global interpreter lock.

SciPy's own wrappers hold the lock, so a factorisation would stop all other threads. Matrices are in C order. Fortran
sees their transposes, so its upper triangle is the lower triangle here.
"""

import ctypes
import functools

import numpy as np
from scipy.linalg import cython_lapack

from xmlgp.linear_algebra.compiled import compiled

__all__ = ["factorise_lower", "invert_factorised", "invert_lower", "mirror_lower", "solve_factorised"]

PREFIX = {np.dtype(np.float32): "s", np.dtype(np.float64): "d"}


@functools.cache
def _routine(name, dtype, arguments):
    """Return a LAPACK routine of SciPy's Cython interface as a function of addresses."""
    capsule = cython_lapack.__pyx_capi__[PREFIX[dtype] + name]
    get_name, get_pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    # CFUNCTYPE releases the interpreter lock during a call; PYFUNCTYPE does not.
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * arguments)(get_pointer(capsule, get_name(capsule)))


def _call(name, matrix, *arguments):
    """Call the routine for the dtype of a matrix, with letters, integers and arrays; return its `info`."""
    info, kinds = ctypes.c_int(0), {bytes: ctypes.c_char, int: ctypes.c_int}
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


def invert_factorised(matrix):
    """Replace the lower triangle of L, I×I, by that of (L Lᵀ)⁻¹."""
    _call("potri", matrix, b"U", len(matrix), matrix, max(1, len(matrix)))


def invert_lower(matrix):
    """Replace the lower triangle of L, I×I, by that of L⁻¹."""
    _call("trtri", matrix, b"U", b"N", len(matrix), matrix, max(1, len(matrix)))


def solve_factorised(matrix, right, noise=None):
    """Return (L Lᵀ)⁻¹ b, I, or with noise ε ~ N(0, I) the sample L⁻ᵀ (L⁻¹ b + ε) from N((L Lᵀ)⁻¹ b, (L Lᵀ)⁻¹).

    The lower triangle of the matrix, I×I, is L.
    """
    solution, size = np.array(right, matrix.dtype), max(1, len(matrix))
    for transposed in (b"T", b"N"):
        _call("trtrs", matrix, b"U", transposed, b"N", len(matrix), 1, matrix, size, solution, size)
        if noise is not None and transposed == b"T":
            solution += noise
    return solution


@compiled
def mirror_lower(matrix):
    """Copy the lower triangle of a matrix, I×I, to its upper triangle."""
    for i in range(matrix.shape[0]):
        for j in range(i):
            matrix[j, i] = matrix[i, j]
