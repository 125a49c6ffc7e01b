"""Reading a YAML file that people edit: every complaint is one sentence that says where in the file it belongs."""

import re
from collections.abc import Hashable

import yaml

from xmlgp.errors import CatalogueError
from xmlgp.runtime.untrusted_text import excerpt

__all__ = ["Node", "parse_yaml"]

#: Numbers people write here are sizes; what is larger is a slip.
GREATEST = 1e9

#: Keys that a complaint can show as they are.
PLAIN_KEY = r"[A-Za-z0-9][A-Za-z0-9._+-]*"

#: Values of a file, counting what aliases stand for each time: ten aliases to ten aliases and so on are a few lines of
#: text that no memory holds once they are merged or walked through.
MOST_VALUES = 1_000_000

MERGE = "tag:yaml.org,2002:merge"

_REQUIRED = object()


#: Bytes of a catalogue; ours has some thousands.
LARGEST = 16 << 20


def parse_yaml(path):
    """Return what a YAML file holds.

    Parameters
    ----------
    path : Path
        The file.

    Raises
    ------
    CatalogueError
        If it cannot be read, is not YAML, holds other objects than plain ones, or a key twice.
    """
    try:
        # More than is wanted of a pipe or a device would never end.
        with open(path, "rb") as stream:
            content = stream.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise CatalogueError(f"{path}: a catalogue has no more than {LARGEST >> 20} MB")
        return yaml.load(content, _Loader)  # noqa: S506 -- a SafeLoader
    except CatalogueError:
        raise
    except RecursionError as error:
        raise CatalogueError(f"{path}: this is not the YAML expected: it is nested too deeply") from error
    except OSError as error:
        raise CatalogueError(f"{path}: the catalogue cannot be read ({error.strerror})") from error
    except yaml.MarkedYAMLError as error:
        line = (error.problem_mark or error.context_mark).line + 1
        raise CatalogueError(f"{path}:{line}: this is not the YAML expected: {error.problem:.200}") from error
    except Exception as error:  # PyYAML lets through whatever int(), float(), re or datetime raise
        reason = " ".join(str(error).split()) or type(error).__name__
        raise CatalogueError(f"{path}: this is not the YAML expected: {reason:.200}") from error


class _Loader(yaml.SafeLoader):
    """A SafeLoader that refuses a key given twice, where PyYAML would silently keep the last, and too many values."""

    def __init__(self, stream):
        super().__init__(stream)
        #: Values within each list and mapping; an alias within what it stands for counts once.
        self._sizes = {}

    def compose_sequence_node(self, anchor):
        node = super().compose_sequence_node(anchor)
        self._count(node, node.value)
        return node

    def compose_mapping_node(self, anchor):
        # Here and not where mappings are made of nodes: by then some keys have been merged into others.
        node = super().compose_mapping_node(anchor)
        keys = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != MERGE:
                name = self.construct_object(key)
                if not isinstance(name, Hashable):
                    continue  # refused, with its line, when the mapping is made
                if name in keys:
                    raise yaml.MarkedYAMLError(problem=f"{excerpt(name)} stands twice", problem_mark=key.start_mark)
                keys.add(name)
        self._count(node, [value for _, value in node.value])
        return node

    def _count(self, node, values):
        self._sizes[node] = 1 + sum(self._sizes.get(value, 1) for value in values)
        if self._sizes[node] > MOST_VALUES:
            problem = f"there are more than {MOST_VALUES} values here, counting what aliases stand for"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)


class Node:
    """One mapping of a file: hands out its values, checked, and complains of what nobody took.

    Parameters
    ----------
    value : object
        What stands in the file.
    where : str
        The file, and the keys that lead here.
    """

    def __init__(self, value, where):
        self.where = where
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            raise self.error(f"this must be a mapping of names to values, not {excerpt(value)}")
        self.rest = dict(value)

    def error(self, reason):
        """Return a CatalogueError about this mapping."""
        return CatalogueError(f"{self.where}: {reason}")

    def take(self, key, what, fits, default=_REQUIRED):
        """Remove and return the value of `key`; complain that it is not `what` unless `fits(value)`."""
        if key not in self.rest:
            if default is _REQUIRED:
                raise self.error(f"{key} is missing")
            return default
        value = self.rest.pop(key)
        if not fits(value):
            raise self.error(f"{key} must be {what}, not {excerpt(value)}")
        return value

    def text(self, key, what="a text in one line", pattern=r".*", default=_REQUIRED):
        """Take a text that matches `pattern` as a whole."""
        return self.take(key, what, lambda value: _is_text(value, pattern), default)

    def texts(self, key, what="a list of texts", pattern=r".*"):
        """Take a list of texts, which may be absent."""

        def fits(values):
            return isinstance(values, list) and all(_is_text(value, pattern) for value in values)

        return tuple(self.take(key, what, fits, []))

    def count(self, key, least):
        """Take a whole number."""
        what = f"a whole number from {least} to {GREATEST:.0f}"
        # type() and not isinstance(): true and false are whole numbers to Python.
        return self.take(key, what, lambda value: type(value) is int and least <= value <= GREATEST)

    def positive(self, key):
        """Take a number above 0."""
        what = f"a number above 0, at most {GREATEST:.0f}"
        return float(self.take(key, what, lambda value: type(value) in (int, float) and 0 < value <= GREATEST))

    def mapping(self, key):
        """Take a mapping as it is, which may be absent."""
        return self.take(key, "a mapping", lambda value: isinstance(value, dict), {})

    def node(self, key):
        """Take a mapping whose values are to be checked."""
        place = key if re.fullmatch(PLAIN_KEY, key) else excerpt(key)
        return Node(self.take(key, "", lambda value: True), f"{self.where}: {place}")

    def nodes(self, key):
        """Take a list of mappings whose values are to be checked; it may be absent."""
        values = self.take(key, "a list", lambda value: isinstance(value, list), [])
        return [Node(value, f"{self.where}: {key} {i}") for i, value in enumerate(values, 1)]

    def only_one_of(self, names):
        """Return which of `names` is here, without taking it."""
        here = [name for name in names if name in self.rest]
        if len(here) != 1:
            raise self.error(f"exactly one of {', '.join(names)} must be here, not {len(here)}")
        return here[0]

    def finish(self):
        """Complain of keys that nobody took."""
        for key in self.rest:
            raise self.error(f"{excerpt(key)} is not a key known here")


def _is_text(value, pattern):
    # Control characters and lone surrogates, which YAML can escape, would break file names and messages.
    return isinstance(value, str) and value.isprintable() and re.fullmatch(pattern, value) is not None
