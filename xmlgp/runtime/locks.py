"""A lock file protects its folder: only one process at a time holds the lock.

filelock takes the lock (flock), which the operating system releases when the process ends, however that happens. Where
a network file system has no flock, nothing is protected.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from xmlgp.runtime.atomic_files import make_folders, remove_empty, report_errors_as

__all__ = ["LockedError", "hold_lock"]

#: Seconds until another process counts as the holder of a lock: it may be about to release it.
PATIENCE_SECONDS = 0.2

#: Errors of flock on file systems that have none.
NO_FLOCK = (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK)


class LockedError(Exception):
    """Another process holds the lock."""


@contextlib.contextmanager
def hold_lock(file: Path, wait: bool = False) -> Iterator[None]:
    """Hold a lock within the `with` block. Missing folders are created before it, and removed after it if empty.

    The lock file, which is empty, is removed at the end. If another process holds the lock, this function waits for it,
    or raises LockedError. OSError is raised if the file is not a lock or cannot be created.
    """
    # Predictions hold none.
    from filelock import FileLock, Timeout  # noqa: PLC0415

    missing = make_folders(file.parent)
    lock = FileLock(file, timeout=-1 if wait else PATIENCE_SECONDS, fallback_to_soft=False)
    try:
        _check_is_lock(file)
        with report_errors_as(file.parent, file, file.absolute()):
            # filelock would try without end.
            os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o644))
            try:
                lock.acquire()
            except Timeout:
                raise LockedError from None
            except OSError as error:
                if error.errno not in NO_FLOCK:
                    raise
        try:
            yield
        finally:
            # Before the lock is released: afterwards it may be another process's lock.
            with contextlib.suppress(OSError):
                file.unlink()
            lock.release()
    finally:
        remove_empty(missing)


def _check_is_lock(file: Path) -> None:
    """Raise OSError if a file is none that a process has left: it would be removed."""
    with contextlib.suppress(FileNotFoundError):
        status = os.lstat(file)
        # A named pipe would block.
        if not stat.S_ISREG(status.st_mode) or status.st_size:
            raise OSError(errno.EINVAL, "this is not a lock file; remove it", os.fspath(file))
