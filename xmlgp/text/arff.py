"""Read ARFF files: those of Weka with texts as a table, those of MEKA with numbers as points with labels.

SciPy's reader supports neither texts nor sparse rows, and multi-label files have one or the other.
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

#: A value in single or double quotes, perhaps with escapes.
QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
#: The declaration of an attribute: its name and its type.
ATTRIBUTE = re.compile(rf"@attribute\s+({QUOTED}|\S+)\s+(\{{.*|\S+)", re.IGNORECASE)
#: The declaration of the relation: its name.
RELATION = re.compile(rf"@relation\s+({QUOTED}|.*)", re.IGNORECASE)

#: A field of a row, which is a value or, in a sparse row, the number of an attribute and its value; then a comma or the
#: end of the row.
FIELD = re.compile(rf"\s*((?:\d+\s+)?(?:{QUOTED})|[^,'\"]*?)\s*(,|\Z)")

#: The number of labels, which MEKA writes into the name of the relation: positive if the first attributes are labels,
#: negative if the last ones are.
LABEL_COUNT = re.compile(r"-C\s+(-?\d+)")

#: What a backslash and one of these letters stand for; after a backslash, any other character stands for itself.
ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}

#: The types of numeric attributes.
NUMERIC = ("numeric", "real", "integer")

#: Bytes that the header reserves for the number of points, which is known and written last.
COUNT_WIDTH = 20


class _Arff(NamedTuple):
    """The names and types of the attributes of a file, and its lines of data with their line numbers.

    `label_count` is as in `LABEL_COUNT`, or None if the file does not say it.
    """

    names: list[str]
    types: list[str]
    label_count: int | None
    lines: Iterator[tuple[int, str]]


def _text_rows(arff: _Arff, path: str) -> Iterator[tuple[int, list[str]] | DataFormatError]:
    """Yield the names of the attributes as the first row, then the rows of data or the error of each malformed one."""
    yield 1, arff.names
    for line_number, line in arff.lines:
        try:
            yield line_number, ["" if cell is None else cell for cell in _cells(line, arff, path, line_number)]
        except DataFormatError as error:
            yield error


@contextlib.contextmanager
def open_arff(opened: Opened, path: str, encoding: str | None) -> Iterator[TableFile | LineReader]:
    """Yield a table if the file has texts, otherwise a reader of its points, converted to the repository's format."""
    arff = _read_header(LineReader(opened.stream, path, encoding), path)
    if any(kind.lower() in ("string", "date") for kind in arff.types):
        yield TableFile(path, _text_rows(arff, path))
        return
    with tempfile.TemporaryFile() as converted:
        _write_points(converted, arff, path)  # type: ignore[arg-type, unused-ignore]  # on Windows, a wrapper
        converted.seek(0)
        # By the path of the ARFF file itself, the cache would take that file for the content of this stream.
        yield LineReader(converted, f"{path} (converted)")


def _read_header(reader: LineReader, path: str) -> _Arff:
    """Read up to the line @data; `lines` of the result goes on from there."""
    names: list[str] = []
    types: list[str] = []
    relation = ""
    stripped = ((line_number, line.strip()) for line_number, line in decoded_lines(reader))
    lines = ((line_number, line) for line_number, line in stripped if line and not line.startswith("%"))
    for line_number, line in lines:
        if line.lower() == "@data":
            match = LABEL_COUNT.search(relation)
            return _Arff(names, types, int(match[1]) if match else None, lines)
        if match := RELATION.fullmatch(line):
            relation = match[1]
        elif match := ATTRIBUTE.match(line):
            names.append(_unquoted(match[1]))
            types.append(match[2])
        else:
            reason = f"this line of an ARFF file is {excerpt(line)}, not @attribute or @data"
            raise DataFormatError(path, line_number, reason)
    raise XmlgpError(f"{path}: this ARFF file has no line @data")


