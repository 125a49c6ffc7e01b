"""Write files atomically: after a crash a file is complete or not there at all."""

import contextlib
import os
import re
import secrets
from pathlib import Path

__all__ = ["TEMPORARY_NAME", "atomic_write", "check_writable", "create_file", "report_errors_as"]

#: Matches the names of incomplete files, which a killed process leaves behind.
TEMPORARY_NAME = re.compile(r"\.xmlgp-[0-9a-f]{16}\.tmp")


@contextlib.contextmanager
def report_errors_as(path, *files):
    """Make errors about `files`, such as temporary ones, name `path`, which the user knows.

    Errors without a file name get that name too; errors about other files are unchanged.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename not in (None, *files, *map(os.fspath, files)):
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


@contextlib.contextmanager
def create_file(file, shown_as=None):
    """Open a new binary file for writing, which must not exist; it is flushed to disk when the block ends.

    `shown_as` is the name in errors, by default that of the file.
    """
    # tempfile would deny other users what their umask grants them.
    with (
        report_errors_as(shown_as or file, file),
        os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as stream,
    ):
        yield stream
        stream.flush()
        os.fsync(stream.fileno())


@contextlib.contextmanager
def atomic_write(path, shown_as=None):
    """Yield a temporary binary file beside `path` and rename it: a reader sees the old content or the new.

    A symbolic link is replaced, not followed. If the file cannot be written, OSError is raised, with the name
    `shown_as`, and the old file remains.
    """
    target = Path(path)
    temporary = _unused(target.parent)
    try:
        with create_file(temporary, shown_as or path) as stream:
            yield stream
        with report_errors_as(shown_as or path, temporary):
            os.replace(temporary, target)
    except BaseException:
        _remove(temporary)
        raise
    _sync_folder(target.parent)


def check_writable(folder, shown_as=None):
    """Raise OSError if no file can be created in a folder, so that long work fails before it starts.

    `shown_as` is the name in errors, by default that of the folder.
    """
    probe = _unused(folder)
    try:
        with create_file(probe, shown_as or folder):
            pass
    finally:
        _remove(probe)


def _unused(folder):
    """Return an unused name that matches `TEMPORARY_NAME`."""
    return folder / f".xmlgp-{secrets.token_hex(8)}.tmp"


def _remove(file):
    # An error here would hide the one that led here.
    with contextlib.suppress(OSError):
        file.unlink(missing_ok=True)


def _sync_folder(folder):
    """Flush the entries of a folder to disk, where the file system supports that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
