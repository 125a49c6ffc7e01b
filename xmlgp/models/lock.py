"""One writer at a time for a model folder."""

import contextlib
import os
import socket
from pathlib import Path

from xmlgp.errors import ModelFolderError
from xmlgp.models.arrays import make_folders, remove

try:
    import fcntl
except ImportError:  # not on Windows, where two writers of one folder at once are not kept apart
    fcntl = None

__all__ = ["alone_in"]

LOCK = ".lock"


@contextlib.contextmanager
def alone_in(path):
    """Keep other writers out of a model folder, which is made where missing, and removed if nothing is in it then.

    The lock is the system's: it goes with the process that holds it, however that ends. Readers need none.

    Parameters
    ----------
    path : path

    Raises
    ------
    ModelFolderError
        Where another process is in it; this one does not wait, for that could be hours.
    OSError
        Where the folder cannot be written.
    """
    file = Path(path) / LOCK
    made = make_folders(path)
    try:
        with _locked(file):
            try:
                yield
            finally:
                # While it is still locked: who comes later makes another.
                file.unlink(missing_ok=True)
    finally:
        remove([], made)


@contextlib.contextmanager
def _locked(file):
    while True:
        with os.fdopen(os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666), "r+") as stream:
            _lock(stream, file.parent)
            # Of a lock that was removed before it was locked here nobody else would know.
            if not fcntl or os.fstat(stream.fileno()).st_nlink:
                stream.truncate()
                stream.write(f"{os.getpid()} on {socket.gethostname()}\n")
                stream.flush()
                yield
                return


def _lock(stream, path):
    if not fcntl:
        return
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = stream.read(100).strip()
        named = f"process {holder}" if holder else "another process"
        raise ModelFolderError(
            f"{path}: {named} is writing this model; wait for its end or name another folder"
        ) from None
    except OSError:
        # Some network disks know no locks; two trainings into one folder are rare enough to do without there.
        pass
