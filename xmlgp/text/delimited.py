"""Tables with a header: comma-separated values as in RFC 4180, and the same with tabs or other separators.

Within CSV, fields in quotes may have separators and line ends. In tab-separated values a row is a line, and quotes
count where they balance within it: programs write them without doubling those that are in a text.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from xmlgp.errors import DataFormatError
from xmlgp.text.documents import Columns, Document, Reading
from xmlgp.text.doubts import note_repeated
from xmlgp.text.format import Format, Start
from xmlgp.text.table_rows import documents_of_rows, same_name

__all__ = ["CSV", "DELIMITERS", "TSV", "header_fields", "read_rows"]

#: Most characters of a field. A quote that is not closed would otherwise take the rest of the file into memory.
LONGEST_FIELD = 1 << 24

#: What separates fields in files that are called CSV.
DELIMITERS = (",", ";", "\t", "|")

#: The first line by which spreadsheets tell each other the separator.
DECLARED = re.compile(r"\s*sep=(.)\s*", re.IGNORECASE)

#: What to do where quotes are not what they seem to be.
NO_QUOTES = "; --no-quotes takes quotes as any other character, if no field needs them"

#: What is wrong with a row, by parts of the text of a `csv.Error`.
REASONS = {
    "unexpected end": "a quoted field of the row that starts here has no closing quote" + NO_QUOTES,
    "field limit": "a field of the row that starts here has more than {} characters; is a quote not closed?",
    "new-line character": "the row that starts here has a carriage return that is neither quoted nor before a newline"
    + NO_QUOTES,
    "expected after": "a quote within a quoted field of the row that starts here is not doubled" + NO_QUOTES,
    "": "the row that starts here is malformed",
}


def header_fields(line: str, delimiter: str) -> list[str]:
    """Return the fields of a line, or none if its quotes do not balance."""
    csv.field_size_limit(LONGEST_FIELD)
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True), [])
    except csv.Error:
        return []


def _delimiter_of(line: str, columns: Columns, delimiters: Sequence[str] = DELIMITERS) -> str | None:
    """Return what separates the fields of a header that has the columns of text, or None."""
    for delimiter in delimiters:
        names = header_fields(line, delimiter)
        if all(same_name(name, names) is not None for name in columns.text):
            return delimiter
    return None


def _most_fields(line: str) -> str:
    """Return what separates a header into most fields."""
    return max(DELIMITERS, key=lambda delimiter: len(header_fields(line, delimiter)))


def _is_header(start: Start, delimiters: Sequence[str]) -> bool:
    """Return whether the first line has the columns of text; `text` alone may be a text."""
    delimiter = _delimiter_of(start.line, start.columns, delimiters)
    if delimiter is None:
        return False
    return len(header_fields(start.line, delimiter)) > 1 or start.columns != Columns()


def _is_tsv(start: Start) -> bool:
    # The rows of a table without a header, which a model was trained on, are no lines of a text and its labels.
    is_row = "\t" in start.line and (start.has_columns or bool(start.columns.header))
    return is_row or _is_header(start, "\t")


def _is_csv(start: Start) -> bool:
    return start.has_columns or bool(DECLARED.fullmatch(start.line)) or _is_header(start, DELIMITERS)


def _read_csv(lines: Iterator[tuple[int, str]], reading: Reading) -> Iterator[Document | DataFormatError]:
    """Return the documents of a table whose fields are separated by commas, or by what its header is separated by."""
    number, line = next(lines)
    declared = DECLARED.fullmatch(line)
    header = reading.columns.header
    if declared:
        delimiter = declared[1]
    else:
        lines = chain([(number, line)], lines)
        if header:
            fitting = (delimiter for delimiter in DELIMITERS if len(header_fields(line, delimiter)) == len(header))
            delimiter = next(fitting, ",")
        else:
            # Without the columns of text, an error follows, which shows the others as people see them.
            delimiter = _delimiter_of(line, reading.columns) or _most_fields(line)
    return documents_of_rows(read_rows(lines, reading.path, delimiter, reading.quotes), reading, delimiter)


def _read_tsv(lines: Iterator[tuple[int, str]], reading: Reading) -> Iterator[Document | DataFormatError]:
    """Return the documents of a table whose fields are separated by tabs."""
    rows: Iterator[tuple[int, list[str]] | DataFormatError]
    if reading.quotes is None:
        rows = _tab_separated(lines, len(reading.columns.header))
    else:
        rows = read_rows(lines, reading.path, "\t", reading.quotes)
    return documents_of_rows(rows, reading, "\t")


def _tab_separated(lines: Iterable[tuple[int, str]], width: int) -> Iterator[tuple[int, list[str]]]:
    """Yield the numbers and the fields of lines; those of the first one are as many as those of a row, or `width`."""
    for number, line in lines:
        if not line:
            continue
        fields = line.split("\t")
        if '"' in line:
            unquoted = header_fields(line, "\t")
            # Otherwise the quotes do not balance, or there are tabs in quotes that only look so.
            if unquoted and (len(unquoted) == width or not width or len(fields) != width):
                fields = unquoted
        width = width or len(fields)
        yield number, fields


def read_rows(
    lines: Iterable[tuple[int, str]], path: str, delimiter: str, quotes: bool | None = None
) -> Iterator[tuple[int, list[str]] | DataFormatError]:
    """Yield the line where each row starts, and its fields or its error; skip empty rows."""
    csv.field_size_limit(LONGEST_FIELD)
    lines = iter(lines)
    first = next(lines, None)
    if first is None:
        return
    texts = (line + "\n" for _, line in chain([first], lines))
    rows = csv.reader(
        texts, delimiter=delimiter, strict=True, quoting=csv.QUOTE_NONE if quotes is False else csv.QUOTE_MINIMAL
    )
    while True:
        start = rows.line_num + first[0]
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            reason = next(reason for sign, reason in REASONS.items() if sign in str(error))
            yield DataFormatError(path, start, reason.format(LONGEST_FIELD))
        else:
            if row:
                yield start, row


#: Tab-separated values.
TSV = Format("tsv", _is_tsv, _read_tsv, has_columns=True, separator=";", doubts=(note_repeated,))
#: Comma-separated values, and those with other separators.
CSV = Format("csv", _is_csv, _read_csv, (".csv",), has_columns=True, separator=";", doubts=(note_repeated,))
