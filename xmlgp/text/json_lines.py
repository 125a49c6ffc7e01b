"""JSON Lines: an object a line."""

import json
import math
from collections import Counter

from xmlgp.errors import DataFormatError
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.documents import Document

__all__ = ["read_json_lines"]


def read_json_lines(lines, path, columns, labelled):
    """Yield the documents of objects with a text, a list of labels and perhaps an identifier.

    Numbers count as texts. A text or a list that is null is empty.
    """
    for number, line in lines:
        if not line or line.isspace():
            continue
        try:
            found = JSON.decode(line)
        except (ValueError, RecursionError) as error:
            raise DataFormatError(path, number, f"this line is not JSON: {_reason(error)}") from None
        if not isinstance(found, dict):
            raise DataFormatError(path, number, f"this line is {excerpt(found)}, not a JSON object")
        try:
            document = _document(number, found, columns, labelled)
            # JSON can have halves of characters, which no UTF-8 file can.
            if "\\u" in line:
                "".join([document.text, *document.labels, str(document.id)]).encode()
        except _Malformed as error:
            raise DataFormatError(path, number, str(error)) from None
        except UnicodeEncodeError:
            raise DataFormatError(path, number, "an escape sequence is half of a surrogate pair") from None
        yield document


class _Malformed(ValueError):
    """An object is not a document; the text says why."""


def _unique(pairs):
    """Return an object; a name that occurs twice is refused, because readers disagree about which one counts."""
    found = dict(pairs)
    if len(found) < len(pairs):
        (twice, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise _Malformed(f"an object has {excerpt(twice)} twice")
    return found


def _refuse_constant(name):
    raise _Malformed(f"JSON has no {name}")


JSON = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse_constant)


def _reason(error):
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at column {error.colno}"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return str(error) if isinstance(error, _Malformed) else "a number has too many digits"


def _document(number, found, columns, labelled):
    text = " ".join([_text(_field(found, name), name) for name in columns.text])
    labels = _labels(_field(found, columns.labels), columns) if labelled else []
    identifier = _identifier(found, columns)
    if identifier is not None and type(identifier) not in (str, int):
        raise _Malformed(f"{columns.id or 'id'} is {excerpt(identifier)}, neither text nor an integer")
    return Document(number, identifier, text, labels)


def _identifier(found, columns):
    if columns.id is None:
        return found.get("id")
    try:
        return _field(found, columns.id)
    except _Malformed:
        if columns.id_needed:
            raise
        return found.get("id")


def _field(found, name):
    """Return a field by its name, or by the names on the way to it."""
    if name in found:
        return found[name]
    value = found
    for part in name.split("."):
        if not isinstance(value, dict) or part not in value:
            raise _Malformed(f"there is no field {excerpt(name)}; the fields are {excerpt(', '.join(found))}")
        value = value[part]
    return value


def _text(value, name):
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if type(value) is int or (type(value) is float and math.isfinite(value)):
        return str(value)
    raise _Malformed(f"{name} is {excerpt(value)}, which is not text")


def _labels(value, columns):
    if value is None:
        return []
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return [_text(label, f"a label in {columns.labels}") for label in value if label is not None]
    raise _Malformed(f"{columns.labels} is {excerpt(value)}, neither a list of labels nor text")
