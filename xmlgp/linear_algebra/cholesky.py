"""Cholesky factors by the LAPACK routines of SciPy, called without the global interpreter lock.

SciPy's Python wrappers have the same speed and results, but hold the lock: factorising 3,000 rows stops all other
threads for 0.68 of 0.69 seconds. NumPy's functions release it, but have no inverse by a factor: factor and inverse take
twice as long for 100 rows, 2.5 to 6 times as long for 200 to 1,000, and their last digits differ.

Matrices are in C order. Fortran sees their transposes, so its upper triangle is the lower triangle here.
"""

import ctypes
import functools
from collections.abc import Callable

import numpy as np
import scipy.linalg  # noqa: F401 -- loads its BLAS, before that is limited to one thread
from numba.extending import get_cython_function_address
from numpy.typing import NDArray

from xmlgp.linear_algebra.compiled import compiled
from xmlgp.runtime.errors import NumericalError

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

#: The first letter of a LAPACK routine.
PREFIX = {np.dtype(np.float32): "s", np.dtype(np.float64): "d"}


class Factorised:
    """The lower triangular `factor` L of a matrix C = L Lᵀ, M×M, its `inverse` and `log_determinant`, log |C|."""

    def __init__(self, factor: NDArray[np.floating]) -> None:
        self.factor = factor
        self.log_determinant = 2 * float(np.log(np.diagonal(factor)).sum(dtype=np.float64))
        self.inverse = factor.copy()
        _call("potri", self.inverse, b"U", len(factor), self.inverse, max(1, len(factor)))
        _mirror_lower(self.inverse)


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
        factor = np.tril(matrix)
        if factorise_lower(factor):
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


@functools.cache
def _routine(name: str, dtype: np.dtype[np.floating], arguments: int) -> Callable[..., None]:
    """Return the LAPACK routine of SciPy's Cython interface for a dtype as a function of addresses."""
    address = get_cython_function_address("scipy.linalg.cython_lapack", PREFIX[dtype] + name)
    # CFUNCTYPE releases the interpreter lock during a call; PYFUNCTYPE does not.
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * arguments)(address)


def _call(name: str, matrix: NDArray[np.floating], *arguments: bytes | int | NDArray[np.floating]) -> int:
    """Call a LAPACK routine for the dtype of a matrix, with letters, integers and arrays; return its `info`."""
    info = ctypes.c_int(0)
    addresses = [_address(argument) for argument in arguments]
    _routine(name, matrix.dtype, len(addresses) + 1)(*addresses, ctypes.byref(info))
    return info.value


def _address(argument: bytes | int | NDArray[np.floating]) -> object:
    if isinstance(argument, np.ndarray):
        return argument.ctypes.data
    return ctypes.byref(ctypes.c_int(argument) if isinstance(argument, int) else ctypes.c_char(argument))


def factorise_lower(matrix: NDArray[np.floating]) -> bool:
    """Replace the lower triangle of a matrix A, I×I, by that of L with L Lᵀ = A; return whether A has such a factor."""
    info = _call("potrf", matrix, b"U", len(matrix), matrix, max(1, len(matrix)))
    # OpenBLAS reports success for NaN.
    return info == 0 and bool(np.isfinite(np.diagonal(matrix)).all())


def invert_lower(matrix: NDArray[np.floating]) -> None:
    """Replace the lower triangle of L, I×I, by that of L⁻¹."""
    _call("trtri", matrix, b"U", b"N", len(matrix), matrix, max(1, len(matrix)))


def solve_factorised(
    matrix: NDArray[np.floating], right: NDArray[np.floating], noise: NDArray[np.floating] | None = None
) -> NDArray[np.floating]:
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
def _mirror_lower(matrix: NDArray[np.floating]) -> None:
    """Copy the lower triangle of a matrix, I×I, to its upper triangle."""
    for i in range(matrix.shape[0]):
        for j in range(i):
            matrix[j, i] = matrix[i, j]
