"""Documents in tables with a header: comma-separated and tab-separated values, Excel workbooks and Parquet files.

CSV is as RFC 4180 has it: a field in quotes may have commas and line ends. In tab-separated values a row is a line, and
a quote is a character like any other. pandas reads the other two.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator
from datetime import date, time, timedelta
from itertools import repeat
from numbers import Number
from typing import TYPE_CHECKING

from xmlgp.runtime.errors import XmlgpError
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.runtime.zip_archives import open_archive
from xmlgp.text.documents import PAGE, Document, Reading

if TYPE_CHECKING:
    import pandas

__all__ = ["TABLE_ENDINGS", "header_fields", "read_csv", "read_table_file", "read_tsv"]

#: Endings of the files that pandas reads.
TABLE_ENDINGS = (".xlsx", ".parquet")

#: Most characters of a field. A quote that is not closed would otherwise take the rest of the file into memory.
LONGEST_FIELD = 1 << 24

#: Bytes that a workbook may expand to however small it is, and times its size that it may expand to beyond.
FREE_BYTES = 1 << 26
MOST_EXPANDED = 100

#: What has a text; lists, objects and bytes have none.
TEXTS = (str, Number, date, time, timedelta)

#: Rows of a Parquet file that are in memory at a time.
ROWS = 256

#: What a sheet may have that pandas reads as empty cells, and what to do.
UNREADABLE = {
    re.compile(rb"(</f>|<f [^>]*/>)(<v></v>|<v ?/>)?</c>"): "a formula has no value; open the workbook, and save it",
    re.compile(rb"<mergeCell "): "cells are merged, of which only the first has a value; unmerge and fill them",
    re.compile(rb"<c [^>]*\bt=\"e\""): "a cell has an error, such as #N/A; empty or correct it",
}


def header_fields(line: str, delimiter: str) -> list[str]:
    """Return the fields of the first line of a table; none if its quotes are not closed."""
    if delimiter == "\t":
        return line.split("\t")
    try:
        return next(csv.reader([line], strict=True), [])
    except csv.Error:
        return []


def read_tsv(lines: Iterator[tuple[int, str]], reading: Reading) -> Iterator[Document]:
    """Yield the documents of tab-separated values."""
    return _documents(((number, line.split("\t")) for number, line in lines if line), reading)


def read_csv(lines: Iterator[tuple[int, str]], reading: Reading) -> Iterator[Document]:
    """Yield the documents of comma-separated values."""
    return _documents(_csv_rows(lines, reading), reading)


def _csv_rows(lines: Iterator[tuple[int, str]], reading: Reading) -> Iterator[tuple[int, list[str]]]:
    """Yield the line where each row starts, and its fields; skip empty lines."""
    csv.field_size_limit(LONGEST_FIELD)
    rows = csv.reader((line + "\n" for _, line in lines), strict=True)
    start = 1
    try:
        for row in rows:
            if row:
                yield start, row
            start = rows.line_num + 1
    except csv.Error as error:
        reason = f"the row that starts here is not CSV ({error}): is a quote not closed, or one within not doubled?"
        raise reading.error(start, reason) from None


def _documents(rows: Iterator[tuple[int, list[str]]], reading: Reading) -> Iterator[Document]:
    """Yield the documents of rows, the first of which has the names of columns."""
    line, header = next(rows, (1, []))
    header = [name.strip() for name in header]
    for name in reading.names:
        if header.count(name) > 1:
            raise reading.error(line, f"several columns are {excerpt(name)}")
    # A missing column is a mistake of the header, not of the first row.
    reading.document(line, dict.fromkeys(header, ""), "column")
    for line, row in rows:
        if not any(row):
            # Spreadsheets write rows that were once used.
            continue
        if len(row) != len(header):
            raise reading.error(line, f"this row has {counted(len(row), 'field')}, but the header has {len(header)}")
        if len(row) > 1 and row == header:
            raise reading.error(line, "this row is the header again; remove it")
        yield reading.document(line, dict(zip(header, row, strict=True)))


def read_table_file(reading: Reading) -> Iterator[Document]:
    """Yield the documents of a Parquet file, or of the first sheet of a workbook; the line of one is that of its row.

    XmlgpError if the file is damaged, or a cell that is read has no text; a label must be text, as where it is a
    number a sheet may show other digits.
    """
    try:
        yield from _documents(enumerate(_rows(reading), 1), reading)
    except ImportError as error:
        raise XmlgpError(f"{reading.path}: this needs {error.name}: pip install 'xmlgp[tables]'") from None
    except (MemoryError, OSError, XmlgpError):
        raise
    except Exception as error:  # of many kinds
        reason = excerpt(str(error).partition("\n")[0])
        raise XmlgpError(f"{reading.path}: the table is damaged ({reason}); save it as CSV in UTF-8") from error


def _rows(reading: Reading) -> Iterator[list[str]]:
    """Yield the names of columns, and then the cells of each row as texts."""
    is_parquet = reading.path.lower().endswith(".parquet")
    header = None
    for frame in _parquet_frames(reading.path) if is_parquet else _sheet(reading):
        if header is None:
            header = [str(name).strip() for name in frame.columns]
            yield header
        for row in frame.itertuples(index=False, name=None):
            yield list(map(_as_text, row, header, repeat(reading)))


def _as_text(cell: object, name: str, reading: Reading) -> str:
    """Return a cell of a column as a text; empty without a value: None, NaN, NaT or NA."""
    import pandas

    if isinstance(cell, str):
        return cell
    if pandas.isna(cell) is True:  # an array for a list
        return ""
    is_label = name in reading.columns.labels
    if name in reading.names and (is_label or not isinstance(cell, TEXTS)):
        noun = "label" if is_label else "cell"
        reason = f"a {noun} is {excerpt(cell)}, not text; make the column text, or see {PAGE}"
        raise XmlgpError(f"{reading.path}: {reason}")
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def _parquet_frames(path: str) -> Iterator[pandas.DataFrame]:
    from pyarrow import parquet

    for batch in parquet.ParquetFile(path).iter_batches(ROWS):
        # Whole numbers beside null would be floats, which have fewer digits.
        yield batch.to_pandas(integer_object_nulls=True)


def _sheet(reading: Reading) -> Iterator[pandas.DataFrame]:
    """Yield the first sheet of a workbook, if pandas reads all of its cells right."""
    import pandas

    with open_archive(reading.path) as archive:
        most = max(FREE_BYTES, MOST_EXPANDED * os.path.getsize(reading.path))
        if sum(member.file_size for member in archive.infolist()) > most:
            raise XmlgpError(f"{reading.path}: it expands to more than {MOST_EXPANDED} times its size")
        for member in archive.namelist():
            content = archive.read(member) if member.startswith("xl/worksheets/") else b""
            for pattern, reason in UNREADABLE.items():
                if pattern.search(content):
                    raise XmlgpError(f"{reading.path}: {reason}")
    with pandas.ExcelFile(reading.path, engine="openpyxl") as book:
        if len(book.sheet_names) > 1:
            reading.note(f"{reading.path}: only the sheet {excerpt(book.sheet_names[0])} is read, the first one")
        # pandas would number columns of the same name.
        frame = pandas.read_excel(book, header=None, dtype=object, na_filter=False)
        yield frame[1:].set_axis(frame.iloc[0], axis="columns") if len(frame) else frame
