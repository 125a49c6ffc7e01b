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
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.data.dataset import Dataset, as_csr, widened
from xmlgp.data.features import Features
from xmlgp.data.lines import LineReader
from xmlgp.data.scanner import DECIMAL, Indices, empty_numbers, number_values, reason_of, repeated, row_of, scan_libsvm
from xmlgp.runtime.errors import DataFormatError
from xmlgp.runtime.progress import Progress, ignore, silent

__all__ = ["MAX_FEATURES", "is_libsvm", "read_points", "resize_features"]

#: Maximum index of a feature or label. Models allocate memory for each, so one line could exhaust it.
MAX_FEATURES = 10_000_000
INDICES = Indices(MAX_FEATURES + 1, MAX_FEATURES + 1, most="so many are supported")

#: Labels of two classes. A file has either -1 and 1, or 0 and 1.
LABELS = (-1, 0, 1)
WORD = re.compile(rb"\S+")
COMMENT = re.compile(rb"#[^\n]*")
#: Several labels of a point.
SEVERAL = re.compile(rb"\d+(,\d+)+")
#: A feature and its value.
PAIR = re.compile(rb"\d+:%b" % DECIMAL.pattern)
#: A number of lines that no block has, to read as many lines as a block has.
ALL = 2**62


class _Points(NamedTuple):
    """Points: their labels, how many each has, their features and values, how many each has, and their lines."""

    labels: NDArray[np.float64]
    label_counts: NDArray[np.int64]
    features: NDArray[np.int32]
    values: NDArray[np.float64]
    counts: NDArray[np.int64]
    lines: NDArray[np.int64]


def is_libsvm(line: bytes, strict: bool = True) -> bool:
    """Return whether a data file is in this format, by its first line.

    The line is a comment, one or several numbers with `feature:value` pairs after them, or a label alone. Unless
    `strict`, it may also be pairs alone, of a point without labels, which a text may have as well.
    """
    text, hash_, _ = line.partition(b"#")
    # The line of a file that is not text can be long.
    words = (match[0] for match in WORD.finditer(text))
    label = next(words, b"")
    pair = next(words, b"")
    if not label:
        return bool(hash_)
    if SEVERAL.fullmatch(label):
        return bool(PAIR.fullmatch(pair)) and all(map(PAIR.fullmatch, words))
    if not strict and PAIR.fullmatch(label):
        return all(map(PAIR.fullmatch, [pair, *words] if pair else []))
    if not DECIMAL.fullmatch(label):
        return False
    return b":" in pair and all(b":" in other for other in words) if pair else float(label) in LABELS


def read_points(
    reader: LineReader,
    progress: Progress = silent,
    several: bool | None = None,
    note: Callable[[str], object] = ignore,
    labelled: bool = True,
) -> tuple[Dataset, bool]:
    """Read a whole data file from a `LineReader` at its first line; DataFormatError names the line of an error.

    Return the `Dataset` and whether it has several labels a point; `several` says so, or None to let the file tell.
    Points of two classes have K = 1 label, which those labelled +1 or 1 have. The highest index is the number of
    features, and feature 1 of the file is feature 0. With several labels, the highest label determines K, and `note`
    gets the assumptions. Labels that are not `labelled` may be any numbers, and K is 0.
    """
    blocks = []
    with progress(f"reading {reader.path}", unit=" points") as bar:
        while True:
            first_line = reader.line_number
            text = reader.read_lines(ALL)
            if not text:
                break
            # A blank line at the end needs no newline.
            reader.newline_needed = bool(text[text.rfind(b"\n", 0, -1) + 1 :].strip())
            blocks.append(_scan(COMMENT.sub(b"", text) if b"#" in text else text, reader.path, first_line))
            bar.update(len(blocks[-1].counts))
    if not any(len(block.counts) for block in blocks):
        raise DataFormatError(reader.path, reader.line_number, "the file has no points")
    points = _Points(*map(np.concatenate, zip(*blocks, strict=True)))
    if several or (several is None and (points.label_counts > 1).any()):
        return _of_several_labels(points, reader.path, note, labelled), True
    return _of_two_classes(points, reader.path), False


def resize_features(dataset: Dataset, D: int) -> Dataset:
    """Return the points with the first D features; features beyond those of `dataset` are zero."""
    kept = dataset.features.sparse[:, :D]
    return Dataset(Features(widened(kept, D)), dataset.labels)


def _scan(text: bytes, path: str, first_line: int) -> _Points:
    """Return the points of some lines without comments; DataFormatError if a line is malformed."""
    lines = text.count(b"\n")
    # A line without labels uses the space of one label.
    labels = empty_numbers(lines + text.count(b",") + 1)
    pairs = empty_numbers(text.count(b":"))
    ends = np.empty((3, lines + 1), np.int64)
    mistake = np.zeros(2, np.int64)
    points = scan_libsvm(np.frombuffer(text, np.uint8), MAX_FEATURES + 1, labels, pairs, ends, mistake)
    if points < 0:
        raise DataFormatError(
            path, first_line + text.count(b"\n", 0, int(mistake[1])), reason_of(text, mistake, INDICES)
        )
    label_ends, pair_ends, line_numbers = ends[:, : points + 1]
    pairs = pairs[:, : pair_ends[-1]]
    values = number_values(text, pairs)
    if not np.isfinite(values).all():
        position = int(np.isfinite(values).argmin())
        line = first_line + int(line_numbers[1 + row_of(position, pair_ends)])
        reason = f"the value of feature {pairs[0, position]} is too large for a 32-bit floating-point number"
        raise DataFormatError(path, line, reason)
    return _Points(
        number_values(text, labels[:, : label_ends[-1]]),
        np.diff(label_ends),
        pairs[0].astype(np.int32),
        values,
        np.diff(pair_ends),
        first_line + line_numbers[1:],
    )


