"""Objects of JSON in a file: one a line, or the elements of an array."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from typing import TypeVar

from xmlgp.data.lines import MAX_LINE_BYTES
from xmlgp.errors import DataFormatError
from xmlgp.runtime.untrusted_text import excerpt

__all__ = ["Malformed", "elements", "read_objects", "show_value"]

Parsed = TypeVar("Parsed")

#: Whitespace between the values of JSON.
BLANK = " \t\r\n"

#: What divides an array into elements, and what hides it: quotes and escapes.
MARKS = re.compile(r'\\.|["\[\]{},]')


class Malformed(ValueError):
    """An object is not what it should be; the text says why. `id` is its identifier, if it is known."""

    id: str | int | None = None


def read_objects(
    lines: Iterator[tuple[int, str]], path: str, parse: Callable[[int, dict[str, object]], tuple[Parsed, list[str]]]
) -> Iterator[Parsed | DataFormatError]:
    """Yield what `parse` makes of the number of the line of each object and of its fields, or the error of the object.

    `parse` also returns the texts in the object, and raises `Malformed`.
    """
    number, line = next(((number, line) for number, line in lines if line and not line.isspace()), (1, ""))
    lines = chain([(number, line)], lines)
    if line.lstrip(BLANK).startswith("["):
        for position, (number, text) in enumerate(elements(lines, path), 1):
            yield _object(text, number, path, parse, f"element {position}")
    else:
        for number, line in lines:
            if line.strip():
                yield _object(line, number, path, parse)


def _object(
    text: str,
    number: int,
    path: str,
    parse: Callable[[int, dict[str, object]], tuple[Parsed, list[str]]],
    element: str = "",
) -> Parsed | DataFormatError:
    """Return what `parse` makes of the text of an object, a line or an `element` of an array."""
    what = element or "this line"
    try:
        fields = JSON.decode(text)
    except (ValueError, RecursionError) as error:
        number += getattr(error, "lineno", 1) - 1
        return DataFormatError(path, number, f"{what} is not JSON: {_reason(error)}{_advice(text, error)}")
    if not isinstance(fields, dict):
        return DataFormatError(path, number, f"{what} is {show_value(fields)}, not a JSON object")
    try:
        parsed, texts = parse(number, fields)
    except Malformed as error:
        return DataFormatError(path, number, f"{element}: {error}" if element else str(error), error.id)
    except RecursionError:
        return DataFormatError(path, number, f"{what} is nested too deeply")
    # JSON can have halves of characters, which no UTF-8 file can.
    if "\\u" in text:
        try:
            "".join(texts).encode()
        except UnicodeEncodeError:
            reason = "an escape sequence is half of a surrogate pair"
            return DataFormatError(path, number, reason, getattr(parsed, "id", None))
    return parsed


def _reason(error: Exception) -> str:
    """Return why a text is not JSON."""
    if isinstance(error, json.JSONDecodeError):
        # Some end with "at".
        return f"{error.msg.removesuffix(' at')} at column {error.colno}"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return str(error) if isinstance(error, Malformed) else "a number has too many digits"


def _advice(text: str, error: Exception) -> str:
    """Return how a text that is not JSON becomes what can be read, if it shows that."""
    if text.rstrip() == "{":
        # The first line of an object that has several.
        return "; `jq -c .` writes each object on one line"
    if "Extra data" in str(error):
        return "; `jq -c .` writes each of several objects on a line"
    if text.lstrip().startswith("{'"):
        return "; this is how Python shows a dict, json.dumps writes JSON"
    return ""


class _Brackets:
    """Follows the depth of brackets in the lines of an array.

    Attributes
    ----------
    depth : int
    quoted : bool
        Whether the last line ended within a text in quotes.
    """

    def __init__(self) -> None:
        self.depth = 0
        self.quoted = False

    def outermost(self, line: str) -> Iterator[tuple[int, str]]:
        """Yield the position of each bracket of the array in a line, or comma between its elements, and this mark."""
        self.quoted = False
        for match in MARKS.finditer(line):
            mark = match[0]
            self.quoted ^= mark == '"'
            if not self.quoted:
                self.depth += (mark in ("[", "{")) - (mark in ("]", "}"))
                if self.depth == 0 or (self.depth == 1 and mark in ("[", ",")):
                    yield match.start(), mark


def elements(lines: Iterator[tuple[int, str]], path: str) -> Iterator[tuple[int, str]]:
    """Yield the line where each element of an array starts, and its text."""
    brackets = _Brackets()
    parts: list[str] = []  # of the element, line by line
    size = 0
    start = 1
    is_first = True
    for number, line in lines:
        begin = 0
        for position, mark in brackets.outermost(line):
            if mark == "}":
                raise DataFormatError(path, number, "a brace closes the JSON array")
            if mark != "[":
                text = "\n".join([*parts, line[begin:position]])
                if mark == "," or text.strip(BLANK) or not is_first:
                    yield start if parts else number, text
                parts = []
                size = 0
                is_first = False
            begin = position + 1
            if mark == "]":
                _check_end(chain([(number, line[begin:])], lines), path)
                return
        if brackets.quoted:
            raise DataFormatError(path, number, "this line ends within a text in quotes")
        rest = line[begin:]
        if parts or rest.strip(BLANK):
            start = start if parts else number
            parts.append(rest)
            size += len(rest)
        if size > MAX_LINE_BYTES:
            reason = f"the element that starts here is longer than {MAX_LINE_BYTES >> 20} MiB; is it not closed?"
            raise DataFormatError(path, start, reason)
    raise DataFormatError(path, start, "the JSON array has no end; the file may be truncated")


def _check_end(lines: Iterator[tuple[int, str]], path: str) -> None:
    for number, line in lines:
        if line.strip(BLANK):
            raise DataFormatError(path, number, "the JSON array ends before this")


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object; a name that occurs twice is refused, because readers disagree about which one counts."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        ((name, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise Malformed(f"an object has {excerpt(name)} twice")
    return fields


def _constant(name: str) -> None:
    """Return the value of a constant that JSON has not, but Python writes: NaN is null."""
    if name != "NaN":
        raise Malformed(f"JSON has no {name}")


#: Reads JSON, and NaN as null.
JSON = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_constant)


def show_value(value: object) -> str:
    """Return what messages call a value, as JSON calls it."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return excerpt(value)
