"""Numba's compiler in the processes of the suite: one compiles a function, and the others read what it has cached.

With empty caches all of them would compile the same functions at the same time, for a minute each.
"""

import contextlib
import functools
import hashlib
from pathlib import Path

from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

__all__ = ["compile_once"]


@contextlib.contextmanager
def compile_once(folder):
    """Let each function be compiled by one process at a time, of those that call this with the same folder (Path)."""
    if fcntl is None:
        yield
        return
    folder.mkdir(exist_ok=True)
    compile_function = Dispatcher.compile
    #: Functions that this process is compiling: the compilation of one reaches others, and may return to it.
    compiling = set()

    @functools.wraps(compile_function)
    def compile_alone(dispatcher, signature):
        function = dispatcher.py_func
        name = f"{function.__module__}.{function.__qualname__}"
        # Numba takes its own lock first, too: with another order two threads could wait for each other.
        with global_compiler_lock:
            if name in compiling:
                return compile_function(dispatcher, signature)
            compiling.add(name)
            try:
                with open(Path(folder, hashlib.sha256(name.encode()).hexdigest()), "w") as file:
                    fcntl.flock(file, fcntl.LOCK_EX)
                    return compile_function(dispatcher, signature)
            finally:
                compiling.discard(name)

    Dispatcher.compile = compile_alone
    try:
        yield
    finally:
        Dispatcher.compile = compile_function
