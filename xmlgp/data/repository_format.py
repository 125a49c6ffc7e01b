"""Reading and writing data files in the text format of the Extreme Classification Repository.

The first line of a file is `N D K`: the number of points, features and labels. N lines follow, as defined in
`xmlgp.data.line_parser`. Text is read in blocks of whole lines by `block_parser`, which is fast; a block it does
not understand goes to `line_parser`, which accepts it or says what is wrong in which line. Nothing is ever
allocated by what the first line claims.
"""

import contextlib
import os
import re
from functools import partial
from typing import NamedTuple

import numpy as np

from xmlgp.data import cache as text_cache
from xmlgp.data.block_parser import parse_block
from xmlgp.data.dataset import stack
from xmlgp.data.line_parser import parse_lines, quoted
from xmlgp.data.lines import LineReader
from xmlgp.data.streams import open_input, open_output
from xmlgp.errors import DataFormatError, XmlgpError
from xmlgp.runtime.progress import silent

__all__ = ["Header", "read_blocks", "read_dataset", "read_points", "read_steps", "write_dataset"]

HEADER = re.compile(rb"[ \t]*(\d+)[ \t]+(\d+)[ \t]+(\d+)[ \t]*\r?\n")
#: Three integers, with room for untidy blanks.
HEADER_BYTES = 200
#: Indices are stored as 32-bit integers.
INDEX_BOUND = 2**31
#: Points formatted at a time.
ROWS_WRITTEN = 2048


class Header(NamedTuple):
    """What the first line of a data file announces: the number of points, features and labels."""

    N: int
    D: int
    K: int


def read_dataset(path, cache=True, progress=silent):
    """Read a whole data file.

    Parameters
    ----------
    path : str or Path
        A text file, a gzip file named `.gz`, or `-` for standard input.
    cache : bool
        Keep a binary copy in the user's cache folder, and use it while the file is unchanged. Its arrays are
        mapped into memory read-only, and making it takes little memory, however large the file.
    progress : callable
        See `xmlgp.runtime.progress`.

    Returns
    -------
    Dataset

    Raises
    ------
    DataFormatError
        If the file is malformed, naming the line.
    """
    path = os.fspath(path)
    if cache and path != "-" and os.path.isfile(path):
        # A cache that cannot be written is done without; what is wrong with the text comes up again below.
        with contextlib.suppress(OSError):
            dataset = text_cache.load_or_store(path, partial(_read_all, path, progress))
            if dataset is not None:
                return dataset
    with open_input(path) as stream:
        return read_points(LineReader(stream, path), progress)


def read_points(reader, progress=silent):
    """Read a whole data file that was opened by someone else, without the cache.

    Parameters
    ----------
    reader : LineReader
        At the first line.
    progress : callable
        See `xmlgp.runtime.progress`.

    Returns
    -------
    Dataset

    Raises
    ------
    DataFormatError
        If the file is malformed, naming the line.
    """
    steps = read_steps(reader)
    header = next(steps)
    blocks = _reported(header, steps, reader.path, progress)
    return stack([parse_block(b"", header.D, header.K), *blocks])


def read_blocks(path, rows=None):
    """Read a data file piece by piece, taking no more from it than the next piece needs.

    Parameters
    ----------
    path : str or Path
        As for `read_dataset`.
    rows : int, optional
        Points in a block; the last block may have fewer, and so may one whose text is longer than
        `lines.BLOCK_BYTES`. By default blocks are as large as is fast to read.

    Returns
    -------
    header : Header
        Read at once.
    blocks : iterator of (int, Dataset)
        The line of the file where each block starts, and its points. The file is closed when the iterator is
        exhausted or dropped.

    Raises
    ------
    DataFormatError
        If the file is malformed, naming the line: here or by the iterator, when it comes to that line.
    """
    if rows is not None and rows < 1:
        raise ValueError(f"blocks of {rows} rows")
    steps = _read_steps(os.fspath(path), rows)
    return next(steps), steps


