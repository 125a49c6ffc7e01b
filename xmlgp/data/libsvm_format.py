"""Read data in the text format of libsvm and svmlight, of two classes or of several labels a point.

A line is `labels feature:value feature:value …`, separated by spaces or tabs. Values are decimals as in
`xmlgp.data.repository_format`, features in any order. Text after a `#` is a comment; lines with nothing else are
ignored.

In a file of two classes a line has one label. The labels of the file are either -1 and +1, or 0 and 1; features start
at 1.

Labels that are separated by commas, in any line, make the file one of several labels a point. Labels are then numbers
from 0, and a line may have none. Features start at 1, unless a feature 0 occurs.
"""

import re
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.data.dataset import Dataset, Features, as_csr, stack_rows
from xmlgp.data.lines import LineReader
from xmlgp.data.scanner import ScannedRows, scan_rows
from xmlgp.runtime.errors import DataFormatError
from xmlgp.runtime.progress import Progress, ignore, silent

__all__ = ["MAX_FEATURES", "read_points"]

#: Maximum index of a feature or label. Models allocate memory for each, so one line could exhaust it.
MAX_FEATURES = 10_000_000

COMMENT = re.compile(rb"#[^\n]*")


def read_points(
    reader: LineReader,
    progress: Progress = silent,
    multilabel: bool | None = None,
    note: Callable[[str], object] = ignore,
    labelled: bool = True,
) -> tuple[Dataset, bool]:
    """Read a whole data file from a `LineReader` at its first line; DataFormatError names the line of an error.

    Return the `Dataset` and whether it is multi-label. `multilabel` prescribes this; None infers it from the file.
    Points of two classes have K = 1 label, which those labelled +1 or 1 have. The highest index is the number of
    features, and feature 1 of the file is feature 0. With several labels, the highest label determines K, and `note`
    gets the assumptions. Unless they are to be `labelled`, K is 0, and labels may be any numbers.
    """
    blocks = []
    line = reader.line_number
    with progress(f"reading {reader.path}", unit=" points") as bar:
        while text := reader.read_lines():
            block = scan_rows(
                COMMENT.sub(b"", text), line, reader.path, MAX_FEATURES + 1, MAX_FEATURES + 1, libsvm=True
            )
            if block.error:
                raise block.error
            blocks.append(block)
            bar.update(len(block.lines))
            line = reader.line_number
    if not any(len(block.lines) for block in blocks):
        raise DataFormatError(reader.path, line, "the file has no points")
    labels, features, lines, _ = zip(*blocks, strict=True)
    rows = ScannedRows(stack_rows(labels), stack_rows(features), np.concatenate(lines), None)
    if multilabel or (multilabel is None and (np.diff(rows.labels.indptr) > 1).any()):
        return _of_several_labels(rows, reader.path, note, labelled), True
    return _of_two_classes(rows, reader.path), False


def _of_two_classes(rows: ScannedRows, path: str) -> Dataset:
    """Return points of two classes, in double precision; DataFormatError names the line of another kind."""
    advice = "rows of many labels need a first line `N D K`"
    _refuse(rows, np.diff(rows.labels.indptr) != 1, path, f"a line needs one label, -1, +1, 0 or 1; {advice}")
    labels = rows.labels.indices - 1
    _refuse(rows, labels > 1, path, f"the label is not one of -1, +1, 0, 1; {advice}")
    if (labels < 0).any():
        _refuse(rows, labels == 0, path, "labels must be either -1 and +1 or 0 and 1, but this file has -1 and 0")
    advice = "in scikit-learn, use dump_svmlight_file with zero_based=False"
    _refuse(rows, _has_column_0(rows.features), path, f"features start at 1, not 0 ({advice})")
    indptr = np.concatenate([[0], np.cumsum(labels > 0)])
    positive = as_csr(None, np.zeros(indptr[-1], np.int32), indptr, 1)
    return Dataset(_features(rows.features, 1), positive)


def _of_several_labels(rows: ScannedRows, path: str, note: Callable[[str], object], labelled: bool) -> Dataset:
    """Return points with several labels, or without, in single precision as in other formats."""
    labels = csr_array((len(rows.lines), 0), dtype=bool)
    if labelled:
        reason = f"label -1 is not a number from 0 to {MAX_FEATURES}, as several labels are"
        _refuse(rows, _has_column_0(rows.labels), path, reason)
        labels = _from_column(rows.labels, 1)
    first = int(rows.features.indices.min(initial=1) > 0)
    why = "none is 0; rows that count from 0 need a first line `N D K`" if first else "one is 0"
    note(f"{path}: labels are the numbers as they are; features count from {first}, as {why}")
    between = int(rows.lines[-1] - rows.lines[0]) + 1 - len(rows.lines)
    if between:
        note(f"{path}: {between} blank lines or comments between points are no points")
    return Dataset(_features(rows.features, first).astype(np.float32), labels)


def _refuse(rows: ScannedRows, wrong: NDArray[np.bool_], path: str, reason: str) -> None:
    """Raise DataFormatError for the first point that is wrong, if there is one."""
    if wrong.any():
        raise DataFormatError(path, int(rows.lines[wrong.argmax()]), reason)


def _has_column_0(matrix: csr_array) -> NDArray[np.bool_]:
    """Return which rows have an element in the first column."""
    # Indices are sorted.
    has: NDArray[np.bool_] = np.diff(matrix.indptr) > 0
    has[has] = matrix.indices[matrix.indptr[:-1][has]] == 0
    return has


def _features(matrix: csr_array, first: int) -> Features:
    """Return the nonzero features where `first`, 0 or 1, is the number of the first one."""
    features = _from_column(matrix, first)
    features.eliminate_zeros()
    return Features(features)


def _from_column(matrix: csr_array, first: int) -> csr_array:
    """Return the columns from `first` on up to the last one with an element; no row has one before `first`."""
    columns = max(int(matrix.indices.max(initial=-1)) + 1 - first, 0)
    return as_csr(matrix.data, matrix.indices - np.int32(first), matrix.indptr, columns)
