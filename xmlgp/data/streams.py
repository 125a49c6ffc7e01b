"""Open the input or output that a user names: a file, plain or compressed, or `-` for a standard stream.

The first bytes tell whether an input is compressed, the ending of its name whether an output is.
"""

from __future__ import annotations

import contextlib
import gzip
import importlib
import io
import os
import shlex
import stat
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from types import ModuleType
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Protocol

from xmlgp.data.file_kinds import PEEKED, UNFIT_FOR_TEXT, FileKind, compressed_ending, kind_of, refusal
from xmlgp.data.locate import files_read, other_part
from xmlgp.errors import UsageError, XmlgpError
from xmlgp.runtime.atomic_files import atomic_write, report_errors_as

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "DamagedError",
    "GZIP_MAGIC",
    "Opened",
    "check_outputs",
    "compression_of",
    "file_size",
    "open_any",
    "open_input",
    "open_output",
]

GZIP_MAGIC = b"\x1f\x8b"

#: Compressed bytes that are decompressed at once.
PIECE = 1 << 10
#: Maximum number of bytes that a step of decompression returns. The package zstandard has no such limit, but a piece
#: becomes at most 32 MiB.
MOST_AT_ONCE = 1 << 20

#: Maximum memory of the decompression of xz data, in bytes; data of `xz -9` need a quarter of it.
XZ_MEMORY = 1 << 28


class DamagedError(Exception):
    """Compressed data are damaged or truncated; the text says so."""


class _Decompressor(Protocol):
    """What the decompressors of all libraries have; some take a limit, and then have `needs_input`."""

    eof: bool
    needs_input: bool
    unused_data: bytes

    def decompress(self, data: bytes, max_length: int = -1, /) -> bytes: ...


class _Compression(NamedTuple):
    """A kind of compression: its name, first bytes, modules of which one is needed, and functions of such a module.

    They return a decompressor, and a stream that compresses into another one. `GzipFile` decompresses gzip.
    """

    name: str
    starts: tuple[bytes, ...]
    modules: tuple[str, ...]
    decompressor: Callable[[ModuleType], _Decompressor] | None
    writer: Callable[[ModuleType, BinaryIO], Any]
    advice: str = "a Python that was built with it"

    def module(self, path: str) -> ModuleType:
        """Return the first module that is installed; XmlgpError if none is."""
        for name in self.modules:
            with contextlib.suppress(ImportError):
                return importlib.import_module(name)
        file = "FILE" if path == "-" else shlex.quote(path)
        raise XmlgpError(f"{path}: {self.name} data need {self.advice.format(file=file)}")


def _write_zstd(module: ModuleType, stream: BinaryIO) -> Any:
    if hasattr(module, "ZstdFile"):
        return module.ZstdFile(stream, "wb")
    return module.ZstdCompressor().stream_writer(stream, closefd=False)


#: The kinds of compression by the endings of names.
COMPRESSIONS = {
    ".gz": _Compression(
        "gzip",
        (GZIP_MAGIC,),
        ("gzip",),
        None,
        # Without name and time, so that equal data give equal files.
        lambda module, stream: module.GzipFile(filename="", fileobj=stream, mode="wb", mtime=0),
    ),
    ".bz2": _Compression(
        "bzip2",
        # The size of blocks, and the start of a block or the end of the data.
        tuple(b"BZh%d%b" % (size, block) for size in range(1, 10) for block in (b"1AY&SY", b"\x17rE8P\x90")),
        ("bz2",),
        lambda module: module.BZ2Decompressor(),
        lambda module, stream: module.BZ2File(stream, "wb"),
    ),
    ".xz": _Compression(
        "xz",
        (b"\xfd7zXZ\0",),
        ("lzma",),
        lambda module: module.LZMADecompressor(memlimit=XZ_MEMORY),
        lambda module, stream: module.LZMAFile(stream, "wb"),
    ),
    ".zst": _Compression(
        "zstd",
        (b"\x28\xb5\x2f\xfd",),
        ("compression.zstd", "zstandard"),
        lambda module: getattr(module.ZstdDecompressor(), "decompressobj", module.ZstdDecompressor)(),
        _write_zstd,
        "the package zstandard (`pip install zstandard`); `zstd -d {file}` decompresses without it",
    ),
}

