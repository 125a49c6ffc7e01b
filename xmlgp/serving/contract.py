"""Requests are checked against the schemas of the OpenAPI document."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from xmlgp.runtime.plurals import counted
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.serving.problems import Problem
from xmlgp.serving.reference import resolve

__all__ = ["Contract", "Schema"]

Schema: TypeAlias = Mapping[str, Any]

#: What a value of a type is called.
NOUNS = {
    "object": "an object",
    "array": "a list",
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}

#: The values of JSON that requests have.
CLASSES: dict[str, type] = {"object": dict, "array": list, "string": str, "null": type(None)}

WHOLE_NUMBER = re.compile("[0-9]{1,9}")
NUMBER = re.compile(r"(?=\.?[0-9])[0-9]*\.?[0-9]*(?:e-?[0-9]+)?", re.IGNORECASE)

#: For each type of a field, what reads its text; None for a text of another type.
READERS: dict[str, Callable[[str], Any]] = {
    "string": str,
    "integer": lambda text: int(text) if WHOLE_NUMBER.fullmatch(text) else None,
    "number": lambda text: float(text) if NUMBER.fullmatch(text) else None,
    "boolean": lambda text: {"true": True, "false": False}.get(text.lower()),
}


class Contract:
    """The requests that an OpenAPI document describes; a request that differs is a `Problem` with status 400."""

    def __init__(self, document: Schema) -> None:
        self._document = document

    def body(self, path: str) -> tuple[str, Schema]:
        """Return the content type and the schema of what is posted to a path."""
        ((content_type, content),) = self._document["paths"][path]["post"]["requestBody"]["content"].items()
        return content_type, content["schema"]

    def read_fields(self, fields: Iterable[tuple[str, str]], path: str) -> dict[str, Any]:
        """Return the values of fields by name; the fields that the form of a path lacks are left out."""
        properties = resolve(self._document, self.body(path)[1])["properties"]
        texts: dict[str, list[str]] = {}
        for name, text in fields:
            if name in properties:
                texts.setdefault(name, []).append(text)
        return {name: _read_field(name, texts[name], resolve(self._document, properties[name])) for name in texts}

    def check(self, value: object, schema: Schema, location: str = "") -> None:
        """Check a value of JSON; a message names its location in the body, such as `documents[3].text`."""
        schema = resolve(self._document, schema)
        types = [schema["type"]] if isinstance(schema.get("type"), str) else schema.get("type", [])
        if types and not isinstance(value, tuple(CLASSES[name] for name in types)):
            raise Problem(400, f"{location or 'the body'} is not {' or '.join(NOUNS[name] for name in types)}")
        if isinstance(value, dict):
            self._check_object(value, schema, f"{location}." if location else "")
        elif isinstance(value, list):
            self._check_list(value, schema, location)
        elif isinstance(value, str):
            _check_text(value, schema, location)
        problem = None
        for alternative in schema.get("anyOf", ()):
            try:
                return self.check(value, alternative, location)
            except Problem as error:
                problem = error
        if problem:
            raise problem
        return None

    def _check_object(self, value: dict[str, object], schema: Schema, prefix: str) -> None:
        for name in schema.get("required", ()):
            if name not in value:
                raise Problem(400, f"{prefix}{name} is missing")
        for name, part in schema.get("properties", {}).items():
            if name in value:
                self.check(value[name], part, f"{prefix}{name}")

    def _check_list(self, value: list[object], schema: Schema, location: str) -> None:
        count = counted(len(value), "item")
        if len(value) < schema.get("minItems", 0):
            raise Problem(400, f"{location or 'the body'} has {count}, but at least {schema['minItems']} is needed")
        if len(value) > schema.get("maxItems", len(value)):
            raise Problem(400, f"{location or 'the body'} has {count}, but at most {schema['maxItems']} are allowed")
        items = resolve(self._document, schema["items"])
        for index, item in enumerate(value):
            self.check(item, items, f"{location or 'body'}[{index}]")


def _check_text(value: str, schema: Schema, location: str) -> None:
    if len(value) < schema.get("minLength", 0):
        raise Problem(400, f"{location} is empty")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Problem(400, f"{location} has half of a surrogate pair") from None


def _read_field(name: str, texts: list[str], schema: Schema) -> object:
    if schema["type"] == "array":
        return tuple(texts)
    if len(texts) > 1:
        raise Problem(400, f"{name} is given {len(texts)} times")
    value = READERS[schema["type"]](texts[0])
    limited = "minimum" in schema
    if value is None or (limited and not schema["minimum"] <= value <= schema["maximum"]):
        limits = f" from {schema['minimum']} to {schema['maximum']}" if limited else ""
        raise Problem(400, f"{name} is {excerpt(texts[0])}, not {NOUNS[schema['type']]}{limits}")
    return value
