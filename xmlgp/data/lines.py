"""Cutting a stream of text into pieces of whole lines, for parsers that work on a piece at a time."""

import numpy as np

from xmlgp.data.streams import DAMAGED_GZIP, describe_damage
from xmlgp.errors import DataFormatError

__all__ = ["BLOCK_BYTES", "LineReader"]

#: Text read at once. The arrays of `block_parser` for a MiB stay within a processor's cache; it is a third slower
#: with four.
BLOCK_BYTES = 1 << 20
#: A point of over three million features; more is taken for a file that is not text.
LINE_BYTES = 1 << 26


class LineReader:
    """Takes whole lines from a stream, and reads no more of it than they need.

    Parameters
    ----------
    stream : binary file
        With a `read1`.
    path : str
        Its name, for messages.

    Attributes
    ----------
    line : int
        The number of the line to be taken next, from 1.
    path : str
        The name.
    """

    def __init__(self, stream, path):
        self.line, self.path = 1, path
        self._stream = stream
        self._text = bytearray()
        self._start = 0  # what is before it in _text has been taken
        self._ends = np.empty(0, np.int64)  # of the whole lines in _text from _start on
        self._finished = False
        self._unended = False

    def take(self, most):
        """Return the next lines, each ended by a newline, even one at the end of the file that has none.

        Parameters
        ----------
        most : int
            Lines to return if there are so many; fewer if their text would fill more than a block.

        Returns
        -------
        bytes
            Empty at the end of the stream.

        Raises
        ------
        DataFormatError
            If a line is longer than `LINE_BYTES`, or gzip data are damaged; after the last line, if it had no newline:
            a number cut short is a number still, so nothing else tells a truncated file from a whole one.
        """
        while len(self._ends) < most and not (self._finished or self._is_full()):
            self._read()
        if not len(self._ends):
            if self._unended:
                reason = "the file ends within this line: it is truncated, or the newline at its end is missing"
                raise DataFormatError(self.path, self.line - 1, reason)
            return b""
        taken = min(most, len(self._ends))
        end = int(self._ends[taken - 1])
        text = bytes(memoryview(self._text)[self._start : end])
        self._start, self._ends = end, self._ends[taken:]
        self.line += taken
        return text

    def look(self):
        """Return the next line without taking it, as `take` would; empty at the end of the stream."""
        while not (len(self._ends) or self._finished):
            self._read()
        return bytes(memoryview(self._text)[self._start : self._ends[0]]) if len(self._ends) else b""

    def _is_full(self):
        """Whether most of a block is there: the rest of a line behind it may be long in coming."""
        return len(self._ends) > 0 and self._ends[-1] - self._start >= BLOCK_BYTES // 2

    def _read(self):
        """Append what the stream has to _text."""
        try:
            piece = self._stream.read1(BLOCK_BYTES)
        except DAMAGED_GZIP as error:
            raise DataFormatError(self.path, self.line + len(self._ends), describe_damage(error)) from error
        del self._text[: self._start]
        self._ends -= self._start
        self._start = 0
        if not piece:
            self._finished = True
            # The line is given out all the same, so that what else is wrong with it is told first.
            self._unended = bool(self._text) and not self._text.endswith(b"\n")
            if self._unended:
                piece = b"\n"
        new_ends = np.flatnonzero(np.frombuffer(piece, np.uint8) == ord("\n")) + len(self._text) + 1
        self._text += piece
        self._ends = np.concatenate([self._ends, new_ends])
        if len(self._text) - (self._ends[-1] if len(self._ends) else 0) > LINE_BYTES:
            reason = f"the line is longer than {LINE_BYTES >> 20} MiB, which no line of a data file is"
            raise DataFormatError(self.path, self.line + len(self._ends), reason)