#: The first bytes of all kinds.
STARTS = tuple(start for compression in COMPRESSIONS.values() for start in compression.starts)


class _Unpacked(io.RawIOBase):
    """The content of compressed data, which may be several streams one after the other."""

    def __init__(self, stream: BinaryIO, name: str, new: Callable[[], _Decompressor]) -> None:
        self._stream = stream
        self._name = name
        self._new = new
        self._pieces = self._decompress()
        self._piece = memoryview(b"")

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream.fileno()

    def readinto(self, buffer: Buffer, /) -> int:
        while not self._piece:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._piece = memoryview(piece)
        view = memoryview(buffer)
        count = min(len(view), len(self._piece))
        view[:count] = self._piece[:count]
        self._piece = self._piece[count:]
        return count

    def _decompress(self) -> Iterator[bytes]:
        decompressor = self._new()
        rest = b""
        while piece := rest or self._stream.read(PIECE):
            rest = b""
            if decompressor.eof:
                # The streams of an xz file are padded.
                piece = piece.lstrip(b"\0")
                decompressor = self._new() if piece else decompressor
            if not piece:
                continue
            try:
                yield from _expanded(decompressor, piece)
            except MemoryError:
                raise
            except Exception as error:  # each library has exceptions of its own
                raise DamagedError(f"the {self._name} data are damaged ({error})") from error
            if decompressor.eof:
                rest = decompressor.unused_data
        if not decompressor.eof:
            raise DamagedError(f"the {self._name} data are truncated")


def _expanded(decompressor: _Decompressor, piece: bytes) -> Iterator[bytes]:
    """Yield the content of a piece of compressed data, some of it at a time."""
    if not hasattr(decompressor, "needs_input"):
        yield decompressor.decompress(piece)
        return
    yield decompressor.decompress(piece, MOST_AT_ONCE)
    while not (decompressor.eof or decompressor.needs_input):
        yield decompressor.decompress(b"", MOST_AT_ONCE)


class _Replayed(io.RawIOBase):
    """A stream after some bytes that were taken from it."""

    def __init__(self, start: bytes, stream: io.BufferedReader | gzip.GzipFile) -> None:
        self._start = start
        self._stream = stream

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream.fileno()

    def readinto(self, buffer: Buffer, /) -> int:
        view = memoryview(buffer)
        piece = self._start[: len(view)] or self._stream.read1(len(view))
        self._start = self._start[len(piece) :]
        view[: len(piece)] = piece
        return len(piece)


class _GzipContent(_Replayed):
    """The content of gzip data."""

    def __init__(self, stream: io.BufferedReader) -> None:
        super().__init__(b"", gzip.GzipFile(fileobj=stream))

    def readinto(self, buffer: Buffer, /) -> int:
        try:
            return super().readinto(buffer)
        except EOFError:
            raise DamagedError("the gzip data are truncated") from None
        except (gzip.BadGzipFile, zlib.error) as error:
            raise DamagedError(f"the gzip data are damaged ({error})") from error


class Opened(NamedTuple):
    """An input: its content as a stream, the first bytes of it, and its kind, which is None for text."""

    stream: io.BufferedReader
    start: bytes
    kind: FileKind | None


@contextlib.contextmanager
def open_any(path: str | os.PathLike[str]) -> Iterator[Opened]:
    """Open a file of any kind for reading, decompressed; `-` is standard input.

    The stream's `read1` returns the available bytes without waiting for more. Damaged compressed data raise XmlgpError
    within the `with` block.
    """
    path = os.fspath(path)
    with contextlib.ExitStack() as stack:
        stream = _standard_input(stack) if path == "-" else stack.enter_context(open(path, "rb"))
        stream, start = _peeked(stream)
        compression = _compression_by_start(start)
        try:
            if compression:
                stream = stack.enter_context(_Decompressed(stream, compression, path))
                start = stream.peek(PEEKED)[:PEEKED]
                kind = kind_of(start, path)
                if inner := _compression_by_start(start):
                    twice = f"by {inner.name} and then by {compression.name}"
                    raise XmlgpError(f"{path}: the data are compressed twice, {twice}; decompress them once")
            else:
                kind = kind_of(start, path, stream)
                expected = COMPRESSIONS.get(compressed_ending(path))
                if expected and start and any(first.startswith(start) for first in expected.starts):
                    raise XmlgpError(f"{path}: the {expected.name} data are truncated")
                if expected and kind is None and UNFIT_FOR_TEXT.search(start):
                    raise XmlgpError(f"{path}: this is neither {expected.name} data nor text; the file may be damaged")
            yield Opened(stream, start, kind)
        except DamagedError as error:
            raise XmlgpError(f"{path}: {error}") from error


