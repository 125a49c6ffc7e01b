"""Read an untrusted YAML file and check it against a schema; each error is one sentence with the place in the file."""

import re
from collections.abc import Callable
from typing import NamedTuple

import yaml

from xmlgp.errors import CatalogueError
from xmlgp.runtime.untrusted_text import excerpt, show_name

__all__ = ["MAPPING", "POSITIVE", "Optional", "Scalar", "check", "integer", "load_yaml", "text"]

#: Maximum value of a number. All numbers are sizes; a larger one is a mistake.
MAX_NUMBER = 1e9

#: Maximum number of keys, counting those of a merged mapping each time: a few lines of nested merge keys can stand for
#: more than fit into memory.
MAX_KEYS = 100_000

MERGE_TAG = "tag:yaml.org,2002:merge"


def load_yaml(path):
    """Return the content of a YAML file: dict, list, str, int and what else SafeLoader creates.

    CatalogueError is raised if the file cannot be read, is not YAML, or has other objects or a key twice.
    """
    try:
        with open(path, "rb") as stream:
            return yaml.load(stream, _Loader)  # noqa: S506 -- a SafeLoader
    except RecursionError as error:
        raise CatalogueError(f"{path}: invalid YAML: nested too deeply") from error
    except OSError as error:
        raise CatalogueError(f"{path}: the catalogue cannot be read ({error.strerror})") from error
    except yaml.MarkedYAMLError as error:
        line = (error.problem_mark or error.context_mark).line + 1
        raise CatalogueError(f"{path}:{line}: invalid YAML: {error.problem:.200}") from error
    except Exception as error:  # PyYAML does not catch the exceptions of int(), float(), re and datetime
        reason = " ".join(str(error).split()) or type(error).__name__
        raise CatalogueError(f"{path}: invalid YAML: {reason:.200}") from error


class _Loader(yaml.SafeLoader):
    """A SafeLoader that refuses duplicate keys, of which PyYAML would silently keep the last, and too many merges."""

    keys = 0

    def compose_mapping_node(self, anchor):
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            name = (key.tag, key.value)
            if isinstance(key, yaml.ScalarNode) and key.tag != MERGE_TAG:
                if name in seen:
                    raise yaml.MarkedYAMLError(
                        problem=f"duplicate key {excerpt(key.value)}", problem_mark=key.start_mark
                    )
                seen.add(name)
        return node

    def flatten_mapping(self, node):
        super().flatten_mapping(node)
        self.keys += len(node.value)
        if self.keys > MAX_KEYS:
            problem = f"more than {MAX_KEYS} keys, counting those of merged mappings each time"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)


class Scalar(NamedTuple):
    """The schema of a value without a schema of its parts: a description of the valid values, and their test."""

    expected: str
    is_valid: Callable


class Optional(NamedTuple):
    """The schema of a key that may be missing, and its value then."""

    schema: object
    default: object = None


def check(value, schema, where):
    """Return a value that has a schema, with the defaults of missing keys; raise CatalogueError if it does not.

    A schema is a `Scalar`, a list of the schema of each element, a dict of the schema or `Optional` of each key, or
    such a dict with the key None, the schema of all keys. `where` are the file and the keys that lead to this place.
    """
    if isinstance(schema, Scalar):
        if not schema.is_valid(value):
            raise CatalogueError(f"{where} must be {schema.expected}, not {excerpt(value)}")
        return value
    if isinstance(schema, list):
        elements = check(value, Scalar("a list", lambda value: isinstance(value, list)), where)
        return [check(element, schema[0], f"{where} {number}") for number, element in enumerate(elements, 1)]
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise CatalogueError(f"{where}: expected a mapping, not {excerpt(value)}")
    if None in schema:
        schema = dict.fromkeys(value, schema[None])
    checked = {}
    for key, own in schema.items():
        if isinstance(own, Optional) and key not in value:
            checked[key] = own.default
        elif key not in value:
            raise CatalogueError(f"{where}: {key} is missing")
        else:
            own = own.schema if isinstance(own, Optional) else own
            checked[key] = check(value[key], own, f"{where}: {show_name(key)}")
    for key in value.keys() - schema.keys():
        raise CatalogueError(f"{where}: unknown key {excerpt(key)}")
    return checked


def text(expected="a string on one line", pattern=".*"):
    """Return the schema of a printable string that matches all of `pattern`."""
    # Control characters and lone surrogates, which YAML can escape, would break file names and messages.
    return Scalar(expected, lambda v: isinstance(v, str) and v.isprintable() and re.fullmatch(pattern, v) is not None)


def integer(minimum):
    """Return the schema of an integer."""
    # bool is a subclass of int.
    expected = f"an integer from {minimum} to {MAX_NUMBER:.0f}"
    return Scalar(expected, lambda value: type(value) is int and minimum <= value <= MAX_NUMBER)


#: The schema of a positive number.
POSITIVE = Scalar(
    f"a positive number up to {MAX_NUMBER:.0f}", lambda value: type(value) in (int, float) and 0 < value <= MAX_NUMBER
)

#: The schema of a mapping whose values are not checked.
MAPPING = Scalar("a mapping", lambda value: isinstance(value, dict))
