"""Write files atomically: after a crash a file is complete or not there at all.

A file is locked (flock) while it is written. The operating system releases the lock of a killed process, so the next
one that writes to the same folder recognises abandoned files, and removes them.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import os
import re
import secrets
import shutil
import socket
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeAlias

if sys.platform == "win32":
    fcntl = None
else:
    import fcntl

__all__ = [
    "FOLDER_LOCK",
    "TEMPORARY_NAME",
    "atomic_write",
    "check_writable",
    "create_file",
    "make_folders",
    "remove_abandoned",
    "remove_empty",
    "report_errors_as",
    "sync_file",
    "temporary_name",
]

#: A file or folder by its name.
PathLike: TypeAlias = str | os.PathLike[str]

#: Matches the names of incomplete files and of temporary folders: eight digits of the machine, sixteen of chance.
TEMPORARY_NAME = re.compile(r"\.xmlgp-([0-9a-f]{8})[0-9a-f]{16}\.tmp")

#: The file of a temporary folder that is locked: network file systems cannot lock the folder.
FOLDER_LOCK = ".lock"

#: Age at which files of another machine are removed, or of this one before it was started again: on some network file
#: systems, a machine sees its own locks only.
ELSEWHERE_SECONDS = 7 * 24 * 60 * 60

#: Errors of fsync on file systems that have none.
NO_SYNC = (errno.EINVAL, errno.ENOTSUP)


@contextlib.contextmanager
def report_errors_as(path: PathLike, *files: PathLike) -> Iterator[None]:
    """Make errors about `files`, such as temporary ones, name `path`, which the user knows.

    Errors without a file name get that name too; errors about other files are unchanged.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename not in (None, *files, *[os.fspath(file) for file in files]):
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


@contextlib.contextmanager
def create_file(file: Path, shown_as: PathLike | None = None) -> Iterator[BinaryIO]:
    """Open a new binary file for writing, which must not exist; it is flushed to disk when the block ends.

    `shown_as` is the name in errors, by default that of the file.
    """
    with report_errors_as(shown_as or file, file), _synced(_create(file)) as stream:
        yield stream


def sync_file(descriptor: int) -> None:
    """Flush a file to disk, where the file system supports that."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in NO_SYNC:
            raise


@contextlib.contextmanager
def atomic_write(path: PathLike, shown_as: PathLike | None = None) -> Iterator[BinaryIO]:
    """Yield a temporary binary file beside `path` and rename it: a reader sees the old content or the new.

    A symbolic link is replaced, not followed. If the file cannot be written, OSError is raised, with the name
    `shown_as`, and the old file remains.
    """
    target = Path(path)
    shown_as = shown_as or path
    remove_abandoned(target.parent)
    with contextlib.ExitStack() as lock:
        temporary, descriptor = _create_temporary(target.parent, shown_as)
        try:
            with report_errors_as(shown_as, temporary):
                if sys.platform != "win32":
                    # The copy keeps the file locked until it has its name.
                    lock.callback(os.close, os.dup(descriptor))
                with _synced(descriptor) as stream:
                    yield stream
                os.replace(temporary, target)
        except BaseException:
            _remove(temporary)
            raise
    _sync_folder(target.parent)


def remove_abandoned(folder: Path) -> None:
    """Remove the temporary files and folders that killed processes of this user left in a folder; ignore errors."""
    if sys.platform == "win32":
        return
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if match := TEMPORARY_NAME.fullmatch(name):
                with contextlib.suppress(OSError):
                    _remove_if_abandoned(folder / name, match[1])


def check_writable(folder: Path, shown_as: PathLike | None = None) -> None:
    """Raise OSError if no file can be created in a folder, so that long work fails before it starts.

    `shown_as` is the name in errors, by default that of the folder.
    """
    remove_abandoned(folder)
    probe = temporary_name(folder)
    try:
        with create_file(probe, shown_as or folder):
            pass
    finally:
        _remove(probe)


def make_folders(folder: Path) -> list[Path]:
    """Make a folder and those that it is in; return the ones that were missing, the innermost first."""
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        remove_empty(missing)
        raise
    return missing


def remove_empty(folders: Iterable[Path]) -> None:
    """Remove the folders that are empty; ignore errors."""
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()


def temporary_name(folder: Path) -> Path:
    """Return an unused name in a folder that matches `TEMPORARY_NAME`."""
    return folder / f".xmlgp-{_machine()}{secrets.token_hex(8)}.tmp"


@functools.cache
def _machine() -> str:
    """Return eight digits for this machine since it was started, whose containers see each other's locks."""
    try:
        identity = Path("/proc/sys/kernel/random/boot_id").read_bytes()
    except OSError:
        identity = socket.gethostname().encode()
    return hashlib.sha256(identity).hexdigest()[:8]


def _create(file: Path) -> int:
    # tempfile would deny other users what their umask grants them.
    return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)


@contextlib.contextmanager
def _synced(descriptor: int) -> Iterator[BinaryIO]:
    """Yield the stream of a descriptor, which is flushed to disk and closed when the block ends."""
    with os.fdopen(descriptor, "wb") as stream:
        yield stream
        stream.flush()
        sync_file(stream.fileno())


def _create_temporary(folder: Path, shown_as: PathLike) -> tuple[Path, int]:
    """Create a temporary file; return it and its descriptor, which is locked where the file system has locks."""
    while True:
        file = temporary_name(folder)
        with report_errors_as(shown_as, file):
            descriptor = _create(file)
        if sys.platform == "win32":
            return file, descriptor
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(descriptor).st_nlink:
                return file, descriptor
        except BlockingIOError:
            pass
        except OSError:
            return file, descriptor
        # Before it was locked, another process took it for an abandoned file, and removes it by its name.
        os.close(descriptor)


def _remove_if_abandoned(path: Path, machine: str) -> None:
    """Remove a temporary file or folder unless a living process may be using it; raise OSError if that holds a lock."""
    if sys.platform == "win32":
        return
    status = path.lstat()
    folder = stat.S_ISDIR(status.st_mode)
    if status.st_uid != os.geteuid() or not (folder or stat.S_ISREG(status.st_mode)):
        return
    if machine != _machine() and time.time() - status.st_mtime < ELSEWHERE_SECONDS:
        return
    file = path / FOLDER_LOCK if folder else path
    # The process of a folder without a lock is about to take one, or was killed before that or while it removed it.
    descriptor = os.open(file, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | (os.O_CREAT if folder else 0))
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Another process may have removed the file meanwhile, and a third one may write a new file of that name.
        if not os.fstat(descriptor).st_nlink:
            return
        if folder:
            shutil.rmtree(path)
        else:
            path.unlink()
    finally:
        os.close(descriptor)


def _remove(file: Path) -> None:
    # An error here would hide the one that led here.
    with contextlib.suppress(OSError):
        file.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Flush the entries of a folder to disk, where the file system supports that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
