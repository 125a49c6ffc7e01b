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

from xmlgp.data.streams import DamagedError
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
#: Bytes that cp1252 does not have, decoded in the same way.
NOT_CP1252 = "\udc81\udc8d\udc8f\udc90\udc9d"
#: Characters that a message shows in the likely encoding.
SHOWN = 30
#: The end of a line with carriage returns.
RETURNS = re.compile("\r+\n")
#: Lines decoded at once, and blank lines skipped at once.
LINES = 4096
#: The characters of blank lines.
BLANK = b" \t\r\n"
#: Seconds that the lines of an interactive stream wait for more lines, so that a fast stream fills blocks.
PATIENCE = 0.005


class ByteStream(Protocol):
    """What lines are read from."""

    def read1(self, size: int, /) -> bytes:
        """Return the available bytes, at most `size`; none at the end."""

    def fileno(self) -> int:
        """Return the file descriptor; OSError if there is none."""


class _AsUtf8:
    """Reads a stream of another encoding as UTF-8; what is malformed becomes a byte that UTF-8 does not have."""

    def __init__(self, stream: ByteStream, encoding: str) -> None:
        try:
            "x".encode(encoding)  # which refuses codecs that are not of text
            self._decoder = codecs.getincrementaldecoder(encoding)("xmlgp.malformed")
        except (LookupError, ValueError):
            raise UsageError(f"{encoding!r} is not an encoding that Python knows, such as latin-1 or cp1252.") from None
        self._stream = stream

    def read1(self, size: int) -> bytes:
        text = ""
        piece = b"more"
        while piece and not text:
            piece = self._stream.read1(size)
            text = self._decoder.decode(piece, final=not piece)
        return text.encode("utf-8", "surrogateescape")


