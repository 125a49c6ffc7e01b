"""The decorator that compiles a loop to machine code."""

import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

import numba
from numba.core.base import BaseContext
from numba.core.caching import FunctionCache
from numba.core.runtime.nrt import rtsys

__all__ = ["compiled", "is_compiled"]

#: Floating-point transformations that the compiler may use, so that loops use vector instructions. It may not assume
#: finite numbers: training that diverges must produce NaN.
ARITHMETIC = {"reassoc", "contract", "arcp", "nsz"}

Function = TypeVar("Function", bound=Callable[..., object])


class _Cache(FunctionCache):
    """The machine code of a function on disk. On a full disk the next process compiles the function again.

    Numba loads all that its compiler knows before it loads machine code, which needs nothing of that but the allocation
    of arrays. That would take a third of the time of `xmlgp predict` of one text. The compiler loads the rest itself.
    """

    def load_overload(self, sig: object, target_context: BaseContext) -> object:
        rtsys.initialize(target_context)  # type: ignore[no-untyped-call, unused-ignore]  # of Numba
        with self._guard_against_spurious_io_errors():  # type: ignore[no-untyped-call, unused-ignore]
            return self._load_overload(sig, target_context)  # type: ignore[no-untyped-call, unused-ignore]

    def save_overload(self, sig: object, data: object) -> None:
        with contextlib.suppress(OSError):
            super().save_overload(sig, data)  # type: ignore[no-untyped-call, unused-ignore]  # of Numba


def compiled(function: Function) -> Function:
    """Compile a function of arrays and numbers on its first call; it runs without the global interpreter lock.

    Division by zero gives infinity, as in NumPy, because a check would prevent vector instructions. The machine code is
    cached beside the package, or in the user's cache folder.
    """
    # Nothing passes these functions to others, for which Numba would compile a wrapper of each.
    # The types of Numba lack the option.
    dispatcher = numba.njit(  # type: ignore[call-overload, unused-ignore]
        function, nogil=True, no_cfunc_wrapper=True, fastmath=ARITHMETIC, error_model="numpy"
    )
    # RuntimeError: no folder is writable.
    with contextlib.suppress(RuntimeError):
        dispatcher._cache = _Cache(function)  # type: ignore[no-untyped-call, unused-ignore]  # of Numba
    result: Function = dispatcher
    return result


def is_compiled(function: Any) -> bool:
    """Return whether the machine code of a compiled function is in this process or on disk."""
    # A function without a folder for it has another cache.
    with contextlib.suppress(AttributeError):
        return bool(function.signatures or function._cache._cache_file._load_index())
    return False
