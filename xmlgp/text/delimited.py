"""Tables with a header: comma-separated values as in RFC 4180, and the same with tabs."""

import csv
from itertools import chain

from xmlgp.errors import DataFormatError
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.documents import Document, absent
from xmlgp.text.table_files import as_text

__all__ = ["header_fields", "read_csv", "read_rows", "read_table", "read_tsv"]

#: Most characters of a field. A quote that is not closed would otherwise take the rest of the file into memory.
LONGEST_FIELD = 1 << 24

#: What is wrong with a row, by parts of the text of a `csv.Error`.
REASONS = {
    "unexpected end": "a quoted field of the row that starts here has no closing quote",
    "field limit": "a field of the row that starts here has more than {} characters; is a quote not closed?",
    "new-line character": "the row that starts here has a carriage return that is neither quoted nor before a newline",
    "expected after": "a quote within a quoted field of the row that starts here is not doubled",
}


def header_fields(line, delimiter):
    """Return the names of the columns in a first line, or no names if it is malformed."""
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True), [])
    except csv.Error:
        return []


def read_csv(lines, path, columns, labelled):
    """Yield the documents of a table whose fields are separated by commas, or by semicolons if its header is."""
    number, line = next(lines)
    semicolons = set(columns.text) <= set(header_fields(line, ";")) - set(header_fields(line, ","))
    return _read(chain([(number, line)], lines), path, columns, labelled, ";" if semicolons else ",")


def read_tsv(lines, path, columns, labelled):
    """Yield the documents of a table whose fields are separated by tabs."""
    return _read(lines, path, columns, labelled, "\t")


def read_table(rows, path, columns, labelled):
    """Yield the documents of the rows of a `TableFile`; a cell that is a list has labels, or parts of a text."""
    texts = ((number, row if isinstance(row, DataFormatError) else list(map(as_text, row))) for number, row in rows)
    return _documents(texts, path, columns, labelled)


def _read(lines, path, columns, labelled, delimiter):
    return _documents(read_rows(lines, path, delimiter, keep_errors=True), path, columns, labelled)


def _documents(rows, path, columns, labelled):
    line, header = next(rows, (1, []))
    if isinstance(header, DataFormatError):
        raise header

    def place(name, option):
        if name not in header:
            raise DataFormatError(path, line, absent("column", name, header, option))
        if header.count(name) > 1:
            raise DataFormatError(path, line, f"there are {header.count(name)} columns {excerpt(name)}")
        return header.index(name)

    texts = [place(name, "--text-column") for name in columns.text]
    labels = place(columns.labels, "--label-column") if labelled else None
    named = columns.id if columns.id_needed or columns.id in header else "id"
    identifier = place(named, "--id-column") if columns.id_needed or named in header else None
    for line, row in rows:
        if isinstance(row, DataFormatError):
            yield row
            continue
        if len(row) != len(header):
            fields = "1 field" if len(row) == 1 else f"{len(row)} fields"
            yield DataFormatError(path, line, f"this row has {fields}, but the header has {len(header)}")
            continue
        own = None if identifier is None else _joined(row[identifier])
        text = " ".join([_joined(row[text]) for text in texts])
        yield Document(line, own, text, row[labels] if labelled else [])


def _joined(cell):
    return cell if isinstance(cell, str) else " ".join(cell)


def read_rows(lines, path, delimiter, keep_errors=False):
    """Yield the line where each row starts, and its fields, or its error in place of raising it; skip empty rows."""
    csv.field_size_limit(LONGEST_FIELD)
    rows = csv.reader((line + "\n" for _, line in lines), delimiter=delimiter, strict=True)
    while True:
        start = rows.line_num + 1
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            reasons = [reason for part, reason in REASONS.items() if part in str(error)]
            reason = reasons[0].format(LONGEST_FIELD) if reasons else f"the row that starts here is malformed: {error}"
            row = DataFormatError(path, start, reason)
            if not keep_errors:
                raise row from None
        if row:
            yield start, row
