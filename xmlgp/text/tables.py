"""Documents in tables with a header: comma-separated and tab-separated values.

CSV is as RFC 4180 has it: a field in quotes may have commas and line ends. In tab-separated values a row is a line, and
a quote is a character like any other.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator

from xmlgp.runtime.errors import DataFormatError
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.documents import PAGE, Document, Reading, absent

__all__ = ["documents_of_rows", "header_fields", "read_csv", "read_rows", "read_tsv"]

#: Most characters of a field. A quote that is not closed would otherwise take the rest of the file into memory.
LONGEST_FIELD = 1 << 24


def header_fields(line: str, delimiter: str) -> list[str]:
    """Return the fields of the first line of a table; none if its quotes are not closed."""
    if delimiter == "\t":
        return line.split("\t")
    try:
        return next(csv.reader([line], strict=True), [])
    except csv.Error:
        return []


def read_csv(lines: Iterator[tuple[int, str]], reading: Reading) -> Iterator[Document]:
    """Yield the documents of comma-separated values."""
    return documents_of_rows(read_rows(lines, reading.path, ","), reading)


def read_tsv(lines: Iterator[tuple[int, str]], reading: Reading) -> Iterator[Document]:
    """Yield the documents of tab-separated values."""
    return documents_of_rows(read_rows(lines, reading.path, "\t"), reading)


def read_rows(lines: Iterable[tuple[int, str]], path: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line where each row starts, and its fields; skip empty lines. DataFormatError names a malformed row."""
    if delimiter == "\t":
        yield from ((number, line.split("\t")) for number, line in lines if line)
        return
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
        raise DataFormatError(path, start, reason) from None


def documents_of_rows(rows: Iterator[tuple[int, list[str]]], reading: Reading) -> Iterator[Document]:
    """Yield the documents of rows, the first of which has the names of columns."""
    line, header = next(rows, (1, []))
    header = [name.strip() for name in header]
    columns = reading.columns

    def position(name: str, option: str) -> int:
        if header.count(name) > 1:
            raise reading.error(line, f"there are {header.count(name)} columns {excerpt(name)}")
        if name not in header:
            reason = f"{absent('column', name, header, option)}, and {PAGE} has tables without a header"
            if len(header) == 1 and name in re.split("[;|\t]", header[0]):
                found = f"there is no column {excerpt(name)}; the columns are {excerpt(header[0])}"
                reason = f"{found}; commas, or tabs in .tsv, separate columns, and {PAGE} has other separators"
            raise reading.error(line, reason)
        return header.index(name)

    texts = [position(name, "--text-column") for name in columns.text if reading.with_texts or name in header]
    labels = [position(name, "--label-column") for name in columns.labels] if reading.labelled else []
    id_name = columns.id or "id"
    identifier = position(id_name, "--id-column") if id_name in header or reading.id_needed else None
    for line, row in rows:
        if not any(row):
            # Spreadsheets write rows that were once used.
            continue
        if len(row) != len(header):
            raise reading.error(line, f"this row has {counted(len(row), 'field')}, but the header has {len(header)}")
        if len(row) > 1 and row == header:
            raise reading.error(line, "this row is the header again; remove it")
        text = " ".join([row[column] for column in texts])
        yield Document(line, None if identifier is None else row[identifier], text, [row[column] for column in labels])
