"""Loops that are compiled to machine code when first called."""

import contextlib

import numba

__all__ = ["compiled"]

#: What the compiler may assume of floating point numbers so that loops use vector instructions. Not that numbers are
#: finite: a training that diverges has to be noticed.
ARITHMETIC = {"reassoc", "contract", "arcp", "nsz"}


def compiled(function):
    """Compile a function of arrays and numbers; other threads run while it does.

    Division by zero gives infinity, as in NumPy: a check for it would keep loops from vector instructions. The machine
    code is kept beside the package, or in the user's cache folder, for the next process.

    Parameters
    ----------
    function : callable
    """
    options = {"nogil": True, "fastmath": ARITHMETIC, "error_model": "numpy"}
    try:
        dispatcher = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # there is no folder to keep it in
        return numba.njit(**options)(function)
    cache = dispatcher._cache
    save = cache.save_overload

    def save_if_possible(*args):
        # On a full disk it is compiled anew the next time.
        with contextlib.suppress(OSError):
            save(*args)

    cache.save_overload = save_if_possible
    return dispatcher
