"""LAPACK of SciPy, called so that other threads run meanwhile.

SciPy's own wrappers hold Python's lock while they compute: a factorisation beside other work would stop that work.
Matrices are in C's order here. Fortran sees their transposes, so what it calls upper is our lower triangle.
"""

import ctypes
import functools

import numpy as np
from scipy.linalg import cython_lapack

from xmlgp.linear_algebra.compiled import compiled

__all__ = ["factorise_lower", "invert_factorised", "mirror_lower", "solve_factorised"]

PREFIX = {np.dtype(np.float32): "s", np.dtype(np.float64): "d"}


@functools.cache
def _routine(name, dtype, arguments):
    """Return a routine that SciPy offers to Cython, as a function of addresses."""
    capsule = cython_lapack.__pyx_capi__[PREFIX[dtype] + name]
    get_name, get_pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    # Functions of this type let other threads run, those of PYFUNCTYPE would not.
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * arguments)(get_pointer(capsule, get_name(capsule)))


def _address(value):
    return ctypes.cast(ctypes.pointer(value), ctypes.c_void_p)


def _integer(value):
    return _address(ctypes.c_int(value))


def _letter(value):
    return _address(ctypes.c_char(value))


def factorise_lower(matrix):
    """Replace the lower triangle by that of L with L Lᵀ equal to the matrix; return whether there is one."""
    info = ctypes.c_int(0)
    size = len(matrix)
    potrf = _routine("potrf", matrix.dtype, 5)
    potrf(_letter(b"U"), _integer(size), matrix.ctypes.data, _integer(max(1, size)), _address(info))
    # OpenBLAS factorises NaN without complaint.
    return info.value == 0 and bool(np.isfinite(np.diagonal(matrix)).all())


def invert_factorised(matrix):
    """Replace the lower triangle, that of L, by that of (L Lᵀ)⁻¹."""
    info = ctypes.c_int(0)
    size = len(matrix)
    potri = _routine("potri", matrix.dtype, 5)
    potri(_letter(b"U"), _integer(size), matrix.ctypes.data, _integer(max(1, size)), _address(info))


def solve_factorised(matrix, right, noise=None):
    """Return (L Lᵀ)⁻¹ b, or with ε L⁻ᵀ (L⁻¹ b + ε): for a standard normal ε a draw from N((L Lᵀ)⁻¹ b, (L Lᵀ)⁻¹).

    Parameters
    ----------
    matrix : ndarray, I×I
        L in its lower triangle.
    right, noise : ndarray, I
        b and ε.
    """
    info = ctypes.c_int(0)
    found = np.array(right, matrix.dtype)
    size = _integer(max(1, len(matrix)))
    trtrs = _routine("trtrs", matrix.dtype, 10)
    for transposed in (b"T", b"N"):
        order = _integer(len(matrix)), _integer(1)
        trtrs(
            *map(_letter, (b"U", transposed, b"N")), *order, matrix.ctypes.data, size, found.ctypes.data, size,
            _address(info),
        )  # fmt: skip
        if noise is not None and transposed == b"T":
            found += noise
    return found


@compiled
def mirror_lower(matrix):
    """Copy the lower triangle into the upper one."""
    for i in range(matrix.shape[0]):
        for j in range(i):
            matrix[j, i] = matrix[i, j]
