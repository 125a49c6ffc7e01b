"""The records of a file of points, one for each point: where they begin, and how they are copied unchanged."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from xmlgp.api.corpus import Corpus
from xmlgp.api.points import FilePath, Identifier
from xmlgp.api.source import Source
from xmlgp.data.libsvm_format import is_libsvm
from xmlgp.data.locate import locate
from xmlgp.data.streams import open_input, open_output
from xmlgp.runtime.errors import DataFormatError, SettingsError, XmlgpError
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
    """The records of N points in a file of lines: the line where each starts, and the encoding of the lines.

    A file is either a corpus or has rows of numbers, and one that `is_declared` begins with the number of its points.
    """

    path: str
    starts: Sequence[int]
    encoding: str
    is_corpus: bool = False
    is_declared: bool = False


def read_records(source: Source, reporter: Reporter) -> Records:
    """Return the records of the training file of a path; XmlgpError if it is not one of lines."""
    path = locate(os.fspath(cast(FilePath, source.data)), "train")
    with source.labelled_file("train", reporter) as points:
        if points.lines is None:
            advice = "write JSON Lines, or divide it by `sklearn.model_selection.train_test_split`"
            raise XmlgpError(f"{path}: only files of lines are divided; {advice}")
        encoding = points.lines.encoding or "latin-1"  # which keeps all bytes
        first = points.lines.peek_line()
        if isinstance(points, Corpus):
            return Records(path, points.labels(None).lines, encoding, is_corpus=True)
        N = points.labels(None).labels.shape[0]
    if not is_libsvm(first, strict=False):
        return Records(path, list(range(2, N + 2)), encoding, is_declared=True)
    with open_input(path) as stream, io.TextIOWrapper(stream, encoding, newline="\n") as lines:
        return Records(path, [number for number, line in enumerate(lines, 1) if POINT.match(line)], encoding)


def group_values(
    source: Source, records: Records, column: str, note: Callable[[str], object]
) -> Sequence[Identifier | None]:
    """Return the value of a column, or a field, of each document, and note how many have none."""
    if not records.is_corpus:
        raise SettingsError(f"{records.path} has no columns, by which points could be in groups")
    options = (source.corpus or NO_OPTIONS)._replace(id=column)
    try:
        with replace(source, corpus=options).labelled_file("train", QUIET) as documents:
            values = cast(Corpus, documents).labels(None).ids or ()
    except DataFormatError as error:
        # The advice is on another option.
        raise DataFormatError(error.path, error.line, error.reason.partition("; --id-column")[0]) from None
    missing = sum(value in (None, "") for value in values)
    if missing:
        have = counted(missing, "document has", "documents have")
        note(f"{records.path}: {have} no {excerpt(column)}, and may each be in either part")
    return values


def copy_records(
    records: Records, is_test: NDArray[np.bool_], folder: Path, note: Callable[[str], object]
) -> list[Path]:
    """Copy the records to files in a folder, and return these; note how many for testing are copies of others."""
    files = []
    path = records.path
    with open_input(path, records.encoding) as stream, io.TextIOWrapper(stream, records.encoding, newline="\n") as text:
        lines = text.readlines()
    if not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    bounds = [*(start - 1 for start in records.starts), len(lines)]
    # Lines without a point follow the point before them.
    texts = np.array(["".join(lines[start:stop]) for start, stop in pairwise(bounds)], object)
    head = "".join(lines[: bounds[0]])
    parts = [texts[~is_test].tolist(), texts[is_test].tolist()]
    for name, part in zip(_part_names(os.path.basename(path)), parts, strict=True):
        start = re.sub(r"\d+", str(len(part)), head, count=1) if records.is_declared else head
        with open_output(folder / name) as output:
            output.write("".join([start, *part]).encode(records.encoding))
        files.append(folder / name)
    copies = sum(map(set(parts[0]).__contains__, parts[1]))
    if copies and records.is_corpus:
        have = counted(copies, "document for testing is a copy", "documents for testing are copies")
        note(f"{path}: {have} of ones for training; --group-column with the column of texts keeps them together")
    return files


def _part_names(name: str) -> list[str]:
    """Return the names of the files for training and for testing that are copied from a file."""
    ending = re.search(ENDING, name)
    return [part + (ending[0] if ending and ending[0] else ".txt") for part in ("train", "test")]
