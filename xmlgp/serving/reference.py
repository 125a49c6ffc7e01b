"""The interface of the server, described for programs (OpenAPI) and shown as a page for reading."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import jinja2
import yaml

__all__ = ["openapi", "reference_page", "resolve"]


def openapi(version: str) -> dict[str, Any]:
    """Return the description of the interface in OpenAPI, a dict of what JSON has, for this version of xmlgp."""
    document: dict[str, Any] = yaml.safe_load(_read("openapi.yaml"))
    document["info"]["version"] = version
    return document


def reference_page(document: Mapping[str, Any]) -> str:
    """Return a page of HTML, without scripts, that shows what a description in OpenAPI has.

    Its style sheet is `page.css`, two folders above the page.
    """
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_read),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"resolve": lambda part: resolve(document, part), "target": _target, "kind": _kind}
    operations = [
        (path, method, operation | {"parameters": operation.get("parameters", [])})
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    return environment.get_template("reference.html").render(document=document, operations=operations)


def _read(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _target(part: Mapping[str, Any]) -> str | None:
    """Return the name of the schema, parameter or response that a part of a description refers to, or None."""
    return str(part["$ref"]).rpartition("/")[2] if "$ref" in part else None


def resolve(document: Mapping[str, Any], part: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a part of a description, or what it refers to, with what it says itself."""
    if "$ref" not in part:
        return part
    target = document
    for key in part["$ref"].removeprefix("#/").split("/"):
        target = target[key]
    return {**resolve(document, target), **{key: value for key, value in part.items() if key != "$ref"}}


def _kind(schema: Mapping[str, Any]) -> str:
    """Return the types and the limits of a value that has no schema of its parts, in words."""
    types = schema.get("type", "any")
    words = [types if isinstance(types, str) else " or ".join(types)]
    words += [f"from {schema['minimum']}"] if "minimum" in schema else []
    words += [f"to {schema['maximum']}"] if "maximum" in schema else []
    parts = [" ".join(words)]
    if "enum" in schema:
        parts.append(f"one of {', '.join(schema['enum'])}")
    if "const" in schema:
        parts.append(str(schema["const"]))
    if "default" in schema:
        parts.append(f"{str(schema['default']).lower()} by default")
    return "; ".join(parts)
