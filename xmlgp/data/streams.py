"""Open the input or output that a user names: a file, a gzip file, or `-` for a standard stream."""

import contextlib
import gzip
import io
import os
import stat
import sys
import zlib

from xmlgp.data.locate import files_read, other_part
from xmlgp.errors import UsageError, XmlgpError
from xmlgp.runtime.atomic_files import atomic_write, report_errors_as

__all__ = ["DAMAGED_GZIP", "GZIP_MAGIC", "check_outputs", "describe_damage", "open_input", "open_output"]

#: Exceptions of reading a damaged or truncated gzip file.
DAMAGED_GZIP = (gzip.BadGzipFile, EOFError, zlib.error)

GZIP_MAGIC = b"\x1f\x8b"


def describe_damage(error):
    """Return the meaning of an exception of `DAMAGED_GZIP`, to follow the name of the file."""
    if isinstance(error, EOFError):
        return "the gzip data are truncated"
    return f"the gzip data are damaged ({error})"


@contextlib.contextmanager
def open_input(path):
    """Open a binary file for reading; `-` is standard input.

    A file named `.gz` is decompressed, and standard input if it starts like gzip. The stream's `read1` returns the
    available bytes without waiting for more. Damaged gzip data raise XmlgpError within the `with` block.
    """
    path = os.fspath(path)
    with contextlib.ExitStack() as stack:
        if path == "-":
            stream = _standard("stdin")
            if not hasattr(stream, "peek"):
                stream = io.BufferedReader(stream)
                stack.callback(stream.detach)
            # A slow pipe may have delivered only one byte; no text starts with that byte.
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
    """Open a binary file for writing that appears under its name when it is complete; `-` is standard output.

    A file named `.gz` is compressed. Devices and pipes are written to directly; symbolic links are followed.
    """
    path = os.fspath(path)
    if path == "-":
        stream = _standard("stdout")
        yield stream
        stream.flush()
    elif os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
        with report_errors_as(path), open(path, "wb") as stream, _compress_if_gz(stream, path) as output:
            yield output
    else:
        with atomic_write(os.path.realpath(path), path) as stream, _compress_if_gz(stream, path) as output:
            yield output


def check_outputs(outputs, inputs):
    """Raise UsageError if a file to be written is one that is read, also under another name; `-` is a standard stream.

    An input may be a folder of data or of documents, or a model folder. Those that are no paths are ignored, and
    so are pipes and devices.
    """
    read = []
    for path in inputs:
        if isinstance(path, str | os.PathLike):
            files = files_read(path) if os.path.isdir(path) else [path, *filter(None, [other_part(path)])]
            read += [(file, status) for file in files if (status := _regular_file(file, 0))]
    for output in outputs:
        written = _regular_file(output, 1)
        for file, status in read:
            if written and os.path.samestat(written, status):
                one = "Standard output" if output == "-" else f"The output {output}"
                other = "standard input" if file == "-" else f"the input {file}"
                raise UsageError(f"{one} is the same file as {other}; choose another output.")


def _regular_file(path, standard):
    """Return the status of a regular file, or None; that of the stream with the number `standard` for `-`."""
    try:
        status = os.fstat(standard) if path == "-" else os.stat(path)
    except (OSError, ValueError):
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def _compress_if_gz(stream, path):
    """Compress `stream` if the name ends in `.gz`; without name and time, so that equal data give equal files."""
    if path.endswith(".gz"):
        return gzip.GzipFile(filename="", fileobj=stream, mode="wb", mtime=0)
    return contextlib.nullcontext(stream)


def _standard(name):
    """Return the binary stream of sys.stdin or sys.stdout."""
    stream = getattr(sys, name)
    if stream is None:
        raise XmlgpError(f"{name} is closed")
    return stream.buffer
