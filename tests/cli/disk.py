"""A disk that fails at one operation, or at all operations after it."""

import builtins
import contextlib
import errno
import io
import os
import stat
import sys
from pathlib import Path

from xmlgp.model_folder.folder import ModelFolder

__all__ = ["arrays", "everything", "failing_disk"]

#: Audit events (PEP 578) for changes of files, from any library. There is none for writing.
CHANGES = {"open", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate", "os.utime"}

#: Changes that need no space.
SPACELESS = CHANGES - {"open", "os.mkdir"}

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT

OPEN = open


def arrays(path):
    """Return the arrays of a model."""
    return {
        name: (array.dtype.str, array.shape, array.tobytes()) for name, array in ModelFolder(path).arrays("").items()
    }


def everything(folder):
    """Return the files of a folder with their contents and times, its links and its folders."""
    found = {}
    for path in folder.rglob("*"):
        facts = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(facts.st_mode) else None
        found[str(path.relative_to(folder))] = (stat.S_IFMT(facts.st_mode), content, content and facts.st_mtime_ns)
    return found


@contextlib.contextmanager
def failing_disk(monkeypatch, folder, operation, code, lasting=False):
    """Let the operation of this number, from 1, that changes a folder fail with this error, or all from there on.

    Infinity is none. If it is `lasting` on a full disk, or beyond a quota, only later operations that need space fail.
    What is yielded has the names of all operations that were tried, `done`, and of those that `failed`.
    """
    if not _state.audited:
        # An audit hook cannot be removed.
        sys.addaudithook(_audit)
        _state.audited = True
    disk = _Disk(folder, operation, code, lasting)
    with monkeypatch.context() as patch:
        for holder in (builtins, io):
            patch.setattr(holder, "open", disk.open)
        for name in ("fsync", "write"):
            patch.setattr(os, name, disk.counted(name, getattr(os, name)))
        _state.disk = disk
        try:
            yield disk
        finally:
            _state.disk = None


class _state:
    audited, disk = False, None


def _audit(event, arguments):
    if _state.disk is not None and event in CHANGES:
        _state.disk.audit(event, arguments)


class _Disk:
    """See `failing_disk`."""

    def __init__(self, folder, operation, code, lasting):
        self.folder, self.operation, self.code, self.lasting = folder, operation, code, lasting
        self.done, self.failed = [], []

    def count(self, name, *paths):
        self.done.append(name)
        if self.lasting:
            full = self.code in (errno.ENOSPC, errno.EDQUOT)
            fails = len(self.done) >= self.operation and not (full and name in SPACELESS)
        else:
            fails = len(self.done) == self.operation
        if fails:
            self.failed.append(name)
            first, second = (*map(os.fspath, paths), None, None)[:2]
            raise OSError(self.code, os.strerror(self.code), first, None, second)

    def counted(self, name, function):
        """Count a function of a file descriptor, whose errors have no file name."""

        def call(descriptor, *arguments):
            self.count(name)
            return function(descriptor, *arguments)

        return call

    def audit(self, event, arguments):
        paths = arguments[: 2 if event == "os.rename" else 1]
        if self.holds(paths[0]) and (event != "open" or arguments[2] & WRITING):
            self.count(event, *paths)

    def holds(self, path):
        return isinstance(path, str | os.PathLike) and Path(os.path.abspath(path)).is_relative_to(self.folder)

    def open(self, file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, closefd=True, opener=None):
        """Open a file as `open` does, and count writes, including those to file descriptors."""
        if not set(mode) & set("wxa+") or not (isinstance(file, int) or self.holds(file)):
            return OPEN(file, mode, buffering, encoding, errors, newline, closefd, opener)
        raw = _Counted(file, mode.replace("b", "").replace("t", ""), closefd, opener)
        raw.disk = self
        stream = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return stream if "b" in mode else io.TextIOWrapper(stream, encoding, errors, newline)


class _Counted(io.FileIO):
    """A file to which a failing write writes half of its content."""

    def write(self, content):
        try:
            self.disk.count("write")
        except OSError:
            super().write(memoryview(content)[: len(content) // 2])
            raise
        return super().write(content)