def write_dataset(path, dataset, progress=silent):
    """Write a data file that reads back the same.

    Parameters
    ----------
    path : str or Path
        The file, which appears when complete; gzip if named `.gz`; `-` for standard output.
    dataset : Dataset
    progress : callable
        See `xmlgp.runtime.progress`.
    """
    path = os.fspath(path)
    with open_output(path) as stream, progress(f"writing {path}", total=dataset.N, unit=" points") as bar:
        stream.write(b"%d %d %d\n" % (dataset.N, dataset.D, dataset.K))
        for start in range(0, dataset.N, ROWS_WRITTEN):
            block = dataset.rows(slice(start, start + ROWS_WRITTEN))
            if not np.isfinite(block.features.data).all():
                raise XmlgpError(f"{path}: cannot be written, for a feature is not finite")
            stream.write("".join(_format_lines(block)).encode())
            bar.update(block.N)


def _read_all(path, progress):
    """Return the header and an iterator of the data sets that make up the file, reporting to `progress`."""
    header, blocks = read_blocks(path)
    return header, _reported(header, blocks, path, progress)


def _reported(header, blocks, path, progress):
    """Yield the data sets among what `read_blocks` gives, reporting to `progress`."""
    with progress(f"reading {path}", total=header.N, unit=" points") as bar:
        for _, block in blocks:
            yield block
            bar.update(block.N)


def _read_steps(path, rows):
    with open_input(path) as stream:
        yield from read_steps(LineReader(stream, path), rows)


def read_steps(reader, rows=None):
    """Yield the header, then the line where each block starts and its points, as `read_blocks` returns them.

    Parameters
    ----------
    reader : LineReader
        At the first line.
    rows : int, optional
        As for `read_blocks`.

    Raises
    ------
    DataFormatError
        If the file is malformed, naming the line, on coming to that line.
    """
    path = reader.path
    header = _parse_header(reader.take(1), path)
    yield header
    missing = header.N
    while missing:
        line = reader.line
        text = reader.take(missing if rows is None else min(rows, missing))
        if not text:
            found = f"the file ends after {header.N - missing} points"
            raise DataFormatError(path, line, f"{found}, its first line announces {header.N}")
        block = parse_block(text, header.D, header.K)
        if block is None:
            block = parse_lines(text, header.D, header.K, path, line)
        missing -= block.N
        yield line, block
    line = reader.line
    if reader.take(1):
        raise DataFormatError(path, line, f"one point more than the {header.N} that the first line announces")


def _parse_header(text, path):
    """Return the `Header` in the first line."""
    if not text:
        raise DataFormatError(path, 1, "the file is empty")
    fields = HEADER.fullmatch(text) if len(text) <= HEADER_BYTES else None
    if not fields:
        shown = quoted(text.rstrip(b"\r\n"))
        raise DataFormatError(path, 1, f"the first line must be three nonnegative integers `N D K`, not {shown}")
    header = Header(*map(int, fields.groups()))
    for name, count in ("features", header.D), ("labels", header.K):
        if count >= INDEX_BOUND:
            raise DataFormatError(path, 1, f"{count} {name} are announced, more than the {INDEX_BOUND - 1} supported")
    return header


def _format_lines(block):
    """Yield the line of each point."""
    texts = _shortest_decimals(block.features.data)
    pairs = [f" {column}:{text}" for column, text in zip(block.features.indices.tolist(), texts, strict=True)]
    labels = list(map(str, block.labels.indices.tolist()))
    for row in range(block.N):
        of_labels = slice(*block.labels.indptr[row : row + 2])
        of_features = slice(*block.features.indptr[row : row + 2])
        # A blank for a point that has neither, as some readers skip empty lines.
        yield (",".join(labels[of_labels]) + "".join(pairs[of_features]) or " ") + "\n"


def _shortest_decimals(values):
    """Return for each float32 the text of the fewest digits that reads back the same."""
    distinct, places = np.unique(values, return_inverse=True)
    # NumPy's digits are the fewest for a reader that rounds once; ours rounds to a double in between, which makes a
    # difference next to a tie. The digits of the double itself are always right.
    doubles = np.array([float(str(value)) for value in distinct])
    misread = doubles.astype(np.float32) != distinct
    doubles[misread] = distinct[misread]
    texts = [repr(double).removesuffix(".0") for double in doubles.tolist()]
    return np.array(texts, dtype=object)[places].tolist()
