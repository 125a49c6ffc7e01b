"""Read a large data file on a Dask cluster: workers parse ranges of its bytes that end at line ends.

Ranges are chosen by the file alone. The workers find out that something is wrong, but not in which line: they do not
know how many lines are before a range. Then the caller reads the file itself.
"""

import os

from xmlgp.data.dataset import Dataset, as_csr
from xmlgp.data.line_parser import parse_lines
from xmlgp.data.lines import MAX_LINE_BYTES
from xmlgp.errors import DataFormatError

__all__ = ["Unreadable", "read_ranges"]

#: Bytes of a range: a worker parses them in some hundredths of a second, more than it costs to start a task.
RANGE = 1 << 23


class Unreadable(Exception):
    """A file that the workers cannot read: it is malformed, or a line is very long."""


def read_ranges(path, start, header, work):
    """Yield the points of a file in the repository's format, as many data sets as there are ranges.

    The file is neither compressed nor a pipe, and its first line after the `Header` starts at byte `start`.
    `Unreadable` is raised if it is malformed, as far as workers can know, ClusterError if the cluster is lost.
    """
    missing = header.N
    with open(path, "rb") as stream:
        for arrays in work.map(_read_range, _ranges(stream, start), (os.path.abspath(path), header)):
            if arrays is None or missing < len(arrays[2]) - 1:
                raise Unreadable
            data, indices, indptr, label_indices, label_indptr = arrays
            missing -= len(indptr) - 1
            yield Dataset(as_csr(data, indices, indptr, header.D), as_csr(None, label_indices, label_indptr, header.K))
    if missing:
        raise Unreadable


def _ranges(stream, start):
    """Yield the first byte and the end of each range; raise `Unreadable` if the file ends within a line."""
    size = stream.seek(0, os.SEEK_END)
    if start > size:  # the newline after the header is missing
        raise Unreadable
    while start < size:
        stream.seek(min(start + RANGE, size) - 1)
        # So no line of the range is longer than a line may be.
        if not stream.readline(MAX_LINE_BYTES - RANGE).endswith(b"\n"):
            raise Unreadable
        yield start, stream.tell()
        start = stream.tell()


def _read_range(shared, start, stop):
    """Return the arrays of the points in a range; None if a line is malformed."""
    path, header = shared
    with open(path, "rb") as stream:
        stream.seek(start)
        text = stream.read(stop - start)
    if not text.endswith(b"\n"):  # the file has been truncated since
        return None
    try:
        # The number of the line is not known here, so the error is not shown.
        points = parse_lines(text, header.D, header.K, path, 1)
    except DataFormatError:
        return None
    features, labels = points.features, points.labels
    return features.data, features.indices, features.indptr, labels.indices, labels.indptr
