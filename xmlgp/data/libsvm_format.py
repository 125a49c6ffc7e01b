"""Read data in the text format of libsvm and svmlight, of two classes or of several labels a point.

A line is `labels feature:value feature:value …`, separated by spaces or tabs. Values are decimals as in
`xmlgp.data.repository_format`, features in any order. Text after a `#` is a comment; lines with nothing else are
ignored.

In a file of two classes a line has one label. The labels of the file are either -1 and +1, or 0 and 1; features start
at 1.

Labels that are separated by commas, in any line, make the file one of several labels a point. Labels are then numbers
from 0, and a line may have none. Features of a file for a model count from 0 or from 1 as the training data do, and
those of other files from 1, unless a feature 0 occurs.
"""

import re
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.data.dataset import Dataset, Features, as_csr, stack_rows
from xmlgp.data.lines import LineReader
from xmlgp.data.scanner import ScannedRows, row_of, scan_rows
from xmlgp.runtime.errors import DataFormatError
from xmlgp.runtime.progress import ignore

__all__ = ["MAX_FEATURES", "read_points"]

#: Maximum index of a feature or label. Models allocate memory for each, so one line could exhaust it.
MAX_FEATURES = 10_000_000

COMMENT = re.compile(rb"#[^\n]*")


def read_points(
    reader: LineReader,
    multilabel: bool | None = None,
    note: Callable[[str], object] = ignore,
    labelled: bool = True,
    first: int | None = None,
    D: int | None = None,
) -> tuple[Dataset, bool]:
    """Read a whole data file from a `LineReader` at its first line; DataFormatError names the line of an error.

    Return the `Dataset` and whether it is multi-label. `multilabel` prescribes this; None infers it from the file.
    Points of two classes have K = 1 label, which those labelled +1 or 1 have. The highest index is the number of
    features, and feature 1 of the file is feature 0. With several labels, the highest label determines K, the number of
    the first feature is `first`, inferred from the file if it is None, D limits the number of features, and `note`
    gets the assumptions. Unless they are to be `labelled`, K is 0, and labels may be any numbers.
    """
    blocks = []
    for line, text in reader.blocks():
        block = scan_rows(COMMENT.sub(b"", text), line, reader.path, MAX_FEATURES + 1, MAX_FEATURES + 1, libsvm=True)
        blocks.append(block)
    if not any(len(block.lines) for block in blocks):
        raise DataFormatError(reader.path, reader.line_number, "the file has no points")
    labels, features, lines = zip(*blocks, strict=True)
    rows = ScannedRows(stack_rows(labels), stack_rows(features), np.concatenate(lines))
    if multilabel or (multilabel is None and (np.diff(rows.labels.indptr) > 1).any()):
        return _of_several_labels(rows, reader.path, note, labelled, first, D), True
    return _of_two_classes(rows, reader.path), False


def _of_two_classes(rows: ScannedRows, path: str) -> Dataset:
    """Return points of two classes, in double precision; DataFormatError names the line of another kind."""
    advice = "rows of many labels need a first line `N D K`"
    points = np.arange(len(rows.lines) + 1)
    count_is_wrong = np.diff(rows.labels.indptr) != 1
    _refuse(rows, points, count_is_wrong, path, f"a line needs one label, -1, +1, 0 or 1; {advice}")
    labels = rows.labels.indices - 1
    unknown = labels > 1
    label = labels[unknown.argmax()]
    _refuse(rows, points, unknown, path, f"label {label} is not one of -1, +1, 0, 1, as of two classes; {advice}")
    if (labels < 0).any():
        reason = "labels must be either -1 and +1 or 0 and 1, but this file has -1 and 0"
        _refuse(rows, points, labels == 0, path, reason)
    reason = "features start at 1, not 0 (in scikit-learn, use dump_svmlight_file with zero_based=False)"
    _refuse(rows, rows.features.indptr, rows.features.indices == 0, path, reason)
    indptr = np.concatenate([[0], np.cumsum(labels > 0)])
    positive = as_csr(None, np.zeros(indptr[-1], np.int32), indptr, 1)
    return Dataset(_features(rows.features, 1), positive)


def _of_several_labels(
    rows: ScannedRows, path: str, note: Callable[[str], object], labelled: bool, first: int | None, D: int | None
) -> Dataset:
    """Return points with several labels, or without, in single precision as in other formats."""
    labels = csr_array((len(rows.lines), 0), dtype=bool)
    if labelled:
        reason = f"label -1 is not a number from 0 to {MAX_FEATURES}, as several labels are"
        _refuse(rows, rows.labels.indptr, rows.labels.indices == 0, path, reason)
        labels = _from_column(rows.labels, 1)
    features = rows.features.indices
    why = "the training data do"
    if first is None:
        first = int(features.min(initial=1) > 0)
        why = "none is 0; rows that count from 0 need a first line `N D K`" if first else "one is 0"
    note(f"{path}: labels are the numbers as they are; features count from {first}, as {why}")
    reason = (
        "there is a feature 0, but the training data count from 1; number the features as they do, or train on "
        "rows with a first line `N D K`, which count from 0"
    )
    _refuse(rows, rows.features.indptr, features < first, path, reason)
    if D is not None:
        last = D + first - 1
        reason = f"a feature is above {last}, the last of the training data, which count from {first}; leave it out"
        _refuse(rows, rows.features.indptr, features > last, path, reason)
    between = int(rows.lines[-1] - rows.lines[0]) + 1 - len(rows.lines)
    if between:
        note(f"{path}: {between} blank lines or comments between points are no points")
    return Dataset(_features(rows.features, first).astype(np.float32), labels, first)


def _refuse(rows: ScannedRows, starts: NDArray[np.integer], wrong: NDArray[np.bool_], path: str, reason: str) -> None:
    """Raise DataFormatError for the point of the first wrong element, if there is one; each point `starts` at one."""
    if wrong.any():
        raise DataFormatError(path, int(rows.lines[row_of(int(wrong.argmax()), starts)]), reason)


def _features(matrix: csr_array, first: int) -> Features:
    """Return the nonzero features where `first`, 0 or 1, is the number of the first one."""
    features = _from_column(matrix, first)
    features.eliminate_zeros()
    return Features(features)


def _from_column(matrix: csr_array, first: int) -> csr_array:
    """Return the columns from `first` on up to the last one with an element; no row has one before `first`."""
    columns = max(int(matrix.indices.max(initial=-1)) + 1 - first, 0)
    return as_csr(matrix.data, matrix.indices - np.int32(first), matrix.indptr, columns)
