"""ARFF files of Weka: with texts a table, and with the numbers and labels of MEKA rows of numbers.

SciPy's reader has neither texts nor sparse rows, which are what files for several labels have.
"""

from __future__ import annotations

import contextlib
import math
import re
import tempfile
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from xmlgp.data.lines import LineReader, decoded_lines
from xmlgp.data.streams import Opened
from xmlgp.errors import DataFormatError, XmlgpError
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.table_files import TableFile

__all__ = ["open_arff"]

#: A value in quotes, with escapes, or without.
VALUE = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
#: The name of an attribute and its type.
ATTRIBUTE = re.compile(rf"@attribute\s+({VALUE}|\S+)\s+(\{{.*|\S+)", re.IGNORECASE)
#: The name of the relation.
RELATION = re.compile(rf"@relation\s+({VALUE}|.*)", re.IGNORECASE)

#: A value, or an attribute and its value, and what follows it.
FIELD = re.compile(rf"\s*((?:\d+\s+)?(?:{VALUE})|[^,'\"]*?)\s*(,|\Z)")

#: What MEKA writes into the name of the relation: how many of the first attributes are labels, or of the last ones.
LABELS = re.compile(r"-C\s+(-?\d+)")

#: What a backslash and a character stand for, unless it is the character.
ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}

#: Types of attributes with numbers.
NUMERIC = ("numeric", "real", "integer")

#: Characters of the number of points, which is written last.
WIDTH = 20


class _Arff(NamedTuple):
    """The attributes of a file, how many of them are labels, or None, and its lines of data with their numbers."""

    names: list[str]
    types: list[str]
    label_count: int | None
    lines: Iterator[tuple[int, str]]


def _text_rows(arff: _Arff, path: str) -> Iterator[tuple[int, list[str]] | DataFormatError]:
    """Yield the rows of a file that has texts, the first of which has the names of the attributes."""
    yield 1, arff.names
    for number, line in arff.lines:
        try:
            yield number, ["" if cell is None else cell for cell in _cells(line, arff, path, number)]
        except DataFormatError as error:
            yield error


@contextlib.contextmanager
def open_arff(opened: Opened, path: str, encoding: str | None) -> Iterator[TableFile | LineReader]:
    """Yield the table in a file that has texts, otherwise a reader of its points in the repository's format."""
    arff = _read_header(LineReader(opened.stream, path, encoding), path)
    if any(kind.lower() in ("string", "date") for kind in arff.types):
        yield TableFile(path, _text_rows(arff, path))
        return
    with tempfile.TemporaryFile() as stream:
        _write_points(stream, arff, path)
        stream.seek(0)
        # It is not the file of this name, which a cache would look at.
        yield LineReader(stream, f"{path} (converted)")


def _read_header(reader: LineReader, path: str) -> _Arff:
    names: list[str] = []
    types: list[str] = []
    relation = ""
    lines = ((number, line.strip()) for number, line in decoded_lines(reader))
    lines = ((number, line) for number, line in lines if line and not line.startswith("%"))
    for number, line in lines:
        if line.lower() == "@data":
            count = LABELS.search(relation)
            return _Arff(names, types, int(count[1]) if count else None, lines)
        if match := RELATION.fullmatch(line):
            relation = match[1]
        elif match := ATTRIBUTE.match(line):
            names.append(_unquoted(match[1]))
            types.append(match[2])
        else:
            reason = f"this line of an ARFF file is {excerpt(line)}, not @attribute or @data"
            raise DataFormatError(path, number, reason)
    raise XmlgpError(f"{path}: this ARFF file has no line @data")


def _cells(line: str, arff: _Arff, path: str, number: int) -> list[str | None]:
    """Return the values in a line, without quotes; None for one that is not known."""
    count = len(arff.names)
    if not (line.startswith("{") and line.endswith("}")):
        cells = list(map(_value, _fields(line, path, number)))
        if len(cells) != count:
            raise DataFormatError(path, number, f"this row has {len(cells)} values, but there are {count} attributes")
        return cells
    # A value that is left out is the first one of its type, or 0.
    cells = [_value(kind[1:-1].split(",")[0].strip()) if kind[0] == "{" else "0" for kind in arff.types]
    content = line[1:-1].strip()
    for field in _fields(content, path, number) if content else []:
        attribute, *value = field.split(None, 1)
        if not (value and attribute.isdecimal() and int(attribute[:9]) < count):
            raise DataFormatError(path, number, f"{excerpt(field)} is not `attribute value` below {count}")
        cells[int(attribute)] = _value(value[0])
    return cells


def _fields(content: str, path: str, number: int) -> list[str]:
    """Return what commas outside quotes divide a line into."""
    fields = []
    position = 0
    separator = ","
    while separator:
        match = FIELD.match(content, position)
        if not match:
            reason = f"a quote is not closed, or text follows it: {excerpt(content[position:])}"
            raise DataFormatError(path, number, reason)
        fields.append(match[1])
        separator = match[2]
        position = match.end()
    return fields


def _value(text: str) -> str | None:
    return None if text == "?" else _unquoted(text)


def _unquoted(text: str) -> str:
    if text[:1] not in ("'", '"'):
        return text
    return re.sub(r"\\(.)", lambda match: ESCAPES.get(match[1], match[1]), text[1:-1])


def _write_points(stream: BinaryIO, arff: _Arff, path: str) -> None:
    """Write the points of a file with the labels of MEKA in the repository's format."""
    count = len(arff.names)
    if not arff.label_count or abs(arff.label_count) >= count:
        raise XmlgpError(
            f"{path}: this is an ARFF file of numbers whose first line does not say which are labels; as MEKA writes "
            "them, `@relation 'NAME: -C 14'` says that the first 14 attributes are, -14 the last"
        )
    first = 0 if arff.label_count > 0 else count + arff.label_count
    labels = range(first, first + abs(arff.label_count))
    features = [attribute for attribute in range(count) if attribute not in labels]
    for attribute in features:
        kind = arff.types[attribute]
        if kind.lower() not in NUMERIC and not _is_binary(kind):
            what = f"the attribute {excerpt(arff.names[attribute])} is {excerpt(kind)}"
            raise XmlgpError(f"{path}: {what}; make numbers of it, such as 0 and 1")
    points = 0
    stream.write(b" " * WIDTH + b" %d %d\n" % (len(features), len(labels)))
    for number, line in arff.lines:
        points += 1
        cells = _cells(line, arff, path, number)
        numbers = [_number(cell, name, path, number) for cell, name in zip(cells, arff.names, strict=True)]
        positives = [str(label - first) for label in labels if numbers[label]]
        pairs = [f"{column}:{numbers[feature]!r}" for column, feature in enumerate(features) if numbers[feature]]
        stream.write(f"{','.join(positives)} {' '.join(pairs)}\n".encode())
    stream.seek(0)
    stream.write(str(points).rjust(WIDTH).encode())


def _is_binary(kind: str) -> bool:
    return {value.strip(" '\"") for value in kind.strip("{}").split(",")} <= {"0", "1"}


def _number(cell: str | None, name: str, path: str, number: int) -> float:
    try:
        value = float(cell or "nan")
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        shown = "unknown (?)" if cell is None else f"{excerpt(cell)}, not a number"
        raise DataFormatError(path, number, f"the attribute {excerpt(name)} is {shown}")
    return value
