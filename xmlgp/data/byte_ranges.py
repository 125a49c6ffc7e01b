"""Read a large data file on a Dask cluster: workers parse ranges of its bytes that end at line ends.

Each range becomes a folder with arrays on shared storage, and this machine puts them together. Ranges are chosen by the
file alone. The workers find out that something is wrong, but not in which line: they do not know how many lines are
before a range. Then the caller reads the file itself.
"""

import os
import shutil

from xmlgp.data.block_parser import parse_block
from xmlgp.data.cache import read_part, write_part
from xmlgp.data.line_parser import parse_lines
from xmlgp.data.lines import BLOCK_BYTES, MAX_LINE_BYTES, LineReader
from xmlgp.errors import DataFormatError

__all__ = ["Unreadable", "read_ranges"]

#: Bytes of a range: a worker parses them in some tenths of a second, far more than it costs to start a task.
RANGE = 1 << 24

#: Whether a longer line is an error depends on where blocks end.
LONG_LINE = MAX_LINE_BYTES - 2 * BLOCK_BYTES


class Unreadable(Exception):
    """A file that the workers cannot read: it is malformed, or a line is very long."""


def read_ranges(path, start, header, cluster):
    """Yield the points of a file in the repository's format, as many data sets as there are ranges.

    Parameters
    ----------
    path : str
        Neither compressed nor a pipe.
    start : int
        Where the first line after the header starts.
    header : Header
    cluster : Cluster
        Anything with its methods `map` and `new_folder`.

    Raises
    ------
    Unreadable
        If the file is malformed, as far as workers can know.
    XmlgpError
        As `map` raises it.
    """
    path, folder = os.path.abspath(path), cluster.new_folder("ranges")
    missing = header.N
    try:
        with open(path, "rb") as stream:
            items = ((path, part, header, folder / str(part[0])) for part in _ranges(stream, start))
            for written in cluster.map(_read_range, items):
                block = None if written is None else read_part(written, header)
                if block is None or missing < block.N:
                    raise Unreadable
                missing -= block.N
                yield block
                shutil.rmtree(written, ignore_errors=True)
        if missing:
            raise Unreadable
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _ranges(stream, start):
    """Yield the first byte and the end of each range; raise `Unreadable` if the file ends within a line."""
    size = stream.seek(0, os.SEEK_END)
    if start > size:  # the newline after the header is missing
        raise Unreadable
    while start < size:
        stream.seek(min(start + RANGE, size) - 1)
        if not stream.readline(LONG_LINE).endswith(b"\n"):
            raise Unreadable
        yield start, stream.tell()
        start = stream.tell()


def _read_range(path, part, header, folder):
    """Write the points of a range to a folder, and return the folder; None if a line is malformed or very long."""
    try:
        with open(path, "rb") as stream:
            stream.seek(part[0])
            write_part(folder, _blocks(LineReader(_Range(stream, part[1] - part[0]), path), header))
    except (DataFormatError, Unreadable):
        return None
    return folder


def _blocks(reader, header):
    # As many lines as a block has: each has a byte at least.
    while text := reader.read_lines(MAX_LINE_BYTES):
        if len(text) > LONG_LINE:
            raise Unreadable
        block = parse_block(text, header.D, header.K)
        # The number of the line is not known here, so the error is not shown.
        yield parse_lines(text, header.D, header.K, reader.path, 1) if block is None else block


class _Range:
    """The next bytes of a stream, as many as given."""

    def __init__(self, stream, size):
        self._stream, self._left = stream, size

    def read1(self, size):
        piece = self._stream.read1(min(size, self._left))
        self._left -= len(piece)
        return piece
