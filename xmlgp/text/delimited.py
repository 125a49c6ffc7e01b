"""Tables with a header: comma-separated values as in RFC 4180, and the same with tabs or other separators.

Within CSV, fields in quotes may have separators and line ends. In tab-separated values a row is a line, and quotes
count where they balance within it: programs write them without doubling those that are in a text.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from xmlgp.errors import DataFormatError
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.documents import Columns, Document, Reading, absent, unmatched
from xmlgp.text.label_flags import flag_places, is_set

__all__ = ["DECLARED", "delimiter_of", "documents_of_rows", "header_fields", "read_csv", "read_rows", "read_tsv"]

#: Most characters of a field. A quote that is not closed would otherwise take the rest of the file into memory.
LONGEST_FIELD = 1 << 24

#: What separates fields in files that are called CSV.
DELIMITERS = (",", ";", "\t", "|")

#: The first line by which spreadsheets tell each other the separator.
DECLARED = re.compile(r"\s*sep=(.)\s*", re.IGNORECASE)

#: What is wrong with a row, by parts of the text of a `csv.Error`.
REASONS = {
    "unexpected end": "a quoted field of the row that starts here has no closing quote",
    "field limit": "a field of the row that starts here has more than {} characters; is a quote not closed?",
    "new-line character": "the row that starts here has a carriage return that is neither quoted nor before a newline",
    "expected after": "a quote within a quoted field of the row that starts here is not doubled",
}

#: A range of columns by their numbers.
NUMBERS = re.compile(r"\s*[0-9]+\s*:\s*[0-9]+\s*")

#: What to do where quotes are not what they seem to be.
NO_QUOTES = "; --no-quotes takes quotes as any other character, if no field needs them"
QUOTES = "; --quotes reads fields in quotes that have tabs or line ends"

#: What programs write for no value.
NOT_A_VALUE = ("nan", "NaN", "<NA>", "#N/A", "NULL", "\\N")

#: What programs write for whether a label holds; `yes` and `no` are usual names of labels.
BINARY = ("0", "1", "0.0", "1.0", "false", "true")

#: Most texts of labels, and rows, that are kept to tell whether rows were merged.
KEPT = 1 << 12


def header_fields(line: str, delimiter: str) -> list[str]:
    """Return the names of the columns in a first line, or no names if it is malformed."""
    csv.field_size_limit(LONGEST_FIELD)
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True), [])
    except csv.Error:
        return []


def delimiter_of(line: str, columns: Columns, delimiters: Sequence[str] = DELIMITERS) -> str | None:
    """Return what separates the fields of a header that has the columns of text, or None."""
    for delimiter in delimiters:
        fields = header_fields(line, delimiter)
        if all(_same_name(name, fields) is not None for name in columns.text):
            return delimiter
    return None


def _same_name(name: str, names: Sequence[str]) -> str | None:
    """Return the one of some names that is a name, or else the only one that is it but for case and blanks around."""
    if name in names:
        return name
    alike = [other for other in names if other.strip().casefold() == name.casefold()]
    return alike[0] if len(alike) == 1 else None


def read_csv(lines: Iterator[tuple[int, str]], reading: Reading) -> Iterator[Document | DataFormatError]:
    """Return the documents of a table whose fields are separated by commas, or by what its header is separated by."""
    number, line = next(lines)
    declared = DECLARED.fullmatch(line)
    header = reading.columns.header
    if declared:
        delimiter = declared[1]
    elif header:
        delimiter = next((other for other in DELIMITERS if len(header_fields(line, other)) == len(header)), ",")
    else:
        delimiter = delimiter_of(line, reading.columns) or ","
    if not declared:
        lines = chain([(number, line)], lines)
    rows = read_rows(lines, reading.path, delimiter, reading.quotes is not False, keep_errors=True)
    return documents_of_rows(rows, reading, delimiter)


def read_tsv(lines: Iterator[tuple[int, str]], reading: Reading) -> Iterator[Document | DataFormatError]:
    """Return the documents of a table whose fields are separated by tabs."""
    if reading.quotes is None:
        rows = _tab_separated(lines, len(reading.columns.header))
    else:
        rows = read_rows(lines, reading.path, "\t", reading.quotes, keep_errors=True)
    return documents_of_rows(rows, reading, "\t")


def _tab_separated(lines: Iterable[tuple[int, str]], width: int) -> Iterator[tuple[int, list[str]]]:
    """Yield the numbers and the fields of lines; those of the first one are as many as those of a row, or `width`."""
    for number, line in lines:
        if not line:
            continue
        fields = line.split("\t")
        if '"' in line:
            quoted = header_fields(line, "\t")
            # Otherwise the quotes do not balance, or there are tabs in quotes that only look so.
            if quoted and (len(quoted) == width or not width or len(fields) != width):
                fields = quoted
        width = width or len(fields)
        yield number, fields


class _Places(NamedTuple):
    """The places of the columns of a table, and the names of those that are labels themselves (`flags`)."""

    texts: list[int]
    labels: list[int]
    flags: dict[int, str]
    identifier: int | None


def _find_columns(header: list[str], line: int, reading: Reading) -> _Places:
    columns = reading.columns

    def place(name: str, option: str) -> int:
        same = _same_name(name, header)
        if same is None:
            reason = absent("column", name, header, option)
            if option == "--label-column":
                reason += ", or --label-columns which are labels with 0 and 1"
            has_text = any(_same_name(text, header) is not None for text in columns.text)
            if not columns.header and not has_text:
                reason += "; if there is no header, --columns names the columns, as in --columns id,labels,text"
            raise DataFormatError(reading.path, line, reason)
        if header.count(same) > 1:
            raise DataFormatError(reading.path, line, f"there are {header.count(same)} columns {excerpt(same)}")
        return header.index(same)

    _note_renamed(header, reading)
    texts = [place(name, "--text-column") for name in columns.text if reading.with_texts or _same_name(name, header)]
    labels = [place(name, "--label-column") for name in columns.labels] if reading.labelled else []
    named = "id" if columns.id is None else columns.id
    if not columns.id_needed and _same_name(named, header) is None:
        named = "id"
    has_identifiers = columns.id_needed or _same_name(named, header) is not None
    identifier = place(named, "--id-column") if has_identifiers else None
    flags = {}
    if columns.flags and reading.labelled:
        others = [header[place] for place in (*texts, *labels, *([] if identifier is None else [identifier]))]
        for pattern in columns.flags:
            places = flag_places(pattern, header, others)
            if not places:
                raise DataFormatError(reading.path, line, unmatched("column", pattern, header))
            flags |= {place: header[place].strip() for place in places}
            if NUMBERS.fullmatch(pattern):
                names = f"{excerpt(header[places[0]])} to {excerpt(header[places[-1]])}"
                reading.note(f"{reading.path}: columns {pattern} are {names}; a model remembers what you give")
    return _Places(texts, labels, flags, identifier)


def _note_renamed(header: list[str], reading: Reading) -> None:
    """Note columns of the same name, which pandas tells apart by a number, and of which one is read."""
    for option, names in (("--text-column", reading.columns.text), ("--label-column", reading.columns.labels)):
        for name in names:
            more = [other for other in header if re.fullmatch(rf"{re.escape(name)}\.[0-9]+", other)]
            if more and more[0] not in names:
                reading.note(f"{reading.path}: column {excerpt(more[0])} is not read; another {option} reads it too")


class _Doubts:
    """What a table has that may be read otherwise than it was meant, to note it at the end."""

    def __init__(self, header: list[str], places: _Places, delimiter: str | None, reading: Reading) -> None:
        self._header = header
        self._labels = places.labels
        self._delimiter = delimiter
        self._reading = reading
        self._repeated = 0
        self._empty = 0
        # Texts of labels, and those of rows within a row, by the line where that starts.
        self._texts: set[str] = set()
        self._within: dict[int, set[str]] = {}

    def is_header(self, row: list[str]) -> bool:
        """Return whether a row is the header again, as where tables were joined."""
        again = row == self._header and len(row) > 1
        self._repeated += again
        return again

    def value(self, cell: str) -> str:
        """Return a cell, empty if it is what programs write for no value."""
        if cell not in NOT_A_VALUE:
            return cell
        self._empty += 1
        return ""

    def look_at(self, line: int, row: list[str]) -> None:
        """Look for rows that a quote made one."""
        if self._delimiter is None:  # a table file, whose rows no quote can join
            return
        if not any("\n" in field for field in row):
            if len(self._texts) < KEPT:
                self._texts.update(row[place] for place in self._labels)
            return
        lines = [inner.split(self._delimiter) for inner in self._delimiter.join(row).split("\n")]
        # Without labels to compare, two columns are as usual in a text with commas.
        can_tell = self._labels or len(self._header) > 2
        if can_tell and len(self._within) < KEPT and all(len(fields) == len(self._header) for fields in lines):
            self._within[line] = {fields[place] for fields in lines[:-1] for place in self._labels}

    def tell(self) -> None:
        """Note what was found."""
        path = self._reading.path
        note = self._reading.note
        if self._repeated:
            what = "1 row is" if self._repeated == 1 else f"{self._repeated} rows are"
            note(f"{path}: {what} the header again; left out")
        if self._empty:
            what = "1 cell counts" if self._empty == 1 else f"{self._empty} cells count"
            note(f"{path}: {what} as empty, with nan or another mark of no value")
        merged = [line for line, texts in self._within.items() if not self._labels or texts & self._texts]
        if merged:
            what = "1 row has" if len(merged) == 1 else f"{len(merged)} rows have"
            note(f"{path}:{merged[0]}: {what} other rows within quotes; if quotes are characters there, --no-quotes")
        if len(self._texts) == 2 and all(text.strip().lower() in BINARY for text in self._texts):
            name = excerpt(self._header[self._labels[0]])
            values = " and ".join(sorted(filter(None, self._texts)))
            note(
                f"{path}: the labels in {name} are {values}; if columns are labels that the rows with 1 have, "
                "--label-columns names them, as in --label-columns 'topic_*' or FIRST:LAST"
            )


def documents_of_rows(
    rows: Iterator[tuple[int, list[str] | DataFormatError]], reading: Reading, delimiter: str | None = None
) -> Iterator[Document | DataFormatError]:
    """Yield the documents of rows, the first of which has the names of columns unless these are given."""
    line = 1
    header = list(reading.columns.header)
    if not header:
        line, header = next(rows, (1, []))
        if isinstance(header, DataFormatError):
            raise header
    else:
        start = next(rows, None)
        if start:
            rows = chain([start], rows)
            header = _own_header(start[1], header, reading)
    places = _find_columns(header, line, reading)
    doubts = _Doubts(header, places, delimiter, reading)
    for line, row in rows:
        if isinstance(row, DataFormatError):
            yield row
        elif not any(row):
            # Spreadsheets write rows that were once used.
            continue
        elif len(header) == 1 and delimiter and len(row) > 1:
            # A single column needs no quotes around what separates others.
            yield _document(line, [delimiter.join(row)], places, doubts, reading)
        elif len(row) != len(header) and (len(row) < len(header) or any(row[len(header) :])):
            yield _of_wrong_length(line, row, header, reading, delimiter)
        elif not doubts.is_header(row):
            doubts.look_at(line, row)
            yield _document(line, row, places, doubts, reading)
    doubts.tell()


def _own_header(row: list[str] | DataFormatError, header: list[str], reading: Reading) -> list[str]:
    """Return the first row if it is a header with the texts and another one of the given columns, or else these."""
    if not isinstance(row, list) or row == header:
        return header
    known = [name for name in header if _same_name(name, row) is not None]
    if len(known) < 2 or not set(reading.columns.text) <= set(known):
        return header
    reading.note(f"{reading.path}: the first line has the names of --columns as {', '.join(row)}, which count here")
    return row


def _of_wrong_length(
    line: int, row: list[str], header: list[str], reading: Reading, delimiter: str | None
) -> DataFormatError:
    fields = "1 field" if len(row) == 1 else f"{len(row)} fields"
    names = "--columns names" if reading.columns.header else "the header has"
    reason = f"this row has {fields}, but {names} {len(header)}"
    if delimiter == "\t" and reading.quotes is None and any('"' in (field[:1], field[-1:]) for field in row):
        reason += QUOTES
    return DataFormatError(reading.path, line, reason)


def _document(
    line: int, row: list[str], places: _Places, doubts: _Doubts, reading: Reading
) -> Document | DataFormatError:
    own = None if places.identifier is None else _joined(row[places.identifier])
    text = " ".join([doubts.value(_joined(row[place])) for place in places.texts])
    if not reading.labelled:
        return Document(line, own, text, [])
    cells = [row[place] for place in places.labels]
    labels = [doubts.value(cell) if isinstance(cell, str) else cell for cell in cells]
    if not places.flags:
        return Document(line, own, text, labels[0] if len(labels) == 1 else tuple(labels))
    names = []
    for place, name in places.flags.items():
        has_label = is_set(row[place])
        if has_label is None:
            reason = f"column {excerpt(name)} has {excerpt(row[place])}, which is neither 0 nor 1"
            return DataFormatError(reading.path, line, reason, own)
        if has_label:
            names.append(name)
    return Document(line, own, text, names if not labels else (*labels, *names))


def _joined(cell: str | list[str]) -> str:
    """Return a cell of a table file, of which a list is parts of a text."""
    return cell if isinstance(cell, str) else " ".join(cell)


def read_rows(
    lines: Iterable[tuple[int, str]], path: str, delimiter: str, quotes: bool = True, keep_errors: bool = False
) -> Iterator[tuple[int, list[str] | DataFormatError]]:
    """Yield the line where each row starts, and its fields, or its error in place of raising it; skip empty rows."""
    csv.field_size_limit(LONGEST_FIELD)
    lines = iter(lines)
    first = next(lines, None)
    if first is None:
        return
    quoting = csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE
    texts = (line + "\n" for _, line in chain([first], lines))
    rows = csv.reader(texts, delimiter=delimiter, strict=True, quoting=quoting)
    while True:
        start = rows.line_num + first[0]
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            reasons = [reason for part, reason in REASONS.items() if part in str(error)]
            reason = reasons[0].format(LONGEST_FIELD) if reasons else f"the row that starts here is malformed: {error}"
            row = DataFormatError(path, start, reason + NO_QUOTES * ("quote" in reason and not reason.endswith("?")))
            if not keep_errors:
                raise row from None
        if row:
            yield start, row
