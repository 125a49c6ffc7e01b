"""What workers of a Dask cluster run: one task at a time, with as many threads as the worker has."""

import threading

from xmlgp import __version__
from xmlgp.runtime.threads import limit_cores, one_blas_thread

__all__ = ["Caller", "StorageError", "has_actor", "problem_of", "run"]

#: Held by the task that runs.
_one = threading.Lock()


class StorageError(Exception):
    """A file that a worker cannot read or write."""


def run(function, arguments):
    """Call a function; return its result and None, or None and its error.

    Parameters
    ----------
    function : callable
    arguments : tuple
    """
    from distributed import get_worker

    return _run(function, arguments, get_worker().state.nthreads)


def _run(function, arguments, threads):
    # Not raised: Dask would log each error of a user with its traceback.
    try:
        with _one, limit_cores(threads), one_blas_thread():
            return function(*arguments), None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return None, StorageError(f"{where}{error.strerror or error}")
    except Exception as error:
        return None, error


class Caller:
    """Calls functions in a worker, asked directly by another machine."""

    def __init__(self):
        from distributed import get_worker

        self._threads = get_worker().state.nthreads

    def call(self, function, *arguments):
        """Return what `run` returns."""
        return _run(function, arguments, self._threads)


def has_actor(key, dask_worker):
    """Return whether a worker has the actor with a key.

    Parameters
    ----------
    key : str
    dask_worker : distributed.Worker
        Dask passes it under this name.
    """
    return key in dask_worker.state.actors


def problem_of(found):
    """Return what is wrong with a worker, or None.

    Parameters
    ----------
    found : str or Exception
        The version of xmlgp that the worker has, or why it has none.
    """
    if isinstance(found, ModuleNotFoundError):
        return f"does not have the package {found.name}"
    if isinstance(found, Exception):
        return f"cannot import xmlgp ({found})"
    if found != __version__:
        return f"has xmlgp {found}, but this is xmlgp {__version__}"
    return None