@contextlib.contextmanager
def open_input(path: str | os.PathLike[str]) -> Iterator[io.BufferedReader]:
    """Open text for reading as `open_any` does; XmlgpError says what else a file is, and what makes text of it."""
    with open_any(path) as opened:
        if opened.kind:
            raise refusal(opened.kind, os.fspath(path), opened.start)
        yield opened.stream


def compression_of(stream: BinaryIO) -> str | None:
    """Return the name of the compression of a stream that `open_input` has opened, or None."""
    return getattr(stream, "compression", None)


def file_size(stream: BinaryIO) -> int | None:
    """Return the size of the regular file that a stream reads, or None if it reads none."""
    try:
        status = os.fstat(stream.fileno())
    except OSError:  # standard input of a test or a notebook
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _peeked(stream: io.BufferedReader) -> tuple[io.BufferedReader, bytes]:
    """Return a stream and its first bytes: those that have arrived, and enough to tell whether it is compressed.

    A slow pipe may have delivered one byte only. Compression is certain before a first line can be complete.
    """
    start = stream.peek(PEEKED)[:PEEKED]
    if not _is_undecided(start):
        return stream, start
    start = stream.read1(len(start))
    while _is_undecided(start) and (piece := stream.read1(PEEKED)):
        start += piece
    return io.BufferedReader(_Replayed(start, stream)), start


def _is_undecided(start: bytes) -> bool:
    return bool(start) and any(other.startswith(start) and other != start for other in STARTS)


def _compression_by_start(start: bytes) -> _Compression | None:
    return next((kind for kind in COMPRESSIONS.values() if start.startswith(kind.starts)), None)


class _Decompressed(io.BufferedReader):
    """The content of a compressed stream; `compression` is the name of the kind."""

    def __init__(self, stream: io.BufferedReader, compression: _Compression, path: str) -> None:
        self.compression = compression.name
        module = compression.module(path)
        new = compression.decompressor
        if new is None:
            super().__init__(_GzipContent(stream))
        else:
            super().__init__(_Unpacked(stream, compression.name, lambda: new(module)))


@contextlib.contextmanager
def open_output(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a binary file for writing that appears under its name when it is complete; `-` is standard output.

    A file named `.gz`, `.bz2`, `.xz` or `.zst` is compressed. Devices and pipes are written to directly; symbolic links
    are followed.
    """
    path = os.fspath(path)
    if path == "-":
        if sys.stdout is None:
            raise XmlgpError("stdout is closed")
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    compress = _compressor(path)
    if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
        with report_errors_as(path), open(path, "wb") as device, compress(device) as output:
            yield output
    else:
        target = os.path.realpath(path)
        with report_errors_as(path, target), atomic_write(target) as stream, compress(stream) as output:
            yield output


def check_outputs(outputs: Iterable[str | os.PathLike[str]], inputs: Iterable[object]) -> None:
    """Raise UsageError if an output is the same file as an input, also under another name; `-` is a standard stream.

    An input may be a folder of data or of documents, or a model folder. Inputs other than paths, pipes and devices are
    ignored.
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


def _regular_file(path: str | os.PathLike[str], standard: int) -> os.stat_result | None:
    """Return the status of a regular file, or None; `-` stands for the file descriptor `standard`."""
    try:
        status = os.fstat(standard) if path == "-" else os.stat(path)
    except (OSError, ValueError):
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def _compressor(path: str) -> Callable[[BinaryIO], AbstractContextManager[BinaryIO]]:
    """Return a function that opens a compressed stream in another one, by the ending of a name."""
    compression = COMPRESSIONS.get(compressed_ending(path))
    if compression is None:
        return contextlib.nullcontext
    module = compression.module(path)
    return lambda stream: compression.writer(module, stream)


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
