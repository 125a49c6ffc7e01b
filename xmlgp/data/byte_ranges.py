"""Read a large data file on a Dask cluster: workers parse ranges of its bytes that end at line ends.

Ranges are chosen by the file alone. The workers find out that something is wrong, but not in which line: they do not
know how many lines are before a range. Then the caller reads the file itself.
"""

import os

from xmlgp.data.dataset import Dataset, as_csr, stack
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


def read_ranges(path, start, header, work):
    """Yield the points of a file in the repository's format, as many data sets as there are ranges.

    Parameters
    ----------
    path : str
        Neither compressed nor a pipe.
    start : int
        Where the first line after the header starts.
    header : Header
    work : ThisMachine or DaskCluster

    Raises
    ------
    Unreadable
        If the file is malformed, as far as workers can know.
    ClusterError
        If the cluster is lost.
    """
    missing = header.N
    with open(path, "rb") as stream:
        for arrays in work.map(_read_range, _ranges(stream, start), (os.path.abspath(path), header)):
            block = None if arrays is None else _as_dataset(arrays, header)
            if block is None or missing < block.N:
                raise Unreadable
            missing -= block.N
            yield block
    if missing:
        raise Unreadable


def _as_dataset(arrays, header):
    data, indices, indptr, label_indices, label_indptr = arrays
    return Dataset(as_csr(data, indices, indptr, header.D), as_csr(None, label_indices, label_indptr, header.K))


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


def _read_range(shared, start, stop):
    """Return the arrays of the points in a range; None if a line is malformed or very long."""
    path, header = shared
    try:
        with open(path, "rb") as stream:
            stream.seek(start)
            blocks = list(_blocks(LineReader(_Range(stream, stop - start), path), header))
    except (DataFormatError, Unreadable):
        return None
    features, labels = (points := stack(blocks)).features, points.labels
    return features.data, features.indices, features.indptr, labels.indices, labels.indptr


def _blocks(reader, header):
    # As many lines as a block has: each has a byte at least.
    while text := reader.read_lines(MAX_LINE_BYTES):
        if len(text) > LONG_LINE:
            raise Unreadable
        # The number of the line is not known here, so the error is not shown.
        yield parse_lines(text, header.D, header.K, reader.path, 1)


class _Range:
    """The next bytes of a stream, as many as given."""

    def __init__(self, stream, size):
        self._stream, self._left = stream, size

    def read1(self, size):
        piece = self._stream.read1(min(size, self._left))
        self._left -= len(piece)
        return piece
