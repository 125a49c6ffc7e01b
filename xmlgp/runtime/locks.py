"""A lock file protects its folder: only one process at a time holds the lock.

filelock takes the lock (flock), which the operating system releases when the process ends, however that happens. This
module adds who holds the lock, and leaves no file and no empty folder behind. Where a network file system has no flock,
nothing is protected.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import socket
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

from filelock import FileLock, Timeout

if sys.platform == "win32":
    fcntl = None
else:
    import fcntl

from xmlgp.runtime.atomic_files import (
    FOLDER_LOCK,
    make_folders,
    remove_abandoned,
    remove_empty,
    report_errors_as,
    temporary_name,
)

__all__ = ["LockedError", "NotALockError", "hold_lock", "lock_holder", "temporary_folder"]

#: Returns a context manager within which a process waits for a lock.
Waiting: TypeAlias = Callable[[], contextlib.AbstractContextManager[object]]

#: The content of a lock file: the process that holds it.
HOLDER = re.compile(rb"([0-9]{1,20}) on ([A-Za-z0-9._-]{1,100})\n")

#: Bytes that are read of a lock file, more than `HOLDER` has.
HOLDER_BYTES = 200

#: Attempts to create a folder that other processes remove at the same time.
MAX_ATTEMPTS = 1000

#: Seconds between two attempts to take a lock, and until another process counts as its holder: `lock_holder` holds it
#: for a moment.
POLL_SECONDS = 0.01
PATIENCE_SECONDS = 0.2

#: Errors of flock on file systems that have none.
NO_FLOCK = (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK)


class LockedError(Exception):
    """Another process holds the lock: `holder` says which and where, as in "process 123 on machine"."""

    def __init__(self, holder: str) -> None:
        super().__init__(f"{holder} holds the lock")
        self.holder = holder


class NotALockError(OSError):
    """A file that is not a lock has the name of the lock."""


@contextlib.contextmanager
def hold_lock(file: str | os.PathLike[str], waiting: Waiting | None = None) -> Iterator[None]:
    """Hold a lock within the `with` block. Missing folders are created before it, and removed after it if empty.

    The lock file is removed at the end. If another process holds the lock, this function waits within the context
    manager `waiting()`, or raises LockedError if `waiting` is None. NotALockError is raised if the file is not a lock,
    OSError if it or its folder cannot be created.
    """
    file = Path(file)
    lock = FileLock(
        file, poll_interval=POLL_SECONDS, thread_local=False, fallback_to_soft=False, on_acquired=_write_holder
    )
    missing: list[Path] = []
    try:
        _acquire(lock, file, missing, waiting)
        try:
            yield
        finally:
            # Remove the file before the lock is released: afterwards it may be another process's lock.
            with contextlib.suppress(OSError):
                file.unlink()
            lock.release()
    finally:
        remove_empty(missing)


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


def lock_holder(file: str | os.PathLike[str]) -> str | None:
    """Return the process that holds the lock, as in `LockedError.holder`, or None."""
    # filelock has no such question: it would take the lock, for which it needs permission to write.
    if sys.platform == "win32":
        return None
    with contextlib.suppress(OSError):
        if stat.S_ISREG(os.lstat(file).st_mode):
            with open(file, "rb") as stream:
                try:
                    fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return _read_holder(Path(file))
    return None


def _acquire(lock: FileLock, file: Path, missing: list[Path], waiting: Waiting | None) -> None:
    """Take the lock, if the file system has locks; add the folders that are created to `missing`."""
    for attempts_left in reversed(range(MAX_ATTEMPTS)):
        is_checked = False
        try:
            missing += make_folders(file.parent)
            _check_is_lock(file)
            with report_errors_as(file.parent, file, file.absolute()):
                try:
                    lock.acquire(timeout=PATIENCE_SECONDS)
                except Timeout:
                    if not file.exists():
                        is_checked = True
                        _create(file)
                        continue
                    if waiting is None:
                        raise LockedError(_read_holder(file)) from None
                    with waiting():
                        lock.acquire()
            return
        except (FileNotFoundError, FileExistsError):
            # Another process has just removed the folder. If that persists, it has another cause.
            if not attempts_left or (is_checked and file.parent.is_dir()):
                raise
        except OSError as error:
            # Two processes in one folder of a network file system are rare.
            if error.errno not in NO_FLOCK:
                raise
            return


def _create(file: Path) -> None:
    """Create a lock file; OSError if that is impossible. filelock takes ENOENT for a race and tries without end."""
    os.close(os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644))


def _check_is_lock(file: Path) -> None:
    """Raise NotALockError if the file is none of a process that holds or held the lock: its content would be lost."""
    try:
        status = os.lstat(file)
    except FileNotFoundError:
        return
    # The folder can be untrusted: a symbolic link could lead to any file, a named pipe would block, and an archive can
    # unpack the lock as a second name of any file.
    if stat.S_ISREG(status.st_mode) and status.st_nlink <= 1:
        content = _start(file)
        if not content or HOLDER.fullmatch(content):
            return
    raise NotALockError(errno.EINVAL, "this is not a lock file", os.fspath(file))


def _write_holder(descriptor: int) -> None:
    # On a full disk, later writes fail and report it.
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()} on {socket.gethostname()}\n".encode())


def _read_holder(file: Path) -> str:
    try:
        holder = HOLDER.fullmatch(_start(file))
    except OSError:
        holder = None
    return "process {} on {}".format(*map(bytes.decode, holder.groups())) if holder else "another process"


def _start(file: Path) -> bytes:
    with open(file, "rb") as stream:
        return stream.read(HOLDER_BYTES)
