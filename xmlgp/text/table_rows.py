"""The documents of a table: the columns of texts, labels and identifiers, and notes on what was hardly meant."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from xmlgp.errors import DataFormatError
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.documents import Document, Reading, absent
from xmlgp.text.json_objects import Malformed
from xmlgp.text.label_flags import flag_columns, set_flags
from xmlgp.text.written_names import CELL_MARKS

__all__ = ["Row", "documents_of_rows", "same_name"]

#: The cells of a row, where a table file may have lists of texts.
Row = Sequence[str | list[str]]

#: What to do where a field in quotes seems to go on in the next line.
QUOTES = "; --quotes reads fields in quotes that have tabs or line ends"

#: What programs write for whether a label holds; `yes` and `no` are usual names of labels.
BINARY = ("0", "1", "0.0", "1.0", "false", "true")

#: Most texts of labels, and rows, that are kept to tell whether rows were merged.
KEPT = 1 << 12


def same_name(name: str, names: Sequence[str]) -> str | None:
    """Return the one of some names that is a name, or else the only one that differs in case and blanks around."""
    if name in names:
        return name
    alike = [other for other in names if other.strip().casefold() == name.casefold()]
    return alike[0] if len(alike) == 1 else None


class _Columns(NamedTuple):
    """The positions of the columns of a table, and the names of those that are labels themselves (`flags`)."""

    texts: list[int]
    labels: list[int]
    flags: dict[int, str]
    identifier: int | None


def _find_columns(header: list[str], line: int, reading: Reading) -> _Columns:
    """Return the columns that the options, or a model, name; DataFormatError if one is missing."""
    columns = reading.columns

    def position(name: str, option: str) -> int:
        column = same_name(name, header)
        if column is None:
            raise reading.error(line, _without_column(name, header, option, reading))
        if header.count(column) > 1:
            raise reading.error(line, f"there are {header.count(column)} columns {excerpt(column)}")
        return header.index(column)

    _note_renamed(header, reading)
    texts = [
        position(name, "--text-column")
        for name in columns.text
        if reading.with_texts or same_name(name, header) is not None
    ]
    labels = [position(name, "--label-column") for name in columns.labels] if reading.labelled else []
    names = (name for name in (columns.id or "id", "id") if same_name(name, header) is not None)
    id_name = columns.id if columns.id_needed else next(names, None)
    identifier = None if id_name is None else position(id_name, "--id-column")
    named = [header[column] for column in (*texts, *labels, identifier) if column is not None]
    try:
        flags = flag_columns("column", columns.flags if reading.labelled else (), header, named)
        flags = {column: name.strip() for column, name in flags.items()}
    except Malformed as error:
        raise reading.error(line, str(error)) from None
    return _Columns(texts, labels, flags, identifier)


def _without_column(name: str, header: list[str], option: str, reading: Reading) -> str:
    """Return the reason why a column is missing, with the ways out."""
    reason = absent("column", name, header, option)
    if option == "--label-column":
        reason += ", several times if several have, or --label-columns which are labels with 0 and 1"
    if not reading.columns.header and all(same_name(text, header) is None for text in reading.columns.text):
        reason += "; if there is no header, --columns names the columns, as in --columns id,labels,text"
    return reason


def _note_renamed(header: list[str], reading: Reading) -> None:
    """Note columns of the same name, which pandas tells apart by a number, and of which one is read."""
    for option, names in (("--text-column", reading.columns.text), ("--label-column", reading.columns.labels)):
        for name in names:
            renamed = [other for other in header if re.fullmatch(rf"{re.escape(name)}\.[0-9]+", other)]
            if renamed and renamed[0] not in names:
                reading.tell(f"column {excerpt(renamed[0])} is not read; another {option} reads it too")


class _Notes:
    """What a table has that may be read otherwise than it was meant, to note it at the end."""

    def __init__(self, header: list[str], labels: list[int], delimiter: str | None) -> None:
        self._header = header
        self._labels = labels
        self._delimiter = delimiter
        self._headers = 0
        self._marks = 0
        self._label_texts: set[str] = set()
        #: The texts of labels of the rows within a row, by the line where that starts.
        self._merged: dict[int, set[str]] = {}

    def is_header(self, row: Row) -> bool:
        """Return whether a row is the header again, as where tables were joined."""
        is_header = row == self._header and len(row) > 1
        self._headers += is_header
        return is_header

    def value(self, cell: str) -> str:
        """Return a cell, empty if it is what programs write for no value."""
        if cell not in CELL_MARKS:
            return cell
        self._marks += 1
        return ""

    def look_at(self, line: int, row: Row) -> None:
        """Look for rows of a text that a quote made one."""
        if self._delimiter is None:  # a table file, whose rows no quote can join
            return
        if not any("\n" in field for field in row):
            if len(self._label_texts) < KEPT:
                self._label_texts.update([_joined(row[column]) for column in self._labels])
            return
        rows = [text.split(self._delimiter) for text in self._delimiter.join(map(_joined, row)).split("\n")]
        # Without labels to compare, two columns are as usual in a text with commas.
        can_tell = self._labels or len(self._header) > 2
        if can_tell and len(self._merged) < KEPT and all(len(fields) == len(self._header) for fields in rows):
            self._merged[line] = {fields[column] for fields in rows[:-1] for column in self._labels}

    def tell(self, reading: Reading) -> None:
        """Note what the rows had."""
        if self._headers:
            reading.tell(f"{counted(self._headers, 'row is', 'rows are')} the header again; left out")
        if self._marks:
            cells = counted(self._marks, "cell counts", "cells count")
            reading.tell(f"{cells} as empty, with nan or another mark of no value")
        merged = [line for line, texts in self._merged.items() if not self._labels or texts & self._label_texts]
        if merged:
            rows = counted(len(merged), "row has", "rows have")
            reading.tell(f"{rows} other rows within quotes; if quotes are characters there, --no-quotes", merged[0])
        if len(self._label_texts) == 2 and all(text.strip().lower() in BINARY for text in self._label_texts):
            name = excerpt(self._header[self._labels[0]])
            reading.tell(
                f"the labels in {name} are {' and '.join(sorted(self._label_texts))}; if columns are labels that the "
                "rows with 1 have, --label-columns names them, as in --label-columns 'topic_*' or FIRST:LAST"
            )


def documents_of_rows(
    rows: Iterator[tuple[int, Row] | DataFormatError], reading: Reading, delimiter: str | None = None
) -> Iterator[Document | DataFormatError]:
    """Yield the documents of rows, the first of which has the names of columns unless these are given."""
    first = next(rows, (1, []))
    if reading.columns.header:
        rows = chain([first], rows)
        line = 1
        header = _header_in(first, reading)
    elif isinstance(first, DataFormatError):
        raise first
    else:
        line, row = first
        header = list(map(_joined, row))
    columns = _find_columns(header, line, reading)
    notes = _Notes(header, columns.labels, delimiter)
    width = len(header)
    for item in rows:
        if isinstance(item, DataFormatError):
            yield item
            continue
        line, row = item
        if not any(row):
            # Spreadsheets write rows that were once used.
            continue
        if width == 1 and delimiter and len(row) > 1:
            # A single column needs no quotes around what separates others.
            row = [delimiter.join(map(_joined, row))]
        if len(row) != width and (len(row) < width or any(row[width:])):
            yield _of_wrong_length(line, row, width, reading, delimiter)
        elif not notes.is_header(row):
            notes.look_at(line, row)
            yield _document(line, row, columns, notes, reading)
    notes.tell(reading)


def _header_in(first: tuple[int, Row] | DataFormatError, reading: Reading) -> list[str]:
    """Return the first row if it is a header with the texts and another one of the given columns, or else these."""
    header = list(reading.columns.header)
    if isinstance(first, DataFormatError):
        return header
    names = list(map(_joined, first[1]))
    shared = [name for name in header if same_name(name, names) is not None]
    if names == header or len(shared) < 2 or not set(reading.columns.text) <= set(shared):
        return header
    reading.tell(f"the first line has the names of --columns as {', '.join(names)}, which count here")
    return names


def _of_wrong_length(line: int, row: Row, width: int, reading: Reading, delimiter: str | None) -> DataFormatError:
    names = "--columns names" if reading.columns.header else "the header has"
    reason = f"this row has {counted(len(row), 'field')}, but {names} {width}"
    if delimiter == "\t" and reading.quotes is None and any('"' in (field[:1], field[-1:]) for field in row):
        reason += QUOTES
    return reading.error(line, reason)


def _document(line: int, row: Row, columns: _Columns, notes: _Notes, reading: Reading) -> Document | DataFormatError:
    identifier = None if columns.identifier is None else _joined(row[columns.identifier])
    text = " ".join([notes.value(_joined(row[column])) for column in columns.texts])
    if not reading.labelled:
        return Document(line, identifier, text, [])
    cells = [row[column] for column in columns.labels]
    labels = [notes.value(cell) if isinstance(cell, str) else cell for cell in cells]
    if len(labels) == 1 and not columns.flags:
        return Document(line, identifier, text, labels[0])
    names = [name for cell in labels for name in ([cell] if isinstance(cell, str) else cell)]
    try:
        flags = set_flags("column", {name: row[column] for column, name in columns.flags.items()})
    except Malformed as error:
        return reading.error(line, str(error), identifier)
    # Without a column to divide, the names are those of columns.
    return Document(line, identifier, text, (*names, *flags) if names else flags)


def _joined(cell: str | list[str]) -> str:
    """Return a cell as a text; a list has the parts of one."""
    return cell if isinstance(cell, str) else " ".join(cell)
