"""Documents as JSON Lines: an object a line, with a text, a list of labels and perhaps an identifier."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from xmlgp.runtime.errors import DataFormatError
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.documents import PAGE, Document, Reading, absent

__all__ = ["read_json_lines", "read_objects"]

#: Half of a surrogate pair, by which JSON may write a character.
SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def read_objects(lines: Iterable[tuple[int, str]], path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number and the object of each line that is not blank; DataFormatError if it has none."""
    for number, line in lines:
        if not line or line.isspace():
            continue
        try:
            value = json.loads(line, object_pairs_hook=_object)
            if SURROGATE.search(line):
                # Half of a pair is no character.
                json.dumps(value, ensure_ascii=False).encode()
        except (ValueError, RecursionError) as error:
            reason = f"the line is not JSON ({error}); an object must be in one line, as `jq -c . FILE` writes it"
            raise DataFormatError(path, number, reason) from None
        if not isinstance(value, dict):
            reason = f"the line is {excerpt(value)}, not an object; `jq -c '.[]' FILE` writes those of an array"
            raise DataFormatError(path, number, reason)
        yield number, value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; ValueError if it has a field twice, of which only the last would be read."""
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields:
            raise ValueError(f"{excerpt(name)} occurs twice")
        fields[name] = value
    return fields


def read_json_lines(lines: Iterator[tuple[int, str]], reading: Reading) -> Iterator[Document]:
    """Yield the documents of objects. What is null is empty, and a whole number counts as text."""
    columns = reading.columns
    for number, fields in read_objects(lines, reading.path):
        try:
            names = [name for name in columns.text if reading.with_texts or name in fields]
            text = " ".join([_text(_field(fields, name, "--text-column"), name) for name in names])
            labels: list[str] = []
            for name in columns.labels if reading.labelled else ():
                value = _field(fields, name, "--label-column")
                entries = value if isinstance(value, list) else [value]
                labels += [_text(entry, f"a label in {name}") for entry in entries if value is not None]
            yield Document(number, _identifier(fields, reading), text, labels)
        except ValueError as error:
            raise reading.error(number, str(error)) from None


def _field(fields: Mapping[str, Any], name: str, option: str) -> Any:
    if name not in fields:
        raise ValueError(absent("field", name, list(fields), option))
    return fields[name]


def _text(value: Any, name: str) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if type(value) is int:
        return str(value)
    raise ValueError(f"{name} is {excerpt(value)}, which is not text; {PAGE} has lines of jq that make text of it")


def _identifier(fields: Mapping[str, Any], reading: Reading) -> str | int | None:
    """Return the identifier of an object, None without any."""
    name = reading.columns.id or "id"
    value = _field(fields, name, "--id-column") if reading.id_needed else fields.get(name)
    if isinstance(value, float) and value.is_integer():
        # pandas writes whole numbers with decimals where other rows have none.
        value = int(value)
    if value is None or (isinstance(value, str | int) and not isinstance(value, bool)):
        return value
    raise ValueError(f"{name} is {excerpt(value)}, neither text nor an integer")
