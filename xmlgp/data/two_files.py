"""Read points whose features and labels are in two files, as newer sets of the Extreme Classification Repository.

`NAME_X_Xf.txt` has the features and `NAME_X_Y.txt` the labels (or `NAME_ft_mat.txt` and `NAME_lbl_mat.txt`). The first
line of each is the number of points, N, and that of features or labels. N lines of `index:value` pairs follow, and
perhaps blank lines. A label has the value 1. One with the value 0 is none, and other positive ones are noted.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator

from scipy.sparse import csr_array

from xmlgp.data import repository_format
from xmlgp.data.dataset import Dataset, as_csr, consecutive_rows, no_points
from xmlgp.data.features import stack_rows
from xmlgp.data.lines import LineReader
from xmlgp.data.locate import LABELS_OF, other_part, part_of
from xmlgp.data.repository_format import Header, parse_lines, read_declared, read_sizes
from xmlgp.data.scanner import row_of
from xmlgp.data.streams import open_input
from xmlgp.runtime.errors import DataFormatError
from xmlgp.runtime.progress import ignore

__all__ = ["is_part", "read_blocks", "read_labels"]

HEADER = re.compile(rb" *(\d+) +(\d+)[ \t]*\r?\n")


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
    if part_of(reader.path) != "features" or (labelled and other_part(reader.path) is None):
        raise _alone(reader.path)
    N, D = read_sizes(reader, HEADER, "two nonnegative integers `N D`")
    blocks = _read_rows(reader, "feature", N, D)
    if not labelled:
        return Header(N, D, 0), blocks
    labels = _read_labels_beside(reader.path, N, note)
    return Header(N, D, labels.shape[1]), _with_labels(blocks, labels)


def read_labels(reader: LineReader, note: Callable[[str], object] = ignore) -> tuple[csr_array, int]:
    """Read the labels of points from a `LineReader` at the first line of their features, or of the labels alone.

    Return a csr_array of bool, N×K, and D, which is 0 if only the labels are known.
    """
    part = part_of(reader.path)
    if part is None:
        raise _alone(reader.path)
    N, columns = read_sizes(reader, HEADER, f"two nonnegative integers `N {'D' if part == 'features' else 'K'}`")
    if part == "features":
        return _read_labels_beside(reader.path, N, note), columns
    return _read_labels(reader, N, columns, note), 0


def _read_labels_beside(path: str, N: int, note: Callable[[str], object]) -> csr_array:
    """Return the labels beside the file of the features of N points."""
    label_path = other_part(path)
    if label_path is None:
        raise _alone(path)
    with open_input(label_path) as stream:
        labels = LineReader(stream, label_path)
        count, K = read_sizes(labels, HEADER, "two nonnegative integers `N K`")
        if count != N:
            raise DataFormatError(label_path, 1, f"the labels are of {count} points, but {path} has {N}")
        return _read_labels(labels, N, K, note)


def _with_labels(blocks: Iterable[tuple[int, Dataset]], labels: csr_array) -> Iterator[tuple[int, Dataset]]:
    """Yield blocks of points with their labels."""
    start = 0
    for line, block in blocks:
        yield line, Dataset(block.features, consecutive_rows(labels, slice(start, start + block.N)))
        start += block.N


def _read_rows(reader: LineReader, kind: str, N: int, columns: int) -> Iterator[tuple[int, Dataset]]:
    """Yield the line where each block of rows starts, and the rows as the features of points without labels."""
    parse = functools.partial(parse_lines, D=columns, K=0, path=reader.path, pairs_of=kind)
    return read_declared(reader, N, parse)


def _read_labels(reader: LineReader, N: int, K: int, note: Callable[[str], object]) -> csr_array:
    """Return the labels of points, a csr_array of bool; values other than 1 are noted."""
    matrices = [no_points(0, K).labels]
    others = None
    for line, block in _read_rows(reader, "label", N, K):
        rows = block.features.sparse
        if (rows.data < 0).any():
            position = int((rows.data < 0).argmax())
            reason = f"label {rows.indices[position]} has the value {rows.data[position]:g}, but labels have 1"
            raise DataFormatError(reader.path, line + row_of(position, rows.indptr), reason)
        others = others or next(iter(rows.data[rows.data != 1].tolist()), None)
        matrices.append(as_csr(None, rows.indices, rows.indptr, K))
    if others:
        note(f"{reader.path}: labels with values such as {others:g} count as labels with 1")
    return stack_rows(matrices)


def _alone(path: str) -> DataFormatError:
    """Return the error of a file that is only a part of data, or none."""
    part = part_of(path)
    if part is not None:
        other = "labels" if part == "features" else "features"
        expected = other_part(path, missing=True)
        return DataFormatError(path, 1, f"this file has {part} alone; the {other} must be in {expected} beside it")
    names = " and ".join(f"NAME{part}.txt" for part in next(iter(LABELS_OF.items())))
    reason = (
        "a first line of two numbers is that of features alone, of labels alone, of pairs to leave out, or of scores; "
        f"features and labels are read together if they are called {names}, in one folder"
    )
    return DataFormatError(path, 1, reason)
