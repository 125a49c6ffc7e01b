"""The decorators that compile a loop to machine code."""

import contextlib
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, InTreeCacheLocator
from numba.core.runtime.nrt import rtsys

__all__ = ["compiled", "compiled_part"]

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


class _InPackage(InTreeCacheLocator):  # type: ignore[misc, unused-ignore]  # of Numba
    """The folder of machine code beside a function, which need not be writable."""

    def ensure_cache_path(self) -> None:
        """Accept the folder."""


class _Folders(CompileResultCacheImpl):  # type: ignore[misc, unused-ignore]  # of Numba
    """The folders for new machine code, of which Numba chooses the first that is writable, or the last."""

    _locator_classes = [*CompileResultCacheImpl._locator_classes, _InPackage]


class _Cache(FunctionCache):  # type: ignore[misc, unused-ignore]  # of Numba
    """The machine code of a function on disk: what was compiled here, and what the package was built with.

    On a full disk, or where no folder is writable, the next process compiles the function again.

    Numba loads all that its compiler knows before it loads machine code, which needs nothing of that but the allocation
    of arrays. That would take a third of the time of `xmlgp predict` of one text. The compiler loads the rest itself.
    """

    _impl_class = _Folders

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call, unused-ignore]  # of Numba
        built: Any = _InPackage(function, inspect.getfile(function))  # type: ignore[no-untyped-call, unused-ignore]
        files: Any = IndexDataCacheFile
        self._built = files(built.get_cache_path(), self._impl.filename_base, built.get_source_stamp())

    def load_overload(self, sig: object, target_context: Any) -> object:
        rtsys.initialize(target_context)  # type: ignore[no-untyped-call, unused-ignore]  # of Numba
        key = self._index_key(sig, target_context.codegen())  # type: ignore[no-untyped-call, unused-ignore]
        found: Any = None
        # Another user's folder may not be readable.
        with contextlib.suppress(OSError):
            found = self._cache_file.load(key) or self._built.load(key)  # type: ignore[no-untyped-call, unused-ignore]
        return found and self._impl.rebuild(target_context, found)

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
    # RuntimeError: the function has no source file.
    with contextlib.suppress(RuntimeError, OSError):
        dispatcher._cache = _Cache(function)
    return dispatcher  # type: ignore[no-any-return]
