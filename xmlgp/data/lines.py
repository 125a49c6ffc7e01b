"""Split a stream of text into blocks of complete lines, for parsers that read a block at a time."""

from __future__ import annotations

import codecs
import contextlib
import math
import re
import select
import time
from collections.abc import Iterator
from typing import Protocol

import numpy as np

from xmlgp.runtime.errors import DataFormatError, UsageError
from xmlgp.runtime.untrusted_text import excerpt

__all__ = ["BLOCK_BYTES", "ByteStream", "LineReader", "decoded_lines"]

#: Bytes read at once. The arrays of a parser for 1 MiB fit into a processor's cache.
BLOCK_BYTES = 1 << 20
#: Maximum length of a line, enough for a point with three million features. A binary file without line ends would
#: exhaust memory.
MAX_LINE_BYTES = 1 << 26
#: A byte that is not UTF-8, as Python decodes it.
ESCAPED = re.compile("[\udc80-\udcff]")
#: What Python adds to such a byte.
ESCAPE = 0xDC00
#: Bytes that cp1252 does not have, decoded in the same way.
NOT_CP1252 = "\udc81\udc8d\udc8f\udc90\udc9d"
#: Characters that a message shows in the likely encoding.
SHOWN = 30
#: The characters of blank lines.
BLANK = b" \t\r\n"
#: Seconds that lines of an interactive stream wait for more lines, so that a fast stream fills blocks.
PATIENCE = 0.005


class ByteStream(Protocol):
    """What lines are read from."""

    def read1(self, size: int, /) -> bytes:
        """Return the available bytes, at most `size`; none at the end."""

    def fileno(self) -> int:
        """Return the file descriptor; OSError if there is none."""


class _AsUtf8:
    """Reads a stream of another encoding as UTF-8; what is malformed becomes bytes that UTF-8 does not have."""

    def __init__(self, stream: ByteStream, encoding: str) -> None:
        try:
            "x".encode(encoding)  # which refuses codecs that are not of text
            self._decoder = codecs.getincrementaldecoder(encoding)("surrogateescape")
        except (LookupError, ValueError):
            raise UsageError(f"{encoding!r} is not an encoding that Python knows, such as latin-1 or cp1252.") from None
        self._stream = stream

    def read1(self, size: int) -> bytes:
        text = ""
        piece = b"more"
        while piece and not text:
            piece = self._stream.read1(size)
            text = self._decoder.decode(piece, final=not piece)
        # Of several bytes, UTF-8 may make a character.
        return ESCAPED.sub("\udcff", text).encode("utf-8", "surrogateescape")


