"""Read points whose features and labels are in two files, as newer sets of the Extreme Classification Repository.

`NAME_X_Xf.txt` has the features and `NAME_X_Y.txt` the labels (or `NAME_ft_mat.txt` and `NAME_lbl_mat.txt`). The first
line of each is the number of points, N, and that of features or labels. N lines of `index:value` pairs follow, and
perhaps blank lines. A label has the value 1. One with the value 0 is none, and other positive ones are noted.

The points are not cached: the copy would be that of two files.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from xmlgp.data import repository_format
from xmlgp.data.dataset import Dataset, as_csr, consecutive_rows, no_points
from xmlgp.data.features import stack_rows
from xmlgp.data.line_parser import parse_lines
from xmlgp.data.lines import LineReader
from xmlgp.data.locate import FILTER, LABELS_OF, other_part, part_of
from xmlgp.data.repository_format import Header, read_declared, read_sizes
from xmlgp.data.streams import open_input
from xmlgp.errors import DataFormatError
from xmlgp.runtime.progress import ignore

__all__ = ["is_part", "read_blocks", "read_labels"]

HEADER = re.compile(rb" *(\d+) +(\d+)[ \t]*\r?\n")
#: A line of a file of pairs of a point and a label.
TWO_NUMBERS = re.compile(rb"[ \t]*\d+[ \t]+\d+\s*")


class _Sizes(NamedTuple):
    """The first line of one of the files: the number of points, and of features or labels."""

    N: int
    columns: int


def is_part(path: str, line: bytes, strict: bool = False) -> bool:
    """Return whether a file has features or labels alone, by its name, or by its first line unless that is `strict`."""
    if part_of(path) is None:
        return bool(HEADER.fullmatch(line)) and not strict
    return not repository_format.HEADER.fullmatch(line)


def read_blocks(
    reader: LineReader, labelled: bool, note: Callable[[str], object] = ignore
) -> tuple[Header, Iterator[tuple[int, Dataset]]]:
    """Return what `repository_format.read_blocks` does for one file; no labels are read unless `labelled`.

    The `LineReader` is at the first line of the features; the labels are beside them.
    """
    sizes = _read_sizes(reader)
    part = part_of(reader.path)
    if part == "labels" or (labelled and other_part(reader.path) is None):
        raise _alone(reader)
    if part is None:
        if _are_pairs(reader):
            raise _alone(reader)
        note(f"{reader.path}: taking lines of `feature:value` as features, of {sizes.N} points")
    blocks = _read_rows(reader, "feature", sizes)
    if not labelled:
        return Header(*sizes, 0), blocks
    labels = _read_labels_beside(reader, sizes.N, note)
    return Header(*sizes, labels.shape[1]), _with_labels(blocks, labels)


def read_labels(reader: LineReader, note: Callable[[str], object] = ignore) -> tuple[csr_array, int]:
    """Read the labels of points from a `LineReader` at the first line of their features, or of the labels alone.

    Return a csr_array of bool, N×K, and D, which is 0 if only the labels are known.
    """
    part = part_of(reader.path)
    sizes = _read_sizes(reader)
    if part == "features":
        return _read_labels_beside(reader, sizes.N, note), sizes.columns
    if part is None:
        if _are_pairs(reader):
            raise _alone(reader)
        note(f"{reader.path}: taking lines of `label:1` as labels, of {sizes.N} points")
    return _read_labels(reader, sizes, note, strict=part is None), 0


def _read_labels_beside(reader: LineReader, N: int, note: Callable[[str], object]) -> csr_array:
    """Return the labels beside the features of N points, whose file a `LineReader` reads."""
    path = other_part(reader.path)
    if path is None:
        raise _alone(reader)
    with open_input(path) as stream:
        labels = LineReader(stream, path)
        sizes = _read_sizes(labels)
        if sizes.N != N:
            raise DataFormatError(path, 1, f"the labels are of {sizes.N} points, but {reader.path} has {N}")
        return _read_labels(labels, sizes, note)


def _with_labels(blocks: Iterable[tuple[int, Dataset]], labels: csr_array) -> Iterator[tuple[int, Dataset]]:
    """Yield blocks of points with their labels."""
    start = 0
    for line, block in blocks:
        yield line, Dataset(block.features, consecutive_rows(labels, slice(start, start + block.N)))
        start += block.N


def _read_sizes(reader: LineReader) -> _Sizes:
    names = "N K" if part_of(reader.path) == "labels" else "N D"
    return _Sizes(*read_sizes(reader, HEADER, f"two nonnegative integers `{names}`"))


def _read_rows(reader: LineReader, kind: str, sizes: _Sizes) -> Iterator[tuple[int, Dataset]]:
    """Yield the line where each block of rows starts, and the rows as the features of points without labels."""
    parse = functools.partial(parse_lines, D=sizes.columns, K=0, path=reader.path, pairs_of=kind)
    return read_declared(reader, sizes.N, parse)


def _read_labels(reader: LineReader, sizes: _Sizes, note: Callable[[str], object], strict: bool = False) -> csr_array:
    """Return the labels of points, a csr_array of bool; values other than 1 are noted, or refused if `strict`."""
    matrices = [no_points(0, sizes.columns).labels]
    noted = False
    for line, block in _read_rows(reader, "label", sizes):
        rows = block.features.sparse
        wrong = rows.data != 1 if strict else rows.data < 0
        if wrong.any():
            position = int(np.argmax(wrong))
            line += int(np.searchsorted(rows.indptr, position, side="right")) - 1
            reason = f"label {rows.indices[position]} has the value {rows.data[position]:g}, but labels have 1"
            if strict:
                reason += "; if these are scores, they come first, then the data"
            raise DataFormatError(reader.path, line, reason)
        if not noted and (rows.data != 1).any():
            noted = True
            note(f"{reader.path}: labels with values such as {rows.data[rows.data != 1][0]:g} count as labels with 1")
        matrices.append(as_csr(None, rows.indices, rows.indptr, sizes.columns))
    return stack_rows(matrices)


def _are_pairs(reader: LineReader) -> bool:
    """Return whether a file, after its first line, has pairs of a point and a label."""
    return bool(FILTER.fullmatch(os.path.basename(reader.path)) or TWO_NUMBERS.fullmatch(reader.peek_line()))


def _alone(reader: LineReader) -> DataFormatError:
    """Return the error of a file, after its first line, that is only a part of data, or none."""
    part = part_of(reader.path)
    if part is not None:
        other = "labels" if part == "features" else "features"
        expected = other_part(reader.path, missing=True)
        return DataFormatError(
            reader.path, 1, f"this file has {part} alone; the {other} must be in {expected} beside it"
        )
    if _are_pairs(reader):
        reason = "these are pairs of a point and a label, which `xmlgp evaluate --filter-labels FILE` leaves out"
        return DataFormatError(reader.path, 1, reason)
    names = " and ".join(f"NAME{part}.txt" for part in next(iter(LABELS_OF.items())))
    reason = (
        "a first line of two numbers is that of features alone, of labels alone, or of scores; features and labels are "
        f"read together if they are called {names}, in one folder"
    )
    return DataFormatError(reader.path, 1, reason)
