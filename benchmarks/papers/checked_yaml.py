"""Read a YAML file and check it against a schema; each error is one sentence with the place in the file."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, TypeGuard

import yaml

from xmlgp.errors import CatalogueError
from xmlgp.runtime.untrusted_text import escape, excerpt, show_name

__all__ = ["MAPPING", "POSITIVE", "Optional", "Scalar", "check", "integer", "load_yaml", "read_checked", "text"]

#: Maximum value of a number. All numbers are sizes; a larger one is a mistake.
MAX_NUMBER = 1e9

#: Maximum size of a file in bytes. Its content takes about a hundred times as much memory.
MAX_BYTES = 1 << 20

#: Maximum number of pairs in all mappings after merging: nested merge keys of a few lines can stand for any number.
MAX_MERGED = 100_000


class _Loader(yaml.SafeLoader):
    """A SafeLoader that limits what merge keys stand for."""

    #: The number of pairs in the mappings so far.
    merged = 0

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        self.merged += len(node.value)
        if self.merged > MAX_MERGED:
            raise yaml.MarkedYAMLError(problem="merge keys stand for too much", problem_mark=node.start_mark)


def load_yaml(path: str | os.PathLike[str]) -> object:
    """Return the content of a YAML file, as SafeLoader creates it; raise CatalogueError if that is not possible."""
    try:
        with open(path, "rb") as stream:
            content = stream.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise ValueError(f"the file is larger than {MAX_BYTES} bytes")
        return yaml.load(content, _Loader)  # noqa: S506 (a SafeLoader)
    except OSError as error:
        raise CatalogueError(f"{path}: the file cannot be read ({error.strerror})") from error
    except Exception as error:  # PyYAML does not catch the exceptions of int(), float(), re and datetime
        reason = escape(" ".join(str(error).split())) or type(error).__name__
        raise CatalogueError(f"{path}: invalid YAML: {reason}") from error


class Scalar(NamedTuple):
    """The schema of a value that is checked as a whole: what messages call the valid values, and the test for them."""

    expected: str
    is_valid: Callable[[Any], bool]


class Optional(NamedTuple):
    """The schema of the value of a key that may be missing, and the value if it is."""

    schema: Schema
    default: object = None


#: A `Scalar`; or for a list, a list of one schema, that of each element; or for a mapping, a dict that has for each key
#: a schema or an `Optional`. A dict with the single key None has the schema of any key.
Schema: TypeAlias = "Scalar | list[Any] | dict[Any, Any]"


def read_checked(path: str | os.PathLike[str], schema: dict[Any, Any]) -> dict[str, Any]:
    """Return the content of a YAML file with the defaults of missing keys; see `check`."""
    return _check_mapping(load_yaml(path), schema, str(path))


def check(value: object, schema: Schema, where: str) -> object:
    """Return a value with the defaults of missing keys; raise CatalogueError unless it fits the schema.

    `where` is what messages call the value: the file, and the keys that lead to the value.
    """
    if isinstance(schema, Scalar):
        if not schema.is_valid(value):
            raise CatalogueError(f"{where} must be {schema.expected}, not {excerpt(value)}")
        return value
    if isinstance(schema, list):
        if not isinstance(value, list):
            raise CatalogueError(f"{where} must be a list, not {excerpt(value)}")
        return [check(element, schema[0], f"{where} {number}") for number, element in enumerate(value, 1)]
    return _check_mapping(value, schema, where)


def _check_mapping(value: object, schema: dict[Any, Any], where: str) -> dict[str, Any]:
    """Do as `check` does, for the schema of a mapping."""
    if not _is_mapping(value):
        raise CatalogueError(f"{where} must be a mapping, not {excerpt(value)}")
    if None in schema:
        schema = dict.fromkeys(value, schema[None])
    for key in value:
        if key not in schema:
            raise CatalogueError(f"{where}: unknown key {excerpt(key)}")
    checked = {}
    for key, key_schema in schema.items():
        optional = key_schema if isinstance(key_schema, Optional) else None
        if key in value:
            checked[key] = check(value[key], optional.schema if optional else key_schema, f"{where}: {show_name(key)}")
        elif optional:
            checked[key] = optional.default
        else:
            raise CatalogueError(f"{where}: {key} is missing")
    return checked


def text(expected: str = "a string on one line", pattern: str = ".*") -> Scalar:
    """Return the schema of a printable string that `pattern` matches as a whole."""
    # Control characters and lone surrogates, which YAML can escape, would break file names and messages.
    return Scalar(
        expected, lambda value: isinstance(value, str) and value.isprintable() and bool(re.fullmatch(pattern, value))
    )


def integer(minimum: int) -> Scalar:
    """Return the schema of an integer from `minimum` to `MAX_NUMBER`."""
    expected = f"an integer from {minimum} to {MAX_NUMBER:.0f}"
    # Not isinstance, because bool is a subclass of int.
    return Scalar(expected, lambda value: type(value) is int and minimum <= value <= MAX_NUMBER)


#: The schema of a positive number.
POSITIVE = Scalar(
    f"a positive number up to {MAX_NUMBER:.0f}", lambda value: type(value) in (int, float) and 0 < value <= MAX_NUMBER
)


def _is_mapping(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict) and all(isinstance(key, str) for key in value)


#: The schema of a mapping from names to anything.
MAPPING = Scalar("a mapping", _is_mapping)
