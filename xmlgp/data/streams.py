"""Open the input or output that a user names: a file, plain or gzipped, or `-` for a standard stream.

The first bytes tell whether an input is gzipped, the ending of its name whether an output is.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, cast

from xmlgp.data.file_kinds import PEEKED, refuse_binary
from xmlgp.data.locate import files_read
from xmlgp.runtime.atomic_files import atomic_write, report_errors_as
from xmlgp.runtime.errors import UsageError, XmlgpError

__all__ = ["check_outputs", "open_input", "open_output"]

#: The first byte of gzip data, which no text has. A slow pipe may have delivered no other one yet.
GZIP_MAGIC = b"\x1f"

#: Bytes that gzip data may expand to however few they are, and times their size that they may expand to beyond. Text
#: of rows expands to about 4 times, a file of empty lines alone to 1000.
FREE_BYTES = 1 << 24
MOST_EXPANDED = 100


#: What reading damaged or truncated gzip data raises.
DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error)


class _GzipContent(io.RawIOBase):
    """The content of gzip data."""

    def __init__(self, stream: io.BufferedReader) -> None:
        self._stream = stream
        self._content = gzip.GzipFile(fileobj=stream)

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream.fileno()

    def readinto(self, buffer: Any, /) -> int:
        piece = self._content.read1(len(buffer))
        if self._stream.seekable() and self._content.tell() > max(FREE_BYTES, MOST_EXPANDED * self._stream.tell()):
            advice = "`gunzip` makes a file of all"
            raise gzip.BadGzipFile(f"they expand to more than {MOST_EXPANDED} times their size; {advice}")
        buffer[: len(piece)] = piece
        return len(piece)


@contextlib.contextmanager
def open_input(path: str | os.PathLike[str], encoding: str | None = None) -> Iterator[io.BufferedReader]:
    """Open text for reading, decompressed; `-` is standard input.

    The stream's `read1` returns the available bytes without waiting for more. Damaged compressed data raise XmlgpError
    within the `with` block, and so does a binary file.
    """
    path = os.fspath(path)
    with contextlib.ExitStack() as stack:
        stream = _standard_input(stack) if path == "-" else stack.enter_context(open(path, "rb"))
        try:
            if stream.peek(1).startswith(GZIP_MAGIC):
                stream = stack.enter_context(io.BufferedReader(_GzipContent(stream)))
            refuse_binary(path, stream.peek(PEEKED)[:PEEKED], encoding)
            yield stream
        except DAMAGED as error:
            raise XmlgpError(f"{path}: the gzip data are damaged ({error})") from error


@contextlib.contextmanager
def open_output(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a binary file for writing that appears under its name when it is complete; `-` is standard output.

    A file named `.gz` is compressed. Devices and pipes are written to directly; symbolic links are followed.
    """
    path = os.fspath(path)
    if path == "-":
        if sys.stdout is None:
            raise XmlgpError("stdout is closed")
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    is_device = os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode)
    target = path if is_device else os.path.realpath(path)
    with report_errors_as(path, target), open(target, "wb") if is_device else atomic_write(target) as stream:
        if not path.lower().endswith(".gz"):
            yield stream
            return
        # Without name and time, so that equal data give equal files.
        with gzip.GzipFile(filename="", fileobj=stream, mode="wb", mtime=0) as packed:
            yield cast(BinaryIO, packed)


def check_outputs(outputs: Iterable[str | os.PathLike[str]], inputs: Iterable[object]) -> None:
    """Raise UsageError if an output is the same file as an input, also under another name; `-` is a standard stream.

    An input may be a folder of data or of documents, or a model folder. Inputs other than paths, pipes and devices are
    ignored.
    """
    paths = [path for path in inputs if isinstance(path, str | os.PathLike)]
    files = [file for path in paths for file in (files_read(path) if os.path.isdir(path) else [path])]
    read = ["/dev/stdin" if file == "-" else file for file in files]
    written = ["/dev/stdout" if output == "-" else output for output in outputs]
    for output in filter(os.path.isfile, written):
        for file in filter(os.path.isfile, read):
            if os.path.samefile(output, file):
                raise UsageError(f"The output {output} is the same file as the input {file}; choose another output.")


def _standard_input(stack: contextlib.ExitStack) -> io.BufferedReader:
    """Return the binary stream of sys.stdin."""
    if sys.stdin is None:
        raise XmlgpError("stdin is closed")
    raw: Any = sys.stdin.buffer
    if isinstance(raw, io.BufferedReader):
        return raw
    stream: io.BufferedReader = io.BufferedReader(raw)
    stack.callback(stream.detach)
    return stream