def _cells(line: str, arff: _Arff, path: str, line_number: int) -> list[str | None]:
    """Return the value of each attribute in a line, without quotes, or None if the value is unknown."""
    attribute_count = len(arff.names)
    if not (line.startswith("{") and line.endswith("}")):
        cells = list(map(_value, _fields(line, path, line_number)))
        if len(cells) != attribute_count:
            reason = f"this row has {len(cells)} values, but there are {attribute_count} attributes"
            raise DataFormatError(path, line_number, reason)
        return cells
    cells = [_value_left_out(kind) for kind in arff.types]
    content = line[1:-1].strip()
    for field in _fields(content, path, line_number) if content else []:
        attribute, *value = field.split(None, 1)
        # More digits than nine would take long to read, and are no number of an attribute.
        if not (value and attribute.isdecimal() and len(attribute) < 10 and int(attribute) < attribute_count):
            reason = f"{excerpt(field)} is not `attribute value` below {attribute_count}"
            raise DataFormatError(path, line_number, reason)
        cells[int(attribute)] = _value(value[0])
    return cells


def _fields(content: str, path: str, line_number: int) -> list[str]:
    """Split the content of a row at the commas outside quotes."""
    fields = []
    position = 0
    separator = ","
    while separator:
        match = FIELD.match(content, position)
        if not match:
            reason = f"a quote is not closed, or text follows it: {excerpt(content[position:])}"
            raise DataFormatError(path, line_number, reason)
        fields.append(match[1])
        separator = match[2]
        position = match.end()
    return fields


def _value_left_out(kind: str) -> str | None:
    """Return the value that sparse rows leave out: the first one of a nominal type, or 0."""
    return _value(kind[1:-1].split(",")[0].strip()) if kind[0] == "{" else "0"


def _value(text: str) -> str | None:
    """Return a value without quotes; None for `?`, which stands for an unknown one."""
    return None if text == "?" else _unquoted(text)


def _unquoted(text: str) -> str:
    """Return a value without its quotes and escapes, if it has quotes."""
    if text[:1] not in ("'", '"'):
        return text
    return re.sub(r"\\(.)", lambda match: ESCAPES.get(match[1], match[1]), text[1:-1])


def _write_points(stream: BinaryIO, arff: _Arff, path: str) -> None:
    """Write the points of a numeric file in the repository's format; the name of its relation says what are labels."""
    attribute_count = len(arff.names)
    if not arff.label_count or abs(arff.label_count) >= attribute_count:
        raise XmlgpError(
            f"{path}: this is an ARFF file of numbers whose first line does not say which are labels; as MEKA writes "
            "them, `@relation 'NAME: -C 14'` says that the first 14 attributes are, -14 the last"
        )
    first_label = 0 if arff.label_count > 0 else attribute_count + arff.label_count
    labels = range(first_label, first_label + abs(arff.label_count))
    features = [attribute for attribute in range(attribute_count) if attribute not in labels]
    for attribute in features:
        kind = arff.types[attribute]
        if kind.lower() not in NUMERIC and not _is_binary(kind):
            problem = f"the attribute {excerpt(arff.names[attribute])} is {excerpt(kind)}"
            raise XmlgpError(f"{path}: {problem}; make numbers of it, such as 0 and 1")
    point_count = 0
    stream.write(b" " * COUNT_WIDTH + b" %d %d\n" % (len(features), len(labels)))
    for line_number, line in arff.lines:
        point_count += 1
        cells = _cells(line, arff, path, line_number)
        values = [_finite_number(cell, name, path, line_number) for cell, name in zip(cells, arff.names, strict=True)]
        positives = [str(label - first_label) for label in labels if values[label]]
        pairs = [f"{column}:{values[feature]!r}" for column, feature in enumerate(features) if values[feature]]
        stream.write(f"{','.join(positives)} {' '.join(pairs)}\n".encode())
    stream.seek(0)
    stream.write(str(point_count).rjust(COUNT_WIDTH).encode())


def _is_binary(kind: str) -> bool:
    """Return whether a type is nominal with no other values than 0 and 1."""
    return {value.strip(" '\"") for value in kind.strip("{}").split(",")} <= {"0", "1"}


def _finite_number(cell: str | None, name: str, path: str, line_number: int) -> float:
    """Return the number in a cell; raise DataFormatError with the name of its attribute if there is none."""
    try:
        value = float(cell or "nan")
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        shown = "unknown (?)" if cell is None else f"{excerpt(cell)}, not a number"
        raise DataFormatError(path, line_number, f"the attribute {excerpt(name)} is {shown}")
    return value
