"""A lock file protects its folder: only one process at a time holds the lock.

The operating system releases the lock (flock) when its process ends, however that happens. Without flock, as on some
systems and network file systems, nothing is protected.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import re
import shutil
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from xmlgp.runtime.atomic_files import FOLDER_LOCK, remove_abandoned, report_errors_as, temporary_name

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

__all__ = ["LockedError", "NotALockError", "hold_lock", "lock_holder", "temporary_folder"]

#: The content of a lock file: the process that holds it.
HOLDER = re.compile(rb"([0-9]{1,20}) on ([A-Za-z0-9._-]{1,100})\n")

#: Attempts to create a folder that other processes remove at the same time.
MAX_ATTEMPTS = 1000

#: Longest pause until the next attempt to lock what `lock_holder` holds for a moment, and seconds until the last one.
PAUSE_SECONDS = 0.01
PATIENCE_SECONDS = 10


class LockedError(Exception):
    """Another process holds the lock: `holder` says which and where, as in "process 123 on machine"."""

    def __init__(self, holder):
        super().__init__(f"{holder} holds the lock")
        self.holder = holder


class NotALockError(OSError):
    """Something other than a regular file has the name of the lock."""


@contextlib.contextmanager
def hold_lock(file, waiting=None):
    """Hold a lock within the `with` block. Missing folders are created before it, and removed after it if empty.

    The lock file is removed at the end. If another process holds the lock, this function waits within the context
    manager `waiting()`, or raises LockedError if `waiting` is None. NotALockError if the file is not a regular one,
    OSError if it or its folder cannot be created.
    """
    file = Path(file)
    created = []
    descriptor = None
    try:
        descriptor = _acquire(file, created, waiting)
        yield
    finally:
        if descriptor is not None:
            # Remove the file before the lock is released: afterwards it may be another process's lock.
            with contextlib.suppress(OSError):
                file.unlink(missing_ok=True)
            os.close(descriptor)
        for folder in created:
            with contextlib.suppress(OSError):
                folder.rmdir()


@contextlib.contextmanager
def temporary_folder(parent: Path) -> Iterator[Path]:
    """Yield a new folder in another one, which only this user can read, and remove it at the end.

    Those that killed processes left there are removed.
    """
    remove_abandoned(parent)
    folder = temporary_name(parent)
    try:
        with report_errors_as(parent, folder):
            folder.mkdir(0o700)
        # Another process may take the folder for one that is left, and removes it or gives it up.
        with hold_lock(folder / FOLDER_LOCK, contextlib.nullcontext):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def lock_holder(file):
    """Return the process that holds the lock, as in `LockedError.holder`, or None."""
    try:
        if fcntl and stat.S_ISREG(os.lstat(file).st_mode):
            with open(file, "rb", buffering=0) as stream:
                try:
                    fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return _read_holder(stream.fileno())
    except OSError:
        pass
    return None


def _acquire(file, created, waiting):
    """Return the descriptor of the locked file, or None without flock; add created folders to `created`."""
    attempts = 0
    while True:
        try:
            created += [folder for folder in (file.parent, *file.parent.parents) if not folder.exists()]
            file.parent.mkdir(parents=True, exist_ok=True)
            if fcntl is None:
                return None
            descriptor = _open(file)
        except (FileNotFoundError, FileExistsError):
            # Another process has just removed the folder. If that persists, it has another cause.
            attempts += 1
            if attempts == MAX_ATTEMPTS:
                raise
            continue
        try:
            _lock(descriptor, waiting)
            # A file that its former holder has removed locks nothing: a third process would create a new one.
            if os.fstat(descriptor).st_nlink:
                _check_ours(descriptor, file)
                _write_holder(descriptor)
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _open(file):
    # The folder can be untrusted: a symbolic link could lead to any file, a named pipe would block.
    if os.path.lexists(file) and not stat.S_ISREG(os.lstat(file).st_mode):
        raise NotALockError(errno.EINVAL, "this is not a lock file", os.fspath(file))
    with report_errors_as(file.parent, file):
        return os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _check_ours(descriptor: int, file: Path) -> None:
    """Raise NotALockError for a file of somebody else: what is in it would be lost."""
    content = os.pread(descriptor, 200, 0)
    # An archive of a stranger can unpack the lock as a second name of any file.
    if os.fstat(descriptor).st_nlink > 1 or (content and not HOLDER.fullmatch(content)):
        raise NotALockError(errno.EINVAL, "this is not a lock file", os.fspath(file))


def _lock(descriptor, waiting):
    # Some network file systems have no locks; two processes in one folder are rare enough there.
    with contextlib.suppress(OSError):
        if _try_lock(descriptor, fcntl.LOCK_EX):
            return
        if waiting:
            with waiting():
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            return
        # Only a writer keeps others from sharing the lock; a look ends at once.
        deadline = time.monotonic() + PATIENCE_SECONDS
        while _try_lock(descriptor, fcntl.LOCK_SH) and time.monotonic() < deadline:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            time.sleep(random.uniform(0, PAUSE_SECONDS))  # noqa: S311
            if _try_lock(descriptor, fcntl.LOCK_EX):
                return
        raise LockedError(_read_holder(descriptor))


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write_holder(descriptor):
    # On a full disk, later writes fail and report it.
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()} on {socket.gethostname()}\n".encode())


def _read_holder(descriptor):
    holder = HOLDER.fullmatch(os.pread(descriptor, 200, 0))
    return "process {} on {}".format(*map(bytes.decode, holder.groups())) if holder else "another process"
