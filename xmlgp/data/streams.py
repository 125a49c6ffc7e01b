"""Opening what a user names as input or output: files, gzip files, or `-` for the standard streams."""

import contextlib
import gzip
import io
import os
import stat
import sys
import zlib

from xmlgp.errors import XmlgpError
from xmlgp.runtime.atomic_files import atomic_write, report_errors_as

__all__ = ["DAMAGED_GZIP", "GZIP_MAGIC", "describe_damage", "open_input", "open_output"]

#: What reading a damaged or truncated gzip file raises.
DAMAGED_GZIP = (gzip.BadGzipFile, EOFError, zlib.error)

GZIP_MAGIC = b"\x1f\x8b"


def describe_damage(error):
    """Say in a sentence without a subject what one of `DAMAGED_GZIP` means."""
    if isinstance(error, EOFError):
        return "the gzip data are truncated"
    return f"the gzip data are damaged ({error})"


@contextlib.contextmanager
def open_input(path):
    """Open a binary file for reading.

    Parameters
    ----------
    path : str or Path
        `-` is standard input, decompressed if it starts like gzip; a name in `.gz` is decompressed.

    Yields
    ------
    binary file
        Its `read1` returns what is there without waiting for more.

    Raises
    ------
    XmlgpError
        In the `with` block, if gzip data turn out damaged or truncated.
    """
    path = os.fspath(path)
    with contextlib.ExitStack() as stack:
        if path == "-":
            stream = _standard("stdin")
            if not hasattr(stream, "peek"):
                stream = io.BufferedReader(stream)
                stack.callback(stream.detach)
            # A slow pipe may have delivered one byte only; no text starts with that byte either.
            start = stream.peek(len(GZIP_MAGIC))[: len(GZIP_MAGIC)]
            compressed = bool(start) and GZIP_MAGIC.startswith(start)
        else:
            stream = stack.enter_context(open(path, "rb"))
            compressed = path.endswith(".gz")
        if compressed:
            stream = stack.enter_context(gzip.GzipFile(fileobj=stream, mode="rb"))
        try:
            yield stream
        except DAMAGED_GZIP as error:
            raise XmlgpError(f"{path}: {describe_damage(error)}") from error


@contextlib.contextmanager
def open_output(path):
    """Open a binary file for writing; it appears under its name only when complete.

    Parameters
    ----------
    path : str or Path
        `-` is standard output; a name in `.gz` is compressed. Devices and pipes are written to directly, links lead
        to what they name.

    Yields
    ------
    binary file
    """
    path = os.fspath(path)
    if path == "-":
        stream = _standard("stdout")
        yield stream
        stream.flush()
    elif os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
        with report_errors_as(path), open(path, "wb") as stream, _compressed_if_named_so(stream, path) as output:
            yield output
    else:
        with atomic_write(os.path.realpath(path), path) as stream, _compressed_if_named_so(stream, path) as output:
            yield output


def _compressed_if_named_so(stream, path):
    """Wrap `stream` if the name asks for gzip; without name and time, so that equal data give equal files."""
    if path.endswith(".gz"):
        return gzip.GzipFile(filename="", fileobj=stream, mode="wb", mtime=0)
    return contextlib.nullcontext(stream)


def _standard(name):
    """Return the binary stream beneath sys.stdin or sys.stdout."""
    stream = getattr(sys, name)
    if stream is None:
        raise XmlgpError(f"{name} is closed")
    return stream.buffer
