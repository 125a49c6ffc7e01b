"""Read an untrusted YAML file and check its mappings; each error is one sentence with the place in the file."""

import re
from collections.abc import Callable, Hashable
from typing import NamedTuple

import yaml

from xmlgp.errors import CatalogueError
from xmlgp.runtime.untrusted_text import excerpt

__all__ = [
    "ANYTHING",
    "Field",
    "check_mapping",
    "integer",
    "is_text",
    "items",
    "load_yaml",
    "mapping",
    "positive",
    "text",
]

#: Maximum value of a number. All numbers are sizes; a larger one is a mistake.
MAX_NUMBER = 1e9

#: Maximum number of values in a file, counting those of an alias each time: a few lines of nested aliases can stand for
#: more values than fit into memory.
MAX_VALUES = 1_000_000

#: Maximum size of a file in bytes; the project's catalogue has 30 kB.
MAX_BYTES = 16 << 20

MERGE_TAG = "tag:yaml.org,2002:merge"

#: The default of a key that must be there.
REQUIRED = object()


def load_yaml(path):
    """Return the content of a YAML file, made of dict, list, str, int and what else SafeLoader creates.

    CatalogueError is raised if the file cannot be read, is not YAML, or contains other objects, a key twice or too many
    values.
    """
    try:
        with open(path, "rb") as stream:
            content = stream.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise CatalogueError(f"{path}: the catalogue is larger than {MAX_BYTES >> 20} MB")
        return yaml.load(content, _Loader)  # noqa: S506 -- a SafeLoader
    except CatalogueError:
        raise
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
    """A SafeLoader that refuses duplicate keys, of which PyYAML would silently keep the last, and too many values."""

    def __init__(self, stream):
        super().__init__(stream)
        #: Number of values within each list and mapping; an alias within its own anchor counts once.
        self._sizes = {}

    def compose_sequence_node(self, anchor):
        node = super().compose_sequence_node(anchor)
        self._count(node, node.value)
        return node

    def compose_mapping_node(self, anchor):
        # When PyYAML constructs a mapping, it has already merged keys from other mappings into it.
        node = super().compose_mapping_node(anchor)
        keys = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != MERGE_TAG:
                name = self.construct_object(key)
                if not isinstance(name, Hashable):
                    continue  # PyYAML refuses it, with its line, when it constructs the mapping
                if name in keys:
                    raise yaml.MarkedYAMLError(problem=f"duplicate key {excerpt(name)}", problem_mark=key.start_mark)
                keys.add(name)
        self._count(node, [value for _, value in node.value])
        return node

    def _count(self, node, values):
        self._sizes[node] = 1 + sum(self._sizes.get(value, 1) for value in values)
        if self._sizes[node] > MAX_VALUES:
            problem = f"more than {MAX_VALUES} values, counting those of each alias"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)


class Field(NamedTuple):
    """A key of a mapping: a description of its valid values, their test, and the value if the key is missing."""

    expected: str
    is_valid: Callable
    default: object = REQUIRED


#: The Field of a value that its reader checks.
ANYTHING = Field("", lambda value: True)


def check_mapping(value, fields, where):
    """Return the values of a mapping by key, with the defaults of those that are missing.

    CatalogueError is raised if `value` is not such a mapping. `fields` has the Field of each key; None allows all keys
    that are strings. `where` are the file and the keys that lead to this place.
    """
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise CatalogueError(f"{where}: expected a mapping, not {excerpt(value)}")
    if fields is None:
        return value
    for key, field in fields.items():
        if key not in value and field.default is REQUIRED:
            raise CatalogueError(f"{where}: {key} is missing")
        if key in value and not field.is_valid(value[key]):
            raise CatalogueError(f"{where}: {key} must be {field.expected}, not {excerpt(value[key])}")
    for key in value.keys() - fields.keys():
        raise CatalogueError(f"{where}: unknown key {excerpt(key)}")
    return {key: field.default for key, field in fields.items()} | value


def text(expected="a string on one line", pattern=r".*", default=REQUIRED):
    """Return the Field of a string that matches all of `pattern`."""
    return Field(expected, lambda value: is_text(value, pattern), default)


def is_text(value, pattern=r".*"):
    """Return whether a value is a printable string that matches all of `pattern`."""
    # Control characters and lone surrogates, which YAML can escape, would break file names and messages.
    return isinstance(value, str) and value.isprintable() and re.fullmatch(pattern, value) is not None


def integer(minimum):
    """Return the Field of an integer."""
    # bool is a subclass of int.
    expected = f"an integer from {minimum} to {MAX_NUMBER:.0f}"
    return Field(expected, lambda value: type(value) is int and minimum <= value <= MAX_NUMBER)


def positive():
    """Return the Field of a positive number."""
    expected = f"a positive number up to {MAX_NUMBER:.0f}"
    return Field(expected, lambda value: type(value) in (int, float) and 0 < value <= MAX_NUMBER)


def mapping():
    """Return the Field of a mapping whose values are not checked, empty by default."""
    return Field("a mapping", lambda value: isinstance(value, dict), {})


def items(expected="a list", is_valid=lambda value: True):
    """Return the Field of a list, empty by default."""
    return Field(expected, lambda values: isinstance(values, list) and all(map(is_valid, values)), [])
