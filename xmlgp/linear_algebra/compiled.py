"""The decorators that compile a loop to machine code."""

import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

import numba
from numba.core.base import BaseContext
from numba.core.caching import FunctionCache
from numba.core.runtime.nrt import rtsys

__all__ = ["compiled", "compiled_part", "is_compiled"]

#: Options of Numba. The floating-point transformations are for loops that use vector instructions. None assumes finite
#: numbers: training that diverges must produce NaN. Nothing passes these functions to others, for which Numba would
#: compile a wrapper of each.
OPTIONS: dict[str, Any] = {
    "nogil": True,
    "no_cfunc_wrapper": True,
    "fastmath": {"reassoc", "contract", "arcp", "nsz"},
    "error_model": "numpy",
}

Function = TypeVar("Function", bound=Callable[..., object])


class _Cache(FunctionCache):
    """The machine code of a function on disk. On a full disk the next process compiles the function again.

    Numba loads all that its compiler knows before it loads machine code, which needs nothing of that but the allocation
    of arrays. That would take a third of the time of `xmlgp predict` of one text. The compiler loads the rest itself.
    """

    def load_overload(self, sig: object, target_context: BaseContext) -> object:
        rtsys.initialize(target_context)  # type: ignore[no-untyped-call, unused-ignore]  # of Numba
        return self._load_overload(sig, target_context)  # type: ignore[no-untyped-call, unused-ignore]

    def save_overload(self, sig: object, data: object) -> None:
        with contextlib.suppress(OSError):
            super().save_overload(sig, data)  # type: ignore[no-untyped-call, unused-ignore]  # of Numba


#: Compile a function that other compiled functions call, and Python does not. Numba writes no wrapper for Python, which
#: takes as long as a short function, and the machine code is cached in that of the callers.
compiled_part: Callable[[Function], Function] = numba.njit(  # type: ignore[call-overload, unused-ignore]  # no such option
    no_cpython_wrapper=True, **OPTIONS
)


def compiled(function: Function) -> Function:
    """Compile a function of arrays and numbers on its first call; it runs without the global interpreter lock.

    Division by zero gives infinity, as in NumPy, because a check would prevent vector instructions. The machine code is
    cached beside the package, or in the user's cache folder.
    """
    dispatcher: Any = numba.njit(function, **OPTIONS)
    # RuntimeError: no folder is writable.
    with contextlib.suppress(RuntimeError):
        dispatcher._cache = _Cache(function)  # type: ignore[no-untyped-call, unused-ignore]  # of Numba
    return dispatcher  # type: ignore[no-any-return]


def is_compiled(function: Any) -> bool:
    """Return whether the machine code of a compiled function is in this process or on disk."""
    # A function without a folder for it has another cache.
    with contextlib.suppress(AttributeError):
        return bool(function.signatures or function._cache._cache_file._load_index())
    return False
