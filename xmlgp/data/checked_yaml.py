"""Read a YAML file and check its values; each error message is one sentence with the place in the file.

The file is untrusted: it cannot create objects other than plain ones, and its aliases cannot exhaust memory.
"""

import re
from collections.abc import Hashable

import yaml

from xmlgp.errors import CatalogueError
from xmlgp.runtime.untrusted_text import excerpt, show_name

__all__ = ["Node", "load_yaml"]

#: Maximum value of a number. All numbers are sizes; a larger one is a mistake.
MAX_NUMBER = 1e9

#: Maximum number of values in a file, counting those of an alias each time: a few lines of nested aliases can stand for
#: more values than fit into memory.
MAX_VALUES = 1_000_000

#: Maximum size of a file in bytes; the project's catalogue has 30 kB.
MAX_BYTES = 16 << 20

MERGE_TAG = "tag:yaml.org,2002:merge"

_REQUIRED = object()


def load_yaml(path):
    """Return the content of a YAML file.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    object
        Made of dict, list, str, int, float, bool, None and what else SafeLoader creates.

    Raises
    ------
    CatalogueError
        If the file cannot be read, is not YAML, or contains other objects, a key twice or too many values.
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


class Node:
    """One mapping of a file, whose values are removed and checked one by one.

    Parameters
    ----------
    value : object
        The content of the file at this place.
    where : str
        The file, and the keys that lead to this place.

    Attributes
    ----------
    rest : dict
        The values not removed so far.

    Raises
    ------
    CatalogueError
        By each method, if the value is not the one expected.
    """

    def __init__(self, value, where):
        self.where = where
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            raise self.error(f"expected a mapping, not {excerpt(value)}")
        self.rest = dict(value)

    def error(self, reason):
        """Return a CatalogueError about this mapping."""
        return CatalogueError(f"{self.where}: {reason}")

    def pop(self, key, expected, is_valid, default=_REQUIRED):
        """Remove and return a value of any type.

        Parameters
        ----------
        key : str
        expected : str
            A description of valid values, for the error message.
        is_valid : callable
            Returns whether a value is valid.
        default : object, optional
            Returned if there is no such key.
        """
        if key not in self.rest:
            if default is _REQUIRED:
                raise self.error(f"{key} is missing")
            return default
        value = self.rest.pop(key)
        if not is_valid(value):
            raise self.error(f"{key} must be {expected}, not {excerpt(value)}")
        return value

    def pop_string(self, key, expected="a string on one line", pattern=r".*", default=_REQUIRED):
        """Remove and return a string that matches all of `pattern`."""
        return self.pop(key, expected, lambda value: _is_string(value, pattern), default)

    def pop_strings(self, key, expected="a list of strings", pattern=r".*"):
        """Remove and return a list of strings, empty if there is no such key."""

        def is_valid(values):
            return isinstance(values, list) and all(_is_string(value, pattern) for value in values)

        return tuple(self.pop(key, expected, is_valid, []))

    def pop_integer(self, key, minimum):
        """Remove and return an integer."""
        expected = f"an integer from {minimum} to {MAX_NUMBER:.0f}"
        # bool is a subclass of int.
        return self.pop(key, expected, lambda value: type(value) is int and minimum <= value <= MAX_NUMBER)

    def pop_positive(self, key):
        """Remove and return a positive number."""
        expected = f"a positive number up to {MAX_NUMBER:.0f}"
        return float(self.pop(key, expected, lambda value: type(value) in (int, float) and 0 < value <= MAX_NUMBER))

    def pop_mapping(self, key):
        """Remove and return a mapping without checking its values, empty if there is no such key."""
        return self.pop(key, "a mapping", lambda value: isinstance(value, dict), {})

    def pop_node(self, key):
        """Remove and return a mapping as a Node."""
        return Node(self.pop(key, "", lambda value: True), f"{self.where}: {show_name(key)}")

    def pop_nodes(self, key):
        """Remove and return a list of mappings as Nodes, empty if there is no such key."""
        values = self.pop(key, "a list", lambda value: isinstance(value, list), [])
        return [Node(value, f"{self.where}: {key} {i}") for i, value in enumerate(values, 1)]

    def find_key(self, keys):
        """Return the only one of `keys` in this mapping."""
        found = [key for key in keys if key in self.rest]
        if len(found) != 1:
            raise self.error(f"exactly one of {', '.join(keys)} is required, not {len(found)}")
        return found[0]

    def check_empty(self):
        """Raise CatalogueError if a key was not removed."""
        for key in self.rest:
            raise self.error(f"unknown key {excerpt(key)}")


def _is_string(value, pattern):
    # Control characters and lone surrogates, which YAML can escape, would break file names and messages.
    return isinstance(value, str) and value.isprintable() and re.fullmatch(pattern, value) is not None
