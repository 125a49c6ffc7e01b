"""ARFF files of Weka: with texts a table, and with the numbers and labels of MEKA rows of numbers.

SciPy's reader has neither texts nor sparse rows, which are what files for several labels have.
"""

from __future__ import annotations

import contextlib
import math
import re
import tempfile
from collections.abc import Iterator, Sequence
from typing import BinaryIO, NamedTuple

from xmlgp.data.lines import LineReader, decoded_lines
from xmlgp.data.streams import Opened
from xmlgp.errors import DataFormatError, XmlgpError
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.table_files import Cell, TableFile

__all__ = ["open_arff"]

#: A value in quotes, with escapes, or without.
VALUE = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
CELL = re.compile(rf"\s*({VALUE}|[^,'\"]*?)\s*(,|\Z)")
ATTRIBUTE = re.compile(rf"@attribute\s+({VALUE}|\S+)\s+(\{{.*|\S+)", re.IGNORECASE)
RELATION = re.compile(rf"@relation\s+({VALUE}|.*)", re.IGNORECASE)
SPARSE = re.compile(rf"\s*(\d+)\s+({VALUE}|[^,'\"\s]+)\s*(,|\Z)")

#: What MEKA writes into the name of the relation: how many of the first attributes are labels, or of the last ones.
LABELS = re.compile(r"-C\s+(-?\d+)")

#: What a backslash and a character stand for, unless it is the character.
ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}

#: Types of attributes with numbers.
NUMERIC = ("numeric", "real", "integer")

#: Characters of the number of points, which is written when all are.
WIDTH = 20


class _Arff(NamedTuple):
    """The attributes of a file, how many of them are labels, or None, and its lines of data with their numbers."""

    names: list[str]
    types: list[str]
    label_count: int | None
    lines: Iterator[tuple[int, str]]


class _ArffTable(TableFile):
    """The rows of a file that has texts."""

    def __init__(self, path: str, arff: _Arff) -> None:
        self.path = path
        self.encoding = None
        self.errors = None
        self._arff = arff

    def rows(self) -> Iterator[tuple[int, list[Cell] | DataFormatError]]:
        yield 1, list(self._arff.names)
        for number, line in self._arff.lines:
            try:
                yield number, _cells(line, self._arff, self.path, number)
            except DataFormatError as error:
                yield number, error


@contextlib.contextmanager
def open_arff(opened: Opened, path: str, encoding: str | None) -> Iterator[TableFile | LineReader]:
    """Yield the table in a file that has texts, otherwise a reader of its points in the repository's format."""
    arff = _read_header(LineReader(opened.stream, path, encoding), path)
    if any(kind.lower() in ("string", "date") for kind in arff.types):
        yield _ArffTable(path, arff)
        return
    with tempfile.TemporaryFile() as stream:
        _write_points(stream, arff, path)
        stream.seek(0)
        # It is not the file of this name, which a cache would look at.
        yield LineReader(stream, f"{path} (converted)")


def _read_header(reader: LineReader, path: str) -> _Arff:
    names = []
    types = []
    relation = ""
    lines = ((number, line.strip()) for number, line in decoded_lines(reader))
    lines = ((number, line) for number, line in lines if line and not line.startswith("%"))
    for number, line in lines:
        if line.lower() == "@data":
            count = LABELS.search(relation)
            return _Arff(names, types, count and int(count[1]), lines)
        if found := RELATION.fullmatch(line):
            relation = found[1]
        elif found := ATTRIBUTE.match(line):
            names.append(_unquoted(found[1]))
            types.append(found[2])
        else:
            raise DataFormatError(
                path, number, f"this line of an ARFF file is {excerpt(line)}, not @attribute or @data"
            )
    raise XmlgpError(f"{path}: this ARFF file has no line @data")


def _cells(line: str, arff: _Arff, path: str, number: int) -> list[str | None]:
    """Return the values in a line, without quotes; None for one that is not known."""
    count = len(arff.names)
    if line.startswith("{") and line.endswith("}"):
        # What is not listed is the first value of its type, or 0.
        cells = [_unquoted(kind[1:-1].split(",")[0].strip()) if kind[0] == "{" else "0" for kind in arff.types]
        place = 0
        content = line[1:-1].strip()
        while place < len(content):
            found = SPARSE.match(content, place)
            if not found or int(found[1]) >= count:
                raise DataFormatError(
                    path, number, f"{excerpt(content[place:].strip())} is not `attribute value` below {count}"
                )
            cells[int(found[1])] = _value(found[2])
            place = found.end()
        return cells
    cells = []
    place = 0
    separator = ","
    while separator:
        found = CELL.match(line, place)
        if not found:
            raise DataFormatError(path, number, f"a quote is not closed, or text follows it: {excerpt(line[place:])}")
        cells.append(_value(found[1]))
        separator = found[2]
        place = found.end()
    if len(cells) != count:
        raise DataFormatError(path, number, f"this row has {len(cells)} values, but there are {count} attributes")
    return cells


def _value(text: str) -> str | None:
    return None if text == "?" else _unquoted(text)


def _unquoted(text: str) -> str:
    if text[:1] not in ("'", '"'):
        return text
    return re.sub(r"\\(.)", lambda found: ESCAPES.get(found[1], found[1]), text[1:-1])


def _write_points(stream: BinaryIO, arff: _Arff, path: str) -> None:
    """Write the points of a file with the labels of MEKA in the repository's format."""
    count = len(arff.names)
    if not arff.label_count or abs(arff.label_count) >= count:
        which = "as MEKA writes them, `@relation 'NAME: -C 14'` says that the first 14 attributes are, -14 the last"
        raise XmlgpError(
            f"{path}: this is an ARFF file of numbers whose first line does not say which are labels; {which}"
        )
    first = 0 if arff.label_count > 0 else count + arff.label_count
    labels = range(first, first + abs(arff.label_count))
    features = [place for place in range(count) if place not in labels]
    for place in features:
        kind = arff.types[place]
        if kind.lower() not in NUMERIC and not _is_binary(kind):
            reason = (
                f"the attribute {excerpt(arff.names[place])} is {excerpt(kind)}; make numbers of it, such as 0 and 1"
            )
            raise XmlgpError(f"{path}: {reason}")
    points = 0
    stream.write(b" " * WIDTH + b" %d %d\n" % (len(features), len(labels)))
    for number, line in arff.lines:
        points += 1
        cells = _cells(line, arff, path, number)
        own = [str(place - first) for place in labels if _number(cells, place, arff, path, number)]
        values = [(column, _number(cells, place, arff, path, number)) for column, place in enumerate(features)]
        pairs = [f"{column}:{value!r}" for column, value in values if value]
        stream.write(f"{','.join(own)} {' '.join(pairs)}\n".encode())
    stream.seek(0)
    stream.write(str(points).rjust(WIDTH).encode())


def _is_binary(kind: str) -> bool:
    return {value.strip(" '\"") for value in kind.strip("{}").split(",")} <= {"0", "1"}


def _number(cells: Sequence[str | None], place: int, arff: _Arff, path: str, number: int) -> float:
    try:
        value = float(cells[place] or "nan")
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        shown = "unknown (?)" if cells[place] is None else f"{excerpt(cells[place])}, not a number"
        raise DataFormatError(path, number, f"the attribute {excerpt(arff.names[place])} is {shown}")
    return value
