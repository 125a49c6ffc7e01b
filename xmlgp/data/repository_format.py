"""Read and write data files in the text format of the Extreme Classification Repository.

The first line of a file is `N D K`: the number of points, features and labels. N lines follow, as
below, and perhaps blank lines. No memory is allocated according to the first line, which may declare any number.

A line is `label,label,... feature:value feature:value ...` in ASCII, separated by spaces or tabs; the line of a point
without labels starts with a space or tab. Labels and features are nonnegative integers; values are decimals such as
`1`, `.5`, `+1` and `-2.5e-3`. Labels and features may be in any order, but none may occur twice. A value that is zero
as a float32 is not stored.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from xmlgp.data.dataset import Dataset, as_csr, no_points, stack
from xmlgp.data.features import Features
from xmlgp.data.lines import LineReader
from xmlgp.data.scanner import Indices, empty_numbers, number_values, reason_of, repeated, row_of, scan_repository
from xmlgp.data.streams import open_input, open_output
from xmlgp.runtime.blocks import row_blocks
from xmlgp.runtime.errors import DataFormatError, XmlgpError
from xmlgp.runtime.progress import Progress, silent
from xmlgp.runtime.untrusted_text import quote

__all__ = [
    "Header",
    "parse_lines",
    "read_blocks",
    "read_dataset",
    "read_declared",
    "read_points",
    "read_sizes",
    "stack_blocks",
    "write_dataset",
]

HEADER = re.compile(rb"[ \t]*(\d+)[ \t]+(\d+)[ \t]+(\d+)[ \t]*\r?\n")
#: Maximum length of the first line: three integers and generous whitespace.
MAX_HEADER_BYTES = 200
#: Indices are stored as 32-bit integers.
INDEX_BOUND = 2**31
#: Points formatted at once.
ROWS_PER_WRITE = 2048


class Header(NamedTuple):
    """The first line of a data file: the number of points, features and labels."""

    N: int
    D: int
    K: int


def read_dataset(path: str | os.PathLike[str], progress: Progress = silent) -> Dataset:
    """Read a whole data file.

    Parameters
    ----------
    path : str or Path
        A text file, a gzip file named `.gz`, or `-` for standard input.
    progress : callable
        See `xmlgp.runtime.progress`.

    Returns
    -------
    Dataset

    Raises
    ------
    DataFormatError
        If the file is malformed; it names the line.
    """
    path = os.fspath(path)
    with open_input(path) as stream:
        return read_points(LineReader(stream, path), progress)


def read_points(reader: LineReader, progress: Progress = silent) -> Dataset:
    """Read a whole data file from a `LineReader` at its first line, as `read_dataset` does."""
    return stack_blocks(*read_blocks(reader), reader.path, progress)


def stack_blocks(header: Header, blocks: Iterable[tuple[int, Dataset]], path: str, progress: Progress) -> Dataset:
    """Return all points of a file with a header and blocks as `read_blocks` returns them."""
    parts = [no_points(header.D, header.K)]
    with progress(f"reading {path}", total=header.N, unit=" points") as bar:
        for _, block in blocks:
            parts.append(block)
            bar.update(block.N)
    return stack(parts)


def write_dataset(path: str | os.PathLike[str], dataset: Dataset, progress: Progress = silent) -> None:
    """Write a data file from which `read_dataset` reads the same data set.

    Parameters
    ----------
    path : str or Path
        The file, which appears when it is complete. It is gzipped if named `.gz`; `-` is standard output.
    dataset : Dataset
    progress : callable
        See `xmlgp.runtime.progress`.
    """
    path = os.fspath(path)
    N = dataset.N
    with open_output(path) as stream, progress(f"writing {os.path.basename(path)}", total=N, unit=" points") as bar:
        stream.write(b"%d %d %d\n" % dataset.shape)
        for rows in row_blocks(N, ROWS_PER_WRITE):
            block = dataset.rows(rows)
            if not np.isfinite(block.features.sparse.data).all():
                raise XmlgpError(f"{path}: a feature is not finite and cannot be written")
            stream.write("".join(_format_lines(block)).encode())
            bar.update(block.N)


def read_blocks(reader: LineReader) -> tuple[Header, Iterator[tuple[int, Dataset]]]:
    """Return the header of an open file, and each block of points with the number of its first line.

    The `LineReader` is at the first line. This function and the iteration raise DataFormatError, which names the line.
    """
    header = Header(*read_sizes(reader, HEADER, "three nonnegative integers `N D K`"))
    return header, read_declared(
        reader, header.N, lambda text, first_line: parse_lines(text, first_line, header.D, header.K, reader.path)
    )


def read_sizes(reader: LineReader, header: re.Pattern[bytes], expected: str) -> tuple[int, ...]:
    """Return the numbers in the first line of a file; if it does not match, DataFormatError says what is `expected`."""
    text = reader.read_lines(1)
    if not text:
        raise DataFormatError(reader.path, 1, "the file is empty")
    fields = header.fullmatch(text) if len(text) <= MAX_HEADER_BYTES else None
    if not fields:
        line = quote(text.rstrip(b"\r\n"))
        raise DataFormatError(reader.path, 1, f"the first line must be {expected}, not {line}")
    sizes = tuple(map(int, fields.groups()))
    for columns in sizes[1:]:
        if columns >= INDEX_BOUND:
            reason = f"the first line declares {columns} columns, but at most {INDEX_BOUND - 1} are supported"
            raise DataFormatError(reader.path, 1, reason)
    return sizes


def read_declared(reader: LineReader, N: int, parse: Callable[[bytes, int], Dataset]) -> Iterator[tuple[int, Dataset]]:
    """Yield the N points after the header as `read_blocks` does; `parse(text, first_line)` returns those of lines."""
    remaining = N
    while remaining:
        line_number = reader.line_number
        text = reader.read_lines(remaining)
        if not text:
            reason = f"the file ends after {N - remaining} of {N} points declared in its first line"
            raise DataFormatError(reader.path, line_number, reason)
        for block in _parse_blocks(text, parse, line_number):
            remaining -= block.N
            yield line_number, block
    if extra_line := reader.skip_blank_lines():
        reason = f"the file has more points than the {N} that its first line declares"
        raise DataFormatError(reader.path, extra_line, reason)


def _parse_blocks(text: bytes, parse: Callable[[bytes, int], Dataset], first_line: int) -> Iterator[Dataset]:
    """Yield the points of some lines; at a malformed line, yield the points before it and raise."""
    try:
        yield parse(text, first_line)
    except DataFormatError as error:
        lines = text.split(b"\n")[: error.line - first_line]
        if lines:
            yield from _parse_blocks(b"\n".join([*lines, b""]), parse, first_line)
        raise


def parse_lines(text: bytes, first_line: int, D: int, K: int, path: str, pairs_of: str | None = None) -> Dataset:
    """Return the `Dataset` of some complete lines, each with a newline at its end, of a file that declares D and K.

    If lines have `index:value` pairs alone, without a list of labels, `pairs_of` says what the indices are ("feature"
    or "label"). `text` starts with line `first_line` of the file `path`. DataFormatError names a malformed line; there
    may be others before it that are malformed because of an index that occurs twice or a value that is too large.
    """
    line_count = text.count(b"\n")
    labels = np.empty(line_count + text.count(b","), np.int32)
    pairs = empty_numbers(text.count(b":"))
    # Row 0 says where the labels of each line end, row 1 where its pairs end.
    ends = np.empty((2, line_count + 1), np.int64)
    mistake = np.zeros(2, np.int64)
    indices = Indices(K, D, feature=pairs_of or "feature")
    if not scan_repository(np.frombuffer(text, np.uint8), D, K, pairs_of is None, labels, pairs, ends, mistake):
        line = first_line + text.count(b"\n", 0, int(mistake[1]))
        raise DataFormatError(path, line, reason_of(text, mistake, indices))
    pairs = pairs[:, : ends[1, -1]]
    values = number_values(text, pairs)
    features = as_csr(values.astype(np.float32), pairs[0].astype(np.int32), ends[1], D)
    label_matrix = as_csr(None, labels[: ends[0, -1]], ends[0], K)
    mistakes = []
    for matrix, name in ((label_matrix, indices.label), (features, indices.feature)):
        matrix.sort_indices()
        if not matrix.has_canonical_format:
            position = int(repeated(matrix.indices, matrix.indptr)[0])
            mistakes.append((row_of(position, matrix.indptr), f"{name} {matrix.indices[position]} occurs twice"))
    if not np.isfinite(values).all():
        position = int(np.isfinite(values).argmin())
        reason = f"the value of {indices.feature} {pairs[0, position]} is too large for a 32-bit floating-point number"
        mistakes.append((row_of(position, ends[1]), reason))
    if mistakes:
        row, reason = min(mistakes)
        raise DataFormatError(path, first_line + row, reason)
    features.eliminate_zeros()
    return Dataset(Features(features), label_matrix)


def _format_lines(block: Dataset) -> Iterator[str]:
    """Yield the line of each point."""
    features = block.features.sparse
    texts = _shortest_decimals(features.data)
    pairs = [f" {column}:{text}" for column, text in zip(features.indices.tolist(), texts, strict=True)]
    labels = list(map(str, block.labels.indices.tolist()))
    ends = features.indptr.tolist()
    label_ends = block.labels.indptr.tolist()
    for row in range(block.N):
        row_labels = ",".join(labels[label_ends[row] : label_ends[row + 1]])
        # Some readers skip empty lines, so a point without labels and features gets a space.
        yield (row_labels + "".join(pairs[ends[row] : ends[row + 1]]) or " ") + "\n"


def _shortest_decimals(values: NDArray[np.floating]) -> list[str]:
    """Return the shortest decimal of each float32 that the parser reads back as the same number."""
    distinct, inverse = np.unique(values, return_inverse=True)
    # NumPy's decimals are the shortest for a parser that rounds once. Ours rounds to a double first, which makes a
    # difference next to a tie; for these numbers the decimal of the double is right.
    doubles = np.array([float(str(value)) for value in distinct])
    misread = doubles.astype(np.float32) != distinct
    doubles[misread] = distinct[misread]
    texts = [repr(double).removesuffix(".0") for double in doubles.tolist()]
    decimals: list[str] = np.array(texts, dtype=object)[inverse].tolist()
    return decimals
