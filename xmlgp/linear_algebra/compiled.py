"""The decorator that compiles a loop to machine code."""

import contextlib

import numba

__all__ = ["compiled"]

#: Floating-point transformations that the compiler may use, so that loops use vector instructions. It may not assume
#: finite numbers: training that diverges must produce NaN.
ARITHMETIC = {"reassoc", "contract", "arcp", "nsz"}


def compiled(function):
    """Compile a function of arrays and numbers on its first call; it runs without the global interpreter lock.

    Division by zero gives infinity, as in NumPy, because a check would prevent vector instructions. The machine code is
    cached beside the package, or in the user's cache folder.
    """
    options = {"nogil": True, "fastmath": ARITHMETIC, "error_model": "numpy"}
    try:
        dispatcher = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no folder is writable
        return numba.njit(**options)(function)
    cache = dispatcher._cache
    save = cache.save_overload

    def save_if_possible(*args):
        # On a full disk the function works and is compiled again by the next process.
        with contextlib.suppress(OSError):
            save(*args)

    cache.save_overload = save_if_possible
    return dispatcher
