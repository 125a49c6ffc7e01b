"""Unknown pairs, of a training point and a label, which nobody judged: from a file beside the points, or from memory.

A file has a line for each point, in order: the labels that nobody judged for it. They are numbers separated by commas,
`3,17`, or `label:1` pairs, perhaps after a first line `N K`; an empty line has none. Beside a corpus they are names, as
its labels are.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.sparse import csr_array

from xmlgp.data.dataset import Dataset, as_csr, no_points
from xmlgp.data.features import stack_rows
from xmlgp.data.line_parser import check_pairs, parse_lines, report_first_mistake
from xmlgp.data.lines import LineReader, decoded_lines
from xmlgp.data.repository_format import read_sizes
from xmlgp.data.streams import open_input
from xmlgp.errors import DataFormatError, SettingsError
from xmlgp.inputs.kinds import FilePath, Matrix, is_matrix, is_path
from xmlgp.inputs.memory import check_columns, columns_of, labels_in_memory
from xmlgp.inputs.training_data import TrainingData
from xmlgp.linear_algebra.sparse import column_sums
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.untrusted_text import excerpt, quote
from xmlgp.text.label_rows import describe_malformed, divide_labels
from xmlgp.text.labels import BadName, LabelNumbers, label_matrix, matrix_of_labels

__all__ = ["NameReading", "UnknownLabels", "beside_unknown", "one_sided_labels"]

#: The labels that nobody judged: a file, a matrix N×K that is nonzero there, or a list of names for each point.
UnknownLabels: TypeAlias = "FilePath | Matrix | Sequence[Sequence[str]]"

HEADER = re.compile(rb" *(\d+) +(\d+)[ \t]*\r?\n")

#: More lines than a block of text can have, so that `read_lines` returns whole blocks.
ALL = 2**62

#: What the numbers in a matrix stand for.
MEANING = "1 says that nobody judged the label, 0 that somebody did"

#: What separates names in a line, unless the user says otherwise.
SEPARATOR = ";"


class NameReading(NamedTuple):
    """How names of labels are read: what separates them, None for the usual, and names that are the `same` label."""

    separator: str | None = None
    same: Mapping[str, str] | None = None


class _Rows(NamedTuple):
    """The unknown labels of points, N×K; the file with the line of the first point, or None if they are in memory."""

    matrix: csr_array
    path: str | None = None
    first_line: int = 1

    def error(self, row: int, reason: str) -> DataFormatError | SettingsError:
        """Return the error of a point."""
        if self.path is None:
            return SettingsError(f"`unknown`, point {row}: {reason}")
        return DataFormatError(self.path, self.first_line + row, reason)


def beside_unknown(points: TrainingData, unknown: UnknownLabels, title: str, names: NameReading | None) -> TrainingData:
    """Return training points, which messages call by the title, with the pairs that nobody judged.

    In a file they are read as `names` if that is given, otherwise as numbers. Raises DataFormatError or SettingsError
    for another number of points, for a label that the points do not have, and for one that a point has.
    """
    dataset = points.dataset
    rows = _read(points, unknown, title, names)
    if rows.matrix.shape != dataset.labels.shape:
        N, K = rows.matrix.shape
        number = counted(N, "line" if rows.path else "point")
        expected = counted(dataset.N, "point")
        if N == dataset.N:
            number = counted(K, "label")
            expected = counted(dataset.K, "label")
        raise SettingsError(f"{rows.path or '`unknown`'} has {number}, but {title} has {expected}")
    both = csr_array(dataset.labels.multiply(rows.matrix))
    if both.nnz:
        row = int(np.flatnonzero(np.diff(both.indptr))[0])
        label = int(both.indices[both.indptr[row]])
        shown = excerpt(points.names.labels[label]) if names and points.names.labels else str(label)
        raise rows.error(row, f"label {shown} is unknown here, but the point has it in {title}")
    return points._replace(dataset=replace(dataset, unknown=rows.matrix))


def one_sided_labels(dataset: Dataset) -> list[str]:
    """Return notes about labels that no judged point has, or that all have, because of unknown pairs."""
    if dataset.unknown is None or not dataset.unknown.nnz:
        return []
    unknown = column_sums(dataset.unknown.indices, dataset.K)
    positive = column_sums(dataset.labels.indices, dataset.K)
    unjudged = np.count_nonzero(unknown == dataset.N)
    certain = np.count_nonzero((unknown > 0) & (positive > 0) & (unknown + positive == dataset.N))
    notes = []
    if unjudged:
        notes.append(
            f"labels that nobody judged for any point: {unjudged} of {dataset.K}; nothing is learned about them"
        )
    if certain:
        advice = "all points will get them, unless some are judged not to have them"
        notes.append(f"labels that all points judged for them have: {certain} of {dataset.K}; {advice}")
    return notes


def _read(points: TrainingData, unknown: Any, title: str, names: NameReading | None) -> _Rows:
    """Return the unknown labels as given."""
    dataset = points.dataset
    labels = points.names.labels or []
    if is_path(unknown):
        path = os.fspath(unknown)
        with open_input(path) as stream:
            reader = LineReader(stream, path)
            if names is None:
                return _read_numbers(reader, dataset, title)
            return _read_names(reader, points, title, names)
    try:
        if is_matrix(unknown):
            check_columns("label", columns_of(unknown, "label"), labels, f"{title} has")
            return _Rows(labels_in_memory(unknown, unknown.shape[0], MEANING))
        known, matrix = label_matrix(unknown, labels, names and names.same)
    except SettingsError as error:
        raise SettingsError(f"`unknown`: {error}") from None
    if len(known) > len(labels):
        raise SettingsError(f"`unknown` has the label {excerpt(known[len(labels)])}, which no point of {title} has")
    return _Rows(matrix)


def _read_numbers(reader: LineReader, dataset: Dataset, title: str) -> _Rows:
    """Return the unknown labels from lines of numbers."""
    K = dataset.K
    sizes = None
    if HEADER.fullmatch(reader.peek_line()):
        sizes = read_sizes(reader, HEADER, "two nonnegative integers `N K`")
        if sizes != (dataset.N, K):
            reason = f"the first line is `{sizes[0]} {sizes[1]}`, but {title} has {counted(dataset.N, 'point')} and "
            raise DataFormatError(reader.path, 1, reason + counted(K, "label"))
    first_line = reader.line_number
    blocks = [no_points(0, K).labels, *_blocks_of_numbers(reader, dataset, title, sizes is not None)]
    return _Rows(stack_rows(blocks), reader.path, first_line)


def _blocks_of_numbers(reader: LineReader, dataset: Dataset, title: str, are_pairs: bool) -> Iterator[csr_array]:
    """Yield the unknown labels of some lines at a time; blank lines after the last point are left out."""
    K = dataset.K
    remaining = dataset.N
    # The first line with labels says what all are.
    is_certain = are_pairs
    while True:
        line_number = reader.line_number
        text = reader.read_lines(remaining or ALL)
        if not text:
            return
        if not remaining and not text.strip():
            continue
        if not is_certain and (content := text.strip()):
            are_pairs = b":" in content.split(b"\n", 1)[0]
            is_certain = True
        check_line = functools.partial(_check_line, K=K, title=title, are_pairs=are_pairs)
        try:
            sizes = (K, 0) if are_pairs else (0, K)
            block = parse_lines(text, line_number, *sizes, reader.path, "label" if are_pairs else None)
        except DataFormatError:
            report_first_mistake(text, reader.path, line_number, check_line)
        if not are_pairs:
            matrix = block.labels
        else:
            values = block.features.sparse
            if (values.data < 0).any():
                report_first_mistake(text, reader.path, line_number, check_line)
            matrix = as_csr(None, values.indices, values.indptr, K)
        remaining = max(0, remaining - matrix.shape[0])
        yield matrix


def _check_line(line: bytes, K: int, title: str, are_pairs: bool) -> None:
    """Raise a ValueError that says what is wrong with a line of unknown labels, if anything is."""
    check = functools.partial(_check_label, K=K, title=title, seen=set())
    if are_pairs:
        pairs = line.split()
        check_pairs(pairs, check, "label")
        negative = next((pair for pair in pairs if pair.partition(b":")[2].startswith(b"-")), None)
        if negative is not None:
            raise ValueError(f"{quote(negative)} has a negative value, but unknown labels have the value 1")
        return
    if line.strip() and (line != line.strip() or re.search(rb"\s", line)):
        raise ValueError(f"{quote(line)} is not a list of labels separated by commas, such as 3,17")
    for token in line.split(b",") if line.strip() else []:
        check(token)


def _check_label(token: bytes, K: int, title: str, seen: set[int]) -> int:
    """Return the number of a label, and add it to those seen in the line; ValueError if there is no such label."""
    if not token.isdigit():
        raise ValueError(f"{quote(token)} is not a label: a nonnegative integer" if token else "a label is missing")
    digits = token.lstrip(b"0") or b"0"
    if len(digits) > len(str(K)) or int(digits) >= K:
        raise ValueError(f"label {quote(token)} is not below {K}, the number of labels of {title}")
    label = int(digits)
    if label in seen:
        raise ValueError(f"label {label} occurs twice")
    seen.add(label)
    return label


def _read_names(reader: LineReader, points: TrainingData, title: str, reading: NameReading) -> _Rows:
    """Return the unknown labels from lines of names of labels; blank lines after the last point are left out."""
    labels = points.names.labels or []
    label_numbers = LabelNumbers(labels, reading.same)
    numbers: list[int] = []
    lengths: list[int] = []
    lines = list(decoded_lines(reader))
    while len(lines) > points.dataset.N and not lines[-1][1].strip():
        lines.pop()
    for line_number, line in lines:
        try:
            names = divide_labels(line, reading.separator, SEPARATOR)
        except ValueError:
            raise DataFormatError(reader.path, line_number, describe_malformed(line)) from None
        lengths.append(len(names))
        for name in names:
            try:
                number = label_numbers[name]
            except BadName as error:
                raise DataFormatError(reader.path, line_number, str(error)) from None
            if number >= len(labels):
                reason = f"{excerpt(name)} is not a label of {title}"
                raise DataFormatError(reader.path, line_number, reason)
            numbers.append(number)
    matrix = matrix_of_labels(np.array(numbers, np.int32), np.array(lengths, np.int64), len(labels))
    return _Rows(matrix, reader.path)