class LineReader:
    """Reads complete lines from a stream with a `read1` method.

    `path` is its name, for messages, `line_number` the number of the next line, from 1. If `newline_needed`, the last
    line must end with a newline: a truncated number is still a number, so only the newline shows that a file is
    complete. A byte order mark before the first line is left out. Lines of another `encoding` become UTF-8; UsageError
    if there is no such encoding.

    Lines end with a newline, perhaps after carriage returns.
    """

    newline_needed = True
    #: The last line that `decoded_lines` has yielded, if it reads the lines.
    decoded: float = math.inf

    def __init__(self, stream: ByteStream, path: str, encoding: str | None = None) -> None:
        self.stream = stream
        self.path = path
        self.encoding = encoding
        self.line_number = 1
        self._source = _AsUtf8(stream, encoding) if encoding else stream
        self._lines = b""  # complete lines that were not returned yet
        self._rest = bytearray()  # the start of the line after them
        self._mark = codecs.BOM_UTF8  # which may come before the first line
        self._finished = False
        self._truncated = False
        self._prompt = False

    def answer_at_once(self) -> None:
        """Return the lines of a pipe or terminal when no more have arrived, rather than when a block is full."""
        # A stream in memory, and on Windows any pipe, cannot be asked whether it has more.
        with contextlib.suppress(OSError, ValueError):
            select.select([self.stream], [], [], 0)
            self._prompt = True

    def waits(self) -> bool:
        """Return whether all lines that were read were returned, and no more have arrived (`answer_at_once`)."""
        all_returned = not self._lines and self.decoded >= self.line_number - 1
        return all_returned and not self._finished and not self._more_arrived(0)

    def _more_arrived(self, seconds: float) -> bool:
        """Return whether the stream has more bytes, after some seconds at most; a file always has."""
        return not self._prompt or bool(select.select([self.stream], [], [], max(0, seconds))[0])

    def read_lines(self, most: int | None = None) -> bytes:
        """Return the next lines, each with a newline at its end, even if the last line of the file has none.

        They are about a block, but `most` lines at most, and none at the end. DataFormatError is raised if a line is
        longer than `MAX_LINE_BYTES`, if compressed data are damaged, or after the last line if its newline is needed
        and missing.
        """
        # Half a block of complete lines is enough: a slow pipe may take long to complete the next line.
        deadline = None
        while not self._finished and len(self._lines) < BLOCK_BYTES // 2:
            if self._lines:
                deadline = deadline or time.monotonic() + PATIENCE
                if not self._more_arrived(deadline - time.monotonic()):
                    break
            self._read()
        if self._truncated and self.newline_needed and not self._lines:
            reason = "the file ends within this line: it is truncated, or its newline is missing"
            raise DataFormatError(self.path, self.line_number - 1, reason)
        text = self._lines
        if most is not None and text.count(b"\n") > most:
            ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n"))
            text = text[: ends[most - 1] + 1]
        self._lines = self._lines[len(text) :]
        self.line_number += text.count(b"\n")
        return text

    def blocks(self, N: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Yield the number of the next line, and lines, about a block at a time.

        N is the number of points that the first line of the file declares, each a line, after which there may be blank
        lines; DataFormatError is raised if there are fewer or more. Without N, all lines are yielded.
        """
        remaining = N
        while remaining != 0:
            line = self.line_number
            text = self.read_lines(remaining)
            if text:
                yield line, text
            elif N is None:
                return
            else:
                reason = f"the file ends after {line - 2} of {N} points declared in its first line"
                raise DataFormatError(self.path, line, reason)
            remaining = None if remaining is None else remaining - text.count(b"\n")
        while text := self.read_lines():
            if rest := text.lstrip(BLANK):
                reason = f"the file has more points than the {N} that its first line declares"
                raise DataFormatError(self.path, self.line_number - rest.count(b"\n"), reason)
            # The last blank line needs no newline.
            self.newline_needed = False

    def peek_line(self) -> bytes:
        """Return the line that `read_lines` returns next; empty at the end of the stream."""
        while not (self._lines or self._finished):
            self._read()
        return self._lines[: self._lines.find(b"\n") + 1]

    def _read(self) -> None:
        """Read the available bytes of the stream."""
        try:
            piece = self._source.read1(BLOCK_BYTES)
        except UnicodeError as error:
            raise DataFormatError(self.path, self.line_number, f"this is not {self.encoding}: {error}") from None
        self._finished = not piece
        if self._finished and self._rest:
            # The line is returned all the same: an error in it is reported before the missing newline.
            self._truncated = True
            piece = b"\n"
        end = piece.rfind(b"\n") + 1
        if end:
            self._lines += (self._rest + piece[:end]).removeprefix(self._mark)
            self._mark = b""
            self._rest.clear()
        self._rest += piece[end:]
        if len(self._rest) > MAX_LINE_BYTES:
            reason = f"the line is longer than {MAX_LINE_BYTES >> 20} MiB; this is not a data file"
            raise DataFormatError(self.path, self.line_number + self._lines.count(b"\n"), reason)


def decoded_lines(reader: LineReader, newline_needed: bool = False) -> Iterator[tuple[int, str]]:
    """Yield the number of each line, from 1, and its text without the line end.

    The last line may lack its newline unless `newline_needed`. DataFormatError if a line is not UTF-8, or not in the
    encoding of the reader, or has a carriage return that does not belong to its end.
    """
    reader.newline_needed = newline_needed
    for first, block in reader.blocks():
        text = block.decode(errors="surrogateescape")
        is_plain = "\r" not in text and (text.isascii() or not ESCAPED.search(text))
        # Each line of the block ends with a newline.
        for number, content in enumerate(text.split("\n")[:-1], first):
            # Files with byte order marks may have been joined, and one that was converted twice has several returns.
            line = content.removeprefix("\ufeff").rstrip("\r")
            if not is_plain:
                _check_line(line, number, reader)
            reader.decoded = number
            yield number, line


def _check_line(line: str, number: int, reader: LineReader) -> None:
    """Raise DataFormatError for a lone carriage return, or a byte that could not be decoded."""
    wrong = ESCAPED.search(line)
    if not wrong:
        if "\r" not in line:
            return
        reason = "there is a carriage return that ends no line; `tr '\\r' '\\n' < FILE > NEW` makes line ends of them"
        raise DataFormatError(reader.path, number, reason)
    if reader.encoding:
        raise DataFormatError(reader.path, number, f"this line is not {reader.encoding}")
    at = wrong.start()
    word = max(line.rfind(blank, 0, at) for blank in " \t,") + 1
    encoding = "cp1252" if wrong[0] not in NOT_CP1252 else "latin-1"
    shown = line[word : word + SHOWN].encode(errors="surrogateescape").decode(encoding, "replace")
    reason = f"byte 0x{ord(wrong[0]) - ESCAPE:02x} at character {at + 1} of the line is not UTF-8"
    raise DataFormatError(
        reader.path,
        number,
        f"{reason}; in {encoding} it reads {excerpt(shown.strip())}: --encoding {encoding} reads a corpus so, "
        f"and `iconv -f {encoding} -t utf-8 FILE > NEW` converts any text",
    )
