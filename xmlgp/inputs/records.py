"""The records of a file of points, one for each point: where they are stored, and how they are copied unchanged."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.data.libsvm_format import is_libsvm
from xmlgp.data.lines import LineReader, decoded_lines
from xmlgp.data.locate import PART, SHORT, locate, other_part
from xmlgp.data.streams import Opened, open_any, open_output
from xmlgp.errors import DataFormatError, SettingsError, XmlgpError
from xmlgp.inputs.corpus import Corpus
from xmlgp.inputs.kinds import FilePath
from xmlgp.inputs.points import Identifier
from xmlgp.inputs.source import Source
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.progress import QUIET, Reporter
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.document_folder import DocumentFolder
from xmlgp.text.documents import NO_OPTIONS
from xmlgp.text.formats import FORMATS, format_of_corpus
from xmlgp.text.json_lines import JSON_LINES
from xmlgp.text.json_objects import elements
from xmlgp.text.table_files import LIBRARIES
from xmlgp.text.table_parts import copy_table

__all__ = ["Records", "copy_records", "group_values", "read_records"]

#: The names of the two parts.
PARTS = ("train", "test")

#: The endings of the files of a document in a folder.
DOCUMENT_ENDINGS = (".txt", ".json", ".tsv", ".key")

#: The ending of the name of a file, with that of a compressed one.
ENDING = re.compile(r"(\.\w+)?(\.(gz|bz2|xz|zst))?\Z", re.IGNORECASE)

#: A line of a file in libsvm format, or of the data of an ARFF file, that is neither blank nor a comment.
POINT = re.compile(r"\s*[^\s#%]")

#: What may be before a JSON array: a byte order mark and blanks.
BEFORE_JSON = b"\xef\xbb\xbf\xff\xfe\0 \t\r\n"

#: Encodings in which an end of a line is not that of ASCII.
WIDE = re.compile("utf.?(16|32)", re.IGNORECASE)


class Records(NamedTuple):
    """The records of N points in a file or folder: their labels, N×K, and the line or row where each starts.

    The lines of a text are in an encoding and end with `end`. A corpus has identifiers, one in lines has a format, and
    one in a folder the NAMEs of its documents. With `declared`, a file begins with the number of its points.
    """

    path: str
    labels: csr_array
    starts: list[int]
    encoding: str | None
    end: str
    ids: Sequence[Identifier | None] | None = None
    format: str | None = None
    names: Sequence[str] = ()
    declared: bool = False

    @property
    def codec(self) -> str:
        """An encoding that keeps all bytes, and that has the same ends of lines."""
        return self.encoding if self.encoding and WIDE.match(self.encoding) else "latin-1"


def read_records(source: Source, reporter: Reporter) -> Records:
    """Return the records of the training file of a path; rows that `merge_ids` makes one are still several."""
    options = (source.corpus or NO_OPTIONS)._replace(merge_ids=False)
    path = locate(os.fspath(cast(FilePath, source.data)), "train")
    with replace(source, corpus=options).labelled_file("train", reporter) as points:
        reader = points.reader
        first = reader.peek_line()
        end = "\r" if getattr(reader, "line_end", None) == b"\r" else "\n"
        if isinstance(points, Corpus):
            format = format_of_corpus(path, first, options) if first else None
            labels, _, ids, starts = points.labels(None)
            names = reader.names if isinstance(reader, DocumentFolder) else ()
            return Records(path, labels, starts, options.encoding, end, ids, format, names)
        # The points of an ARFF file are read from a converted one.
        declared = points.path == path and not is_libsvm(first, strict=False)
        labels = points.labels(False, None)[0]
    N = labels.shape[0]
    records = Records(path, labels, list(range(2, N + 2)), options.encoding, end, declared=declared)
    if declared:
        return records
    with open_any(path) as opened, io.TextIOWrapper(opened.stream, records.codec, newline=end) as lines:
        starts = [number for number, line in enumerate(lines, 1) if POINT.match(line)]
    # The declarations of an ARFF file come before its points.
    return records._replace(starts=starts[len(starts) - N :])


def group_values(
    source: Source, records: Records, column: str, note: Callable[[str], object]
) -> Sequence[Identifier | None]:
    """Return the value of a column, or a field, of each document, and note how many have none."""
    if records.ids is None or not (records.format is None or FORMATS[records.format].has_columns):
        raise SettingsError(f"{records.path} has no columns, by which points could be in groups")
    options = (source.corpus or NO_OPTIONS)._replace(id=column, merge_ids=False, format=records.format)
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
    """Copy the records to files in a folder, or to folders in it, and return the names of these."""
    if records.names:
        for part in PARTS:
            (folder / part).mkdir()
        for name, side in zip(records.names, is_test.astype(int).tolist(), strict=True):
            for ending in DOCUMENT_ENDINGS:
                with contextlib.suppress(FileNotFoundError):
                    shutil.copy(os.path.join(records.path, name + ending), folder / PARTS[side])
        return list(PARTS)
    names = []
    for path in filter(None, [records.path, other_part(records.path)]):
        train, test = _part_names(os.path.basename(path))
        with open_any(path) as opened, open_output(folder / train) as output, open_output(folder / test) as test_output:
            _copy(opened, records._replace(path=path), is_test, [output, test_output])
        names += [train, test]
    return names


def _part_names(name: str) -> list[str]:
    """Return the names of the files for training and for testing that are copied from a file."""
    if match := PART.fullmatch(name):
        return [SHORT[part] + name[match.start("ending") :] for part in PARTS]
    ending = re.search(ENDING, name)
    return [part + (ending[0] if ending and ending[0] else ".txt") for part in PARTS]


def _copy(opened: Opened, records: Records, is_test: NDArray[np.bool_], outputs: Sequence[BinaryIO]) -> None:
    """Copy the records of an open file to the outputs for training and for testing."""
    if opened.kind in LIBRARIES:
        copy_table(opened.stream, opened.kind, records.starts, is_test, outputs)
        return
    sides = is_test.astype(int).tolist()
    if records.format == JSON_LINES.name and opened.start.lstrip(BEFORE_JSON).startswith(b"["):
        _copy_elements(LineReader(opened.stream, records.path, records.encoding), sides, outputs)
        return
    point = -1
    lines = io.TextIOWrapper(opened.stream, records.codec, newline=records.end)
    with lines, _writers(outputs, records.codec) as writers:
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
def _writers(outputs: Sequence[BinaryIO], codec: str) -> Iterator[Sequence[io.TextIOWrapper]]:
    """Yield what writes text to outputs, which stay open."""
    writers = [io.TextIOWrapper(output, codec, newline="") for output in outputs]
    yield writers
    for writer in writers:
        writer.detach()


def _copy_elements(reader: LineReader, sides: Sequence[int], outputs: Sequence[BinaryIO]) -> None:
    """Copy the elements of a JSON array into two arrays."""
    marks = ["[\n", "[\n"]
    with _writers(outputs, reader.encoding or "utf-8") as writers:
        for (_, element), side in zip(elements(decoded_lines(reader), reader.path), sides, strict=True):
            writers[side].write(marks[side] + element.strip())
            marks[side] = ",\n"
        for writer in writers:
            writer.write("\n]\n")
