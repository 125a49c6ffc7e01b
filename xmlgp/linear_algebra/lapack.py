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


def _address(value):
    return ctypes.cast(ctypes.pointer(value), ctypes.c_void_p)


def _integer(value):
    return _address(ctypes.c_int(value))


def _letter(value):
    return _address(ctypes.c_char(value))


def factorise_lower(matrix):
    """Replace the lower triangle of a matrix A, I×I, by that of L with L Lᵀ = A; return whether A has such a factor."""
    info = ctypes.c_int(0)
    size = len(matrix)
    potrf = _routine("potrf", matrix.dtype, 5)
    potrf(_letter(b"U"), _integer(size), matrix.ctypes.data, _integer(max(1, size)), _address(info))
    # OpenBLAS reports success for NaN.
    return info.value == 0 and bool(np.isfinite(np.diagonal(matrix)).all())


def invert_factorised(matrix):
    """Replace the lower triangle of L, I×I, by that of (L Lᵀ)⁻¹."""
    info = ctypes.c_int(0)
    size = len(matrix)
    potri = _routine("potri", matrix.dtype, 5)
    potri(_letter(b"U"), _integer(size), matrix.ctypes.data, _integer(max(1, size)), _address(info))


def invert_lower(matrix):
    """Replace the lower triangle of L, I×I, by that of L⁻¹."""
    info = ctypes.c_int(0)
    size = len(matrix)
    trtri = _routine("trtri", matrix.dtype, 6)
    trtri(_letter(b"U"), _letter(b"N"), _integer(size), matrix.ctypes.data, _integer(max(1, size)), _address(info))


def solve_factorised(matrix, right, noise=None):
    """Return (L Lᵀ)⁻¹ b, I, or with noise ε ~ N(0, I) the sample L⁻ᵀ (L⁻¹ b + ε) from N((L Lᵀ)⁻¹ b, (L Lᵀ)⁻¹).

    The lower triangle of the matrix, I×I, is L.
    """
    info = ctypes.c_int(0)
    solution = np.array(right, matrix.dtype)
    size = _integer(max(1, len(matrix)))
    trtrs = _routine("trtrs", matrix.dtype, 10)
    for transposed in (b"T", b"N"):
        order = _integer(len(matrix)), _integer(1)
        trtrs(
            *map(_letter, (b"U", transposed, b"N")), *order, matrix.ctypes.data, size, solution.ctypes.data, size,
            _address(info),
        )  # fmt: skip
        if noise is not None and transposed == b"T":
            solution += noise
    return solution


@compiled
def mirror_lower(matrix):
    """Copy the lower triangle of a matrix, I×I, to its upper triangle."""
    for i in range(matrix.shape[0]):
        for j in range(i):
            matrix[j, i] = matrix[i, j]
