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

from filelock import FileLock, Timeout

from xmlgp.runtime.atomic_files import make_folders, remove_empty, report_errors_as

__all__ = ["LockedError", "NotALockError", "hold_lock"]

#: Seconds until another process counts as the holder of a lock: it may be about to release it.
PATIENCE_SECONDS = 0.2

#: Errors of flock on file systems that have none.
NO_FLOCK = (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK)


class LockedError(Exception):
    """Another process holds the lock."""


class NotALockError(OSError):
    """A file that is not a lock has the name of the lock."""


@contextlib.contextmanager
def hold_lock(file: Path, wait: bool = False) -> Iterator[None]:
    """Hold a lock within the `with` block. Missing folders are created before it, and removed after it if empty.

    The lock file, which is empty, is removed at the end. If another process holds the lock, this function waits for it,
    or raises LockedError. NotALockError is raised if the file is not a lock, OSError if it cannot be created.
    """
    missing = make_folders(file.parent)
    try:
        _check_is_lock(file)
        lock = FileLock(file, timeout=-1 if wait else PATIENCE_SECONDS, fallback_to_soft=False)
        with report_errors_as(file.parent, file, file.absolute()), contextlib.ExitStack() as held:
            try:
                # filelock would try without end.
                os.close(os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644))
                held.enter_context(lock)
                # Removed before the lock is released: afterwards it may be another process's lock.
                held.callback(_remove, file)
            except Timeout:
                raise LockedError from None
            except OSError as error:
                if error.errno not in NO_FLOCK:
                    raise
            closing = held.pop_all()
        with closing:
            yield
    finally:
        remove_empty(missing)


def _remove(file: Path) -> None:
    with contextlib.suppress(OSError):
        file.unlink()


def _check_is_lock(file: Path) -> None:
    """Raise NotALockError if a file is none that a process has left: its content would be lost."""
    with contextlib.suppress(FileNotFoundError):
        status = os.lstat(file)
        # The folder can be untrusted: a symbolic link could lead to any file, a named pipe would block, and an archive
        # can unpack the lock as a second name of any file.
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1 or status.st_size:
            raise NotALockError(errno.EINVAL, "this is not a lock file", os.fspath(file))