def _of_two_classes(points: _Points, path: str) -> Dataset:
    """Return points of two classes, in double precision; DataFormatError names the first line of another kind."""
    advice = "rows of many labels need a first line `N D K`"
    _report([(points.label_counts != 1, f"a line needs one label, -1, +1, 0 or 1; {advice}")], points, path)
    features = _rows(points.values, points.features, points.counts)
    labels = points.labels
    unknown = ~np.isin(labels, LABELS)
    both = (labels < 1) & (labels != _first(labels, labels < 1))
    zero_based = _in_rows(points.features == 0, points.counts)
    mistakes = [
        (unknown, f"label {_first(labels, unknown):g} is not one of -1, +1, 0, 1; {advice}"),
        (both, "labels must be either -1 and +1 or 0 and 1, but this file has -1 and 0"),
        (zero_based, "features start at 1, not 0 (in scikit-learn, use dump_svmlight_file with zero_based=False)"),
        _mistake_of_repeated(features, "feature"),
    ]
    _report(mistakes, points, path)
    indptr = np.concatenate([[0], np.cumsum(labels > 0)])
    return Dataset(Features(_from_first(features, 1)), as_csr(None, np.zeros(indptr[-1], np.int32), indptr, 1))


def _of_several_labels(points: _Points, path: str, note: Callable[[str], object], labelled: bool) -> Dataset:
    """Return points with several labels, or without them unless `labelled`, in single precision as in other formats."""
    features = _rows(points.values.astype(np.float32), points.features, points.counts)
    mistakes = [_mistake_of_repeated(features, "feature")]
    Y = csr_array((len(points.counts), 0), dtype=bool)
    if labelled:
        labels = points.labels
        wrong = (labels < 0) | (labels > MAX_FEATURES) | (labels > np.floor(labels))
        reason = f"label {_first(labels, wrong):.9g} is not a number from 0 to {MAX_FEATURES}, as several labels are"
        Y = _rows(None, np.where(wrong, 0, labels).astype(np.int32), points.label_counts)
        mistakes += [(_in_rows(wrong, points.label_counts), reason), _mistake_of_repeated(Y, "label")]
    _report(mistakes, points, path)
    first = int(points.features.min(initial=1) > 0)
    why = "none is 0; rows that count from 0 need a first line `N D K`" if first else "one is 0"
    note(f"{path}: labels are the numbers as they are; features count from {first}, as {why}")
    between = int(points.lines[-1] - points.lines[0]) + 1 - len(points.lines)
    if between:
        note(f"{path}: {between} blank lines or comments between points are no points")
    return Dataset(Features(_from_first(features, first)), Y)


def _rows(data: NDArray[Any] | None, indices: NDArray[np.int32], counts: NDArray[np.int64]) -> csr_array:
    """Return a csr_array of rows with so many elements, with sorted indices."""
    indptr = np.concatenate([[0], np.cumsum(counts)])
    matrix = as_csr(data, indices, indptr, int(indices.max(initial=-1)) + 1)
    matrix.sort_indices()
    return matrix


def _from_first(features: csr_array, first: int) -> csr_array:
    """Return features without zeros, where `first`, 0 or 1, is the number of the first one."""
    columns = max(features.shape[1] - first, 0)
    features = as_csr(features.data, features.indices - np.int32(first), features.indptr, columns)
    features.eliminate_zeros()
    return features


def _first(values: NDArray[np.float64], chosen: NDArray[np.bool_]) -> float:
    """Return the first one of the chosen values, or 0 if there is none."""
    return float(next(iter(values[chosen]), 0))


def _in_rows(wrong: NDArray[np.bool_], counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which rows have an element that is wrong."""
    return np.bincount(np.repeat(np.arange(len(counts)), counts)[wrong], minlength=len(counts)) > 0


def _mistake_of_repeated(matrix: csr_array, kind: str) -> tuple[NDArray[np.bool_], str]:
    """Return which rows have an index twice, and the first of these in a sentence."""
    wrong = np.zeros(matrix.shape[0], bool)
    if matrix.has_canonical_format:
        return wrong, ""
    positions = repeated(matrix.indices, matrix.indptr)
    wrong[np.searchsorted(matrix.indptr, positions, side="right") - 1] = True
    return wrong, f"{kind} {matrix.indices[positions[0]]} occurs twice"


def _report(mistakes: Iterable[tuple[NDArray[np.bool_], str]], points: _Points, path: str) -> None:
    """Raise DataFormatError for the first point that is wrong; each mistake is whether points have it, and why."""
    found = [(int(wrong.argmax()), reason) for wrong, reason in mistakes if wrong.any()]
    if found:
        point, reason = min(found)
        raise DataFormatError(path, int(points.lines[point]), reason)
