"""Files that are on disk whole, whatever happens meanwhile, or not at all."""

import contextlib
import os
import re
import secrets
from pathlib import Path

__all__ = ["LEFTOVER", "check_writable", "created", "naming", "replacing"]

#: Names that files have until they are whole: what is left of a process that was killed.
LEFTOVER = re.compile(r"\.xmlgp-[0-9a-f]{16}\.tmp")


@contextlib.contextmanager
def naming(known, *files):
    """Let errors of these files name what the user knows, and so those that have no name: of a full disk, for one.

    Errors that do not come from these files have other names.

    Parameters
    ----------
    known : path
    *files : path
    """
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename not in (None, *files, *map(os.fspath, files)):
            raise
        raise OSError(error.errno, error.strerror, os.fspath(known)) from error


@contextlib.contextmanager
def created(file, named=None):
    """Open a new file for writing; it is on disk when the block ends.

    Parameters
    ----------
    file : Path
    named : path, optional
        What errors call it, if not by its name.

    Yields
    ------
    binary file

    Raises
    ------
    OSError
        Where it is there, or cannot be written.
    """
    # Not through tempfile, which would deny other users what their umask grants them.
    with (
        naming(named or file, file),
        os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as stream,
    ):
        yield stream
        stream.flush()
        os.fsync(stream.fileno())


@contextlib.contextmanager
def replacing(path, named=None):
    """Write beside `path`, then rename: readers see the old file or the new. A link is replaced, not followed.

    Parameters
    ----------
    path : path
    named : path, optional
        What errors call it, if not by its name.

    Yields
    ------
    binary file

    Raises
    ------
    OSError
        Where it cannot be written; what was there stays.
    """
    target = Path(path)
    temporary = _unused(target.parent)
    try:
        with created(temporary, named or path) as stream:
            yield stream
        with naming(named or path, temporary):
            os.replace(temporary, target)
    except BaseException:
        _remove(temporary)
        raise
    _sync_folder(target.parent)


def check_writable(folder, named=None):
    """Raise OSError where no file can be made in a folder: before the work that it is to hold, not after.

    Parameters
    ----------
    folder : Path
    named : path, optional
        What errors call it, if not by its name.
    """
    probe = _unused(folder)
    try:
        with created(probe, named or folder):
            pass
    finally:
        _remove(probe)


def _unused(folder):
    """Return the name of a file that is not there, as `LEFTOVER` has them."""
    return folder / f".xmlgp-{secrets.token_hex(8)}.tmp"


def _remove(file):
    # What goes wrong now is not what went wrong first.
    with contextlib.suppress(OSError):
        file.unlink(missing_ok=True)


def _sync_folder(folder):
    """Have the names in a folder reach the disk, where its file system can do that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
