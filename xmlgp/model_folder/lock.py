"""One writer at a time for a model folder."""

import contextlib
import os
import re
import socket
import stat
import time
from pathlib import Path

from xmlgp.errors import ModelFolderError
from xmlgp.model_folder.arrays import make_folders, remove
from xmlgp.runtime.atomic_files import report_errors_as

try:
    import fcntl
except ImportError:  # not on Windows, where two writers of one folder at once are not kept apart
    fcntl = None

__all__ = ["alone_in", "writer_in"]

LOCK = ".lock"

#: What a lock says of who holds it.
HOLDER = re.compile(rb"([0-9]{1,20}) on ([A-Za-z0-9._-]{1,100})\n")

#: How often folders are made that another process removes at once, since they came to nothing there.
ATTEMPTS = 100

#: Seconds after which a lock that is held is tried for once more: `writer_in` holds it for less.
PAUSE = 0.05


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
        Where another process is in it, which is not waited for, for that could be hours; or where something else is
        in the place of the lock.
    OSError
        Where the folder cannot be written.
    """
    path, made = Path(path), []
    descriptor = _locked(path, made) if fcntl else None
    try:
        # Not before it is locked: whoever makes a folder for nothing removes it.
        made += make_folders(path)
        yield
    finally:
        # While it is still locked: afterwards the folder of arrays may be another one's, and so may the lock.
        remove([path / LOCK], [folder for folder in made if folder.parent == path])
        if fcntl:
            os.close(descriptor)
        remove([], [folder for folder in made if folder.parent != path])


def writer_in(path):
    """Return who is writing a model folder, in words; None where nobody is, or none that could be known of.

    Parameters
    ----------
    path : path
    """
    file = Path(path) / LOCK
    try:
        if fcntl and stat.S_ISREG(os.lstat(file).st_mode):
            with open(file, "rb", buffering=0) as stream:
                try:
                    fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return _holder(stream.fileno())
    except OSError:
        pass
    return None


def _locked(path, made):
    attempts = ATTEMPTS
    while True:
        try:
            made += [folder for folder in (path, *path.parents) if not folder.exists()]
            path.mkdir(parents=True, exist_ok=True)
            descriptor = _open(path / LOCK)
        except (FileNotFoundError, FileExistsError):
            # Another process removes the folders that it made, just now.
            attempts -= 1
            if not attempts:
                raise
            continue
        except (OSError, ModelFolderError):
            remove([], made)
            raise
        try:
            _lock(descriptor, path)
            # Of a lock that was removed before it was locked here nobody else would know.
            if _is(descriptor, path / LOCK):
                _sign(descriptor)
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _open(file):
    # Nothing that is read from or written to elsewhere, or waited for: the folder may be a stranger's.
    if os.path.lexists(file) and not stat.S_ISREG(os.lstat(file).st_mode):
        raise ModelFolderError(f"{file}: this is no lock of a model folder; remove it")
    with report_errors_as(file.parent, file):
        return os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _sign(descriptor):
    with contextlib.suppress(OSError):  # of a full disk will be told where there is more to write
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()} on {socket.gethostname()}\n".encode())


def _is(descriptor, file):
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(file))
    except FileNotFoundError:
        return False


def _lock(descriptor, path):
    for pause in (PAUSE, None):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if pause is None:
                raise ModelFolderError(
                    f"{path}: {_holder(descriptor)} is writing this model; wait for its end or name another folder"
                ) from None
            time.sleep(pause)
        except OSError:
            # Some network disks know no locks; two trainings into one folder are rare enough to do without there.
            return
        else:
            return


def _holder(descriptor):
    named = HOLDER.fullmatch(os.pread(descriptor, 200, 0))
    return "process {} on {}".format(*map(bytes.decode, named.groups())) if named else "another process"
