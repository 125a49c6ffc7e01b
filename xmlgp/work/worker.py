"""What workers of a Dask cluster run: one block of work, on one thread."""

import threading
from pathlib import Path

from xmlgp.errors import ClusterError
from xmlgp.runtime.threads import one_blas_thread, single_thread
from xmlgp.version import __version__
from xmlgp.work import opened
from xmlgp.work.files import pack, unpack

__all__ = ["StorageError", "run"]


class StorageError(Exception):
    """A file that a worker cannot read or write; Dask runs the block again, perhaps elsewhere."""


class _shared:
    #: What the blocks of one `map` share, by the token of that.
    lock, values = threading.Lock(), {}


def run(version, token, shared, function, block, folder):
    """Return the packed result of `function(shared, *block)` and None, or None and its error.

    Other errors are returned because Dask would log those of a user with their tracebacks.
    """
    from distributed import get_worker

    worker = f"worker {get_worker().address} of the Dask cluster"
    if version != __version__:
        return None, ClusterError(f"{worker} has xmlgp {__version__}, but this is xmlgp {version}")
    try:
        with single_thread(), one_blas_thread():
            with _shared.lock:
                if token not in _shared.values:
                    _shared.values.clear()
                    _shared.values[token] = opened(unpack(shared))
                value = _shared.values[token]
            return pack(function(value, *unpack(block)), Path(folder), passing=True), None
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        raise StorageError(f"{worker} cannot use the shared storage: {reason}") from None
    except Exception as error:
        return None, error
