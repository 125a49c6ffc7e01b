"""Files that are on disk whole, whatever happens meanwhile, or not at all."""

import contextlib
import os
import re
import secrets
from pathlib import Path

__all__ = ["LEFTOVER", "created", "replacing"]

#: Names that files have until they are whole: what is left of a process that was killed.
LEFTOVER = re.compile(r"\.xmlgp-[0-9a-f]{16}\.tmp")


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
    try:
        # Not through tempfile, which would deny other users what their umask grants them.
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        # A full disk comes up without a name; errors that do not come from this file have one.
        if error.errno is None or error.filename not in (None, file, os.fspath(file)):
            raise
        raise OSError(error.errno, error.strerror, os.fspath(named or file)) from error


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
    temporary = target.with_name(f".xmlgp-{secrets.token_hex(8)}.tmp")
    try:
        with created(temporary, named or path) as stream:
            yield stream
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def _sync_folder(folder):
    """Have the names in a folder reach the disk, where its file system can do that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
