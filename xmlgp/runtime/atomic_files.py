"""Write files atomically: after a crash a file is complete or not there at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeAlias

__all__ = [
    "TEMPORARY",
    "atomic_write",
    "create_file",
    "make_folders",
    "remove_abandoned",
    "remove_empty",
    "report_errors_as",
    "temporary_folder",
]

#: A file or folder by its name.
PathLike: TypeAlias = str | os.PathLike[str]

#: The names of incomplete files and of temporary folders, each with other digits.
TEMPORARY = ".xmlgp-{}.tmp"

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
    with report_errors_as(shown_as or file, file), open(file, "xb") as stream:
        yield stream
        stream.flush()
        try:
            os.fsync(stream.fileno())
        except OSError as error:
            if error.errno not in NO_SYNC:
                raise


@contextlib.contextmanager
def atomic_write(path: PathLike) -> Iterator[BinaryIO]:
    """Yield a temporary binary file beside `path` and rename it: a reader sees the old content or the new.

    A symbolic link is replaced, not followed. If the file cannot be written, OSError is raised and the old file
    remains.
    """
    target = Path(path)
    temporary = _temporary_name(target.parent)
    try:
        with create_file(temporary, path) as stream:
            yield stream
        with report_errors_as(path, temporary):
            os.replace(temporary, target)
    except BaseException:
        _remove(temporary)
        raise


@contextlib.contextmanager
def temporary_folder(parent: Path) -> Iterator[Path]:
    """Yield a new folder, which only this user can read, in another one, for files that are moved there when complete.

    It is removed at the end. The other one is made if it is missing, and then removed too if it is empty.
    """
    missing = make_folders(parent)
    folder = _temporary_name(parent)
    try:
        with report_errors_as(parent, folder):
            folder.mkdir(0o700)
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        remove_empty(missing)


def remove_abandoned(folder: Path) -> None:
    """Remove the temporary files that killed processes left in a folder, which no process writes now."""
    for path in folder.glob(TEMPORARY.format("*")):
        _remove(path)


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


def _temporary_name(folder: Path) -> Path:
    return folder / TEMPORARY.format(secrets.token_hex(8))


def _remove(path: Path) -> None:
    """Remove a file; an error would hide the one that led here."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
