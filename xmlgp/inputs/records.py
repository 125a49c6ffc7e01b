"""The records of a file of points, one for each point: where they begin, and how they are copied unchanged."""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.data.libsvm_format import is_libsvm
from xmlgp.data.lines import LineReader
from xmlgp.data.locate import PART, SHORT, locate, other_part
from xmlgp.data.streams import open_input, open_output
from xmlgp.errors import DataFormatError, SettingsError, XmlgpError
from xmlgp.inputs.corpus import Corpus
from xmlgp.inputs.kinds import FilePath
from xmlgp.inputs.points import Identifier
from xmlgp.inputs.source import Source
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.progress import QUIET, Reporter
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.documents import NO_OPTIONS

__all__ = ["Records", "copy_records", "group_values", "read_records"]

#: The ending of the name of a file, with that of a compressed one.
ENDING = re.compile(r"(\.\w+)?(\.gz)?\Z", re.IGNORECASE)

#: A line of a file in libsvm format that is neither blank nor a comment.
POINT = re.compile(r"\s*[^\s#]")


class Records(NamedTuple):
    """The records of N points in a file of lines: their labels, N×K, and the line where each starts.

    The lines are in an encoding. A corpus has identifiers. A file with `declared` begins with the number of its points.
    """

    path: str
    labels: csr_array
    starts: list[int]
    encoding: str
    ids: Sequence[Identifier | None] | None = None
    declared: bool = False


def read_records(source: Source, reporter: Reporter) -> Records:
    """Return the records of the training file of a path; XmlgpError if it is not one of lines."""
    path = locate(os.fspath(cast(FilePath, source.data)), "train")
    with source.labelled_file("train", reporter) as points:
        if not isinstance(points.reader, LineReader):
            advice = "write JSON Lines, or divide it by `sklearn.model_selection.train_test_split`"
            raise XmlgpError(f"{path}: only files of lines are divided; {advice}")
        encoding = points.reader.encoding or "latin-1"  # which keeps all bytes
        first = points.reader.peek_line()
        if isinstance(points, Corpus):
            labels, _, ids, starts = points.labels(None)
            return Records(path, labels, starts, encoding, ids)
        labels = points.labels(None)[0]
    starts = list(range(2, labels.shape[0] + 2))
    if not is_libsvm(first, strict=False):
        return Records(path, labels, starts, encoding, declared=True)
    with open_input(path) as stream, io.TextIOWrapper(stream, encoding, newline="\n") as lines:
        return Records(path, labels, [number for number, line in enumerate(lines, 1) if POINT.match(line)], encoding)


def group_values(
    source: Source, records: Records, column: str, note: Callable[[str], object]
) -> Sequence[Identifier | None]:
    """Return the value of a column, or a field, of each document, and note how many have none."""
    if records.ids is None:
        raise SettingsError(f"{records.path} has no columns, by which points could be in groups")
    options = (source.corpus or NO_OPTIONS)._replace(id=column)
    try:
        with replace(source, corpus=options).labelled_file("train", QUIET) as documents:
            values = cast(Corpus, documents).labels(None)[2]
    except DataFormatError as error:
        # The advice is on another option.
        raise DataFormatError(error.path, error.line, error.reason.partition("; --id-column")[0]) from None
    missing = sum(value in (None, "") for value in values)
    if missing:
        have = counted(missing, "document has", "documents have")
        note(f"{records.path}: {have} no {excerpt(column)}, and may each be in either part")
    return values


def copy_records(records: Records, is_test: NDArray[np.bool_], folder: Path) -> list[str]:
    """Copy the records to files in a folder, and return the names of these."""
    names = []
    for path in filter(None, [records.path, other_part(records.path)]):
        train, test = _part_names(os.path.basename(path))
        with open_input(path) as stream, open_output(folder / train) as output, open_output(folder / test) as tests:
            _copy(stream, records._replace(path=path), is_test, [output, tests])
        names += [train, test]
    return names


def _part_names(name: str) -> list[str]:
    """Return the names of the files for training and for testing that are copied from a file."""
    if match := PART.fullmatch(name):
        return [SHORT[part] + name[match.start("ending") :] for part in ("train", "test")]
    ending = re.search(ENDING, name)
    return [part + (ending[0] if ending and ending[0] else ".txt") for part in ("train", "test")]


def _copy(stream: BinaryIO, records: Records, is_test: NDArray[np.bool_], outputs: Sequence[BinaryIO]) -> None:
    """Copy the records of an open file to the outputs for training and for testing."""
    sides = is_test.astype(int).tolist()
    point = -1
    lines = io.TextIOWrapper(stream, records.encoding, newline="\n")
    with lines, _writers(outputs, records.encoding) as writers:
        for number, line in enumerate(lines, 1):
            if point + 1 < len(sides) and records.starts[point + 1] == number:
                point += 1
            if point >= 0:
                # Lines without a point follow the point before them.
                writers[sides[point]].write(line)
                continue
            for side, writer in enumerate(writers):
                writer.write(re.sub(r"\d+", str(sides.count(side)), line, count=1) if records.declared else line)
    if point + 1 < len(sides):
        raise XmlgpError(f"{records.path}: the file has changed while it was read, or its lines cannot be told")


@contextlib.contextmanager
def _writers(outputs: Sequence[BinaryIO], encoding: str) -> Iterator[Sequence[io.TextIOWrapper]]:
    """Yield what writes text to outputs, which stay open."""
    writers = [io.TextIOWrapper(output, encoding, newline="") for output in outputs]
    yield writers
    for writer in writers:
        writer.detach()
