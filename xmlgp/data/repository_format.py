"""Read and write data files in the text format of the Extreme Classification Repository.

The first line of a file is `N D K`: the number of points, features and labels. N lines follow, as
below, and perhaps blank lines. No memory is allocated according to the first line, which may declare any number.

A line is `label,label,... feature:value feature:value ...` in ASCII, separated by spaces or tabs; the line of a point
without labels starts with a space or tab, or is empty. Labels and features are nonnegative integers; values are
decimals such as `1`, `.5`, `+1` and `-2.5e-3`. Labels and features may be in any order, but none may occur twice. A
value that is zero as a float32 is not stored.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from xmlgp.data.dataset import Dataset, Features, empty_dataset, stack
from xmlgp.data.files import open_output
from xmlgp.data.lines import LineReader
from xmlgp.data.scanner import scan_rows
from xmlgp.runtime.blocks import row_blocks
from xmlgp.runtime.errors import DataFormatError, XmlgpError
from xmlgp.runtime.untrusted_text import quote

__all__ = ["HEADER", "INDEX_BOUND", "MAX_HEADER_BYTES", "Header", "read_blocks", "read_points", "write_dataset"]

HEADER = re.compile(rb"[ \t]*(\d+)[ \t]+(\d+)[ \t]+(\d+)[ \t]*\r?\n")
#: Maximum length of the first line: three integers and generous whitespace.
MAX_HEADER_BYTES = 200
#: Indices are stored as 32-bit integers.
INDEX_BOUND = 2**31
#: What is said of a file with another first line.
ADVICE = "docs/data-formats.md joins features and labels that are in two files"
#: The digits from which the parser reads back each number of single precision.
NUMBER = ".9g"
#: Points formatted at once.
ROWS_PER_WRITE = 2048


class Header(NamedTuple):
    """The first line of a data file: the number of points, features and labels."""

    N: int
    D: int
    K: int


def read_points(reader: LineReader) -> Dataset:
    """Return the points of an open file (`LineReader` at the first line); DataFormatError has the line number."""
    header, blocks = read_blocks(reader)
    return replace(stack([empty_dataset(header.D, header.K), *blocks]), first_feature=0)


def write_dataset(path: str | os.PathLike[str], dataset: Dataset) -> None:
    """Write a data file from which `xmlgp.data.formats.read_dataset` reads the same data set.

    Parameters
    ----------
    path : str or Path
        The file, which appears when it is complete. It is gzipped if named `.gz`; `-` is standard output.
    dataset : Dataset
    """
    path = os.fspath(path)
    N = dataset.N
    with open_output(path) as stream:
        stream.write(b"%d %d %d\n" % dataset.shape)
        for rows in row_blocks(N, ROWS_PER_WRITE):
            block = dataset.rows(rows)
            if not np.isfinite(block.features.sparse.data).all():
                raise XmlgpError(f"{path}: a feature is not finite and cannot be written")
            stream.write("".join(_format_lines(block)).encode())


def read_blocks(reader: LineReader) -> tuple[Header, Iterator[Dataset]]:
    """Return the header of an open file, and its points in blocks.

    The `LineReader` is at the first line. This function and the iteration raise DataFormatError, which names the line.
    """
    header = _read_header(reader)
    return header, _read_rows(reader, header)


def _read_header(reader: LineReader) -> Header:
    """Return the numbers in the first line."""
    text = reader.read_lines(1)
    if not text:
        raise DataFormatError(reader.path, 1, "the file is empty")
    fields = HEADER.fullmatch(text) if len(text) <= MAX_HEADER_BYTES else None
    if not fields:
        line = quote(text.rstrip(b"\r\n"))
        raise DataFormatError(
            reader.path, 1, f"the first line must be three nonnegative integers `N D K`, not {line}; {ADVICE}"
        )
    header = Header(*map(int, fields.groups()))
    columns = max(header.D, header.K)
    if columns >= INDEX_BOUND:
        reason = f"the first line declares {columns} columns, but at most {INDEX_BOUND - 1} are supported"
        raise DataFormatError(reader.path, 1, reason)
    return header


def _read_rows(reader: LineReader, header: Header) -> Iterator[Dataset]:
    """Yield the points after the header."""
    N, D, K = header
    for line, text in reader.blocks(N):
        rows = scan_rows(text, line, reader.path, D, K)
        features = rows.features.astype(np.float32)
        features.eliminate_zeros()
        yield Dataset(Features(features), rows.labels)


def _format_lines(block: Dataset) -> Iterator[str]:
    """Yield the line of each point."""
    features = block.features.sparse
    columns, values = features.indices.tolist(), features.data.tolist()
    pairs = [f" {column}:{value:{NUMBER}}" for column, value in zip(columns, values, strict=True)]
    labels = list(map(str, block.labels.indices.tolist()))
    ends = features.indptr.tolist()
    label_ends = block.labels.indptr.tolist()
    for row in range(block.N):
        row_labels = ",".join(labels[label_ends[row] : label_ends[row + 1]])
        # Omikuji 0.5.2 refuses the lines ` `, `0 ` and `1:2`; it and napkinXC 0.7.2 read an empty one, `0` and ` 1:2`.
        yield row_labels + "".join(pairs[ends[row] : ends[row + 1]]) + "\n"
