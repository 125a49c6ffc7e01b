"""The interface of the server, described for programs (OpenAPI) and shown as a page for reading."""

from importlib.resources import files

import jinja2
import yaml

__all__ = ["openapi", "reference_page"]


def openapi(version):
    """Return the description of the interface in OpenAPI, a dict of what JSON has, for this version of xmlgp."""
    document = yaml.safe_load(_read("openapi.yaml"))
    document["info"]["version"] = version
    return document


def reference_page(document):
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
    environment.filters |= {"resolve": lambda part: _resolve(document, part), "target": _target, "kind": _kind}
    operations = [
        (path, method, operation | {"parameters": operation.get("parameters", [])})
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    return environment.get_template("reference.html").render(document=document, operations=operations)


def _read(name):
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _target(part):
    """Return the name of the schema, parameter or response that a part of a description refers to, or None."""
    return part["$ref"].rpartition("/")[2] if "$ref" in part else None


def _resolve(document, part):
    """Return a part of a description, or what it refers to, with what it says itself."""
    if "$ref" not in part:
        return part
    found = document
    for key in part["$ref"].removeprefix("#/").split("/"):
        found = found[key]
    return _resolve(document, found) | {key: value for key, value in part.items() if key != "$ref"}


def _kind(schema):
    """Return the types and the limits of a value that has no schema of its parts, in words."""
    types = schema.get("type", "any")
    words = " or ".join([types] if isinstance(types, str) else types)
    limits = [f"from {schema['minimum']}"] if "minimum" in schema else []
    limits += [f"to {schema['maximum']}"] if "maximum" in schema else []
    values = [str(value) for value in schema.get("enum", [schema["const"]] if "const" in schema else [])]
    parts = [" ".join([words, *limits]), "one of " * (len(values) > 1) + ", ".join(values)]
    if "default" in schema:
        parts.append(f"{str(schema['default']).lower()} by default")
    return "; ".join(filter(None, parts))