def _mark_malformed(error: UnicodeError) -> tuple[str, int]:
    """Return the text in place of malformed bytes, and where decoding goes on."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\udcff", error.end


codecs.register_error("xmlgp.malformed", _mark_malformed)


class LineReader:
    """Reads complete lines from a stream with a `read1` method, and no more of the stream than they need.

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
        self._text = bytearray()
        self._start = 0  # the start of the next line in _text
        self._ends = np.empty(0, np.int64)  # the ends of the complete lines in _text from _start on
        self._begun = False
        self._finished = False
        self._truncated = False
        self._prompt = False
        self._more: bool | None = None  # whether the stream has more, None if it was not asked
        self._patience = PATIENCE

    def answer_at_once(self) -> None:
        """Return the lines of a pipe or terminal when no more have arrived, rather than when a block is full."""
        # A stream in memory, and on Windows any pipe, cannot be asked whether it has more.
        with contextlib.suppress(OSError, ValueError):
            select.select([self.stream], [], [], 0)
            self._prompt = True

    def waits(self) -> bool:
        """Return whether all lines that were read were returned, and no more have arrived (`answer_at_once`)."""
        all_returned = not len(self._ends) and self.decoded >= self.line_number - 1
        return all_returned and not self._finished and not self._more_arrived()

    def _more_arrived(self) -> bool:
        """Return whether the stream has more bytes, after `PATIENCE` seconds at most; a file always has."""
        if not self._prompt:
            return True
        if self._more is None:
            began = time.monotonic()
            self._more = bool(select.select([self.stream], [], [], self._patience)[0])
            remaining = self._patience + began - time.monotonic()
            self._patience = max(0, remaining) if self._more else PATIENCE
        return self._more

    def read_lines(self, max_lines: int) -> bytes:
        """Return the next lines, each with a newline at its end, even if the last line of the file has none.

        Fewer than `max_lines` are returned if their text is longer than a block, none at the end. DataFormatError is
        raised if a line is longer than `MAX_LINE_BYTES`, if compressed data are damaged, or after the last line if its
        newline is needed and missing.
        """
        # Half a block of complete lines is enough: a slow pipe may take long to complete the next line.
        while len(self._ends) < max_lines and not self._finished:
            if len(self._ends) and (self._ends[-1] - self._start >= BLOCK_BYTES // 2 or not self._more_arrived()):
                break
            self._read()
        if not len(self._ends):
            if self._truncated and self.newline_needed:
                reason = "the file ends within this line: it is truncated, or its newline is missing"
                raise DataFormatError(self.path, self.line_number - 1, reason)
            return b""
        count = min(max_lines, len(self._ends))
        end = int(self._ends[count - 1])
        text = bytes(memoryview(self._text)[self._start : end])
        self._start = end
        self._ends = self._ends[count:]
        self.line_number += count
        return text

    def skip_blank_lines(self) -> int | None:
        """Skip blank lines up to the end, the last of which needs no newline; return the number of another, or None."""
        while text := self.read_lines(LINES):
            if rest := text.lstrip(BLANK):
                return self.line_number - rest.count(b"\n")
            self.newline_needed = False
        return None

    def peek_line(self) -> bytes:
        """Return the line that `read_lines` returns next; empty at the end of the stream."""
        while not (len(self._ends) or self._finished):
            self._read()
        return bytes(memoryview(self._text)[self._start : self._ends[0]]) if len(self._ends) else b""

    def _read(self) -> None:
        """Append the available bytes of the stream to _text."""
        self._more = None
        try:
            piece = self._source.read1(BLOCK_BYTES)
        except DamagedError as error:
            raise DataFormatError(self.path, self.line_number + len(self._ends), str(error)) from error
        except UnicodeError as error:
            raise DataFormatError(
                self.path, self.line_number, f"this is not {self.encoding}: {_reason(error)}"
            ) from None
        del self._text[: self._start]
        self._ends -= self._start
        self._start = 0
        self._finished = not piece
        if self._finished:
            # The line is returned all the same: an error in it is reported before the missing newline.
            last = piece or self._text
            self._truncated = bool(last) and not last.endswith(b"\n")
            if self._truncated:
                piece += b"\n"
        new_ends = np.flatnonzero(np.frombuffer(piece, np.uint8) == ord("\n")) + len(self._text) + 1
        self._text += piece
        self._ends = np.concatenate([self._ends, new_ends])
        if len(self._ends) and not self._begun:
            self._begun = True
            self._start = len(codecs.BOM_UTF8) * self._text.startswith(codecs.BOM_UTF8)
        if len(self._text) - (self._ends[-1] if len(self._ends) else 0) > MAX_LINE_BYTES:
            reason = f"the line is longer than {MAX_LINE_BYTES >> 20} MiB; this is not a data file"
            raise DataFormatError(self.path, self.line_number + len(self._ends), reason)


def decoded_lines(reader: LineReader, newline_needed: bool = False) -> Iterator[tuple[int, str]]:
    """Yield the number of each line, from 1, and its text without the line end.

    The last line may lack its newline unless `newline_needed`. DataFormatError if a line is not UTF-8, or not in the
    encoding of the reader, or has a carriage return that does not belong to its end.
    """
    reader.newline_needed = newline_needed
    number = 1
    while block := reader.read_lines(LINES):
        # Files with byte order marks may have been joined.
        block = block.removeprefix(codecs.BOM_UTF8) if number > 1 else block
        text = block.decode(errors="surrogateescape")
        if "\r" in text:
            # A file that was converted twice has several carriage returns before a newline.
            text = RETURNS.sub("\n", text)
        if "\n\ufeff" in text:
            text = text.replace("\n\ufeff", "\n")
        malformed = not text.isascii() and ESCAPED.search(text) or "\r" in text
        # Each line of the block ends with a newline.
        for line_number, line in enumerate(text.split("\n")[:-1], number):
            reader.decoded = line_number
            if malformed:
                _check_line(line, line_number, reader)
            yield line_number, line
        number = line_number + 1


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
    content = line.encode(errors="surrogateescape")
    position = len(line[: wrong.start()].encode())
    reason = f"byte 0x{content[position]:02x} at byte {position + 1} of the line is not UTF-8"
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
        shown = content.decode(encoding, "ignore")
    else:
        encoding = "cp1252" if wrong[0] not in NOT_CP1252 else "latin-1"
        word = max(content.rfind(blank, 0, position) for blank in (b" ", b"\t", b",")) + 1
        shown = content[word:].decode(encoding, "replace")
    raise DataFormatError(
        reader.path,
        number,
        f"{reason}; in {encoding} it reads {excerpt(shown[:SHOWN].strip())}: --encoding {encoding} reads a corpus so, "
        f"and `iconv -f {encoding} -t utf-8 FILE > NEW` converts any text",
    )


def _reason(error: UnicodeError) -> str:
    """Return why a block cannot be decoded, in the same words for all versions of Python."""
    reason = str(getattr(error, "reason", error))
    return "it does not start with a byte order mark" if reason.endswith("BOM") else reason
