"""Labels that are columns, or fields, of their own: a document has those with 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.documents import unmatched
from xmlgp.text.json_objects import Malformed, show_value
from xmlgp.text.written_names import FLAG_MARKS

__all__ = ["flag_columns", "set_flags"]

#: What says in a cell that a point has a label, and what says that it has not, in lower case.
FLAGS = dict.fromkeys(("1", "1.0", "true", "yes", "y", "x"), True) | dict.fromkeys(
    ("0", "0.0", "false", "no", "n", *FLAG_MARKS), False
)


def flag_columns(noun: str, patterns: Sequence[str], names: Sequence[str], excluded: Sequence[str]) -> dict[int, str]:
    """Return the names that match patterns or are in ranges `FIRST:LAST`, without excluded ones, by their positions.

    The ends of a range are names, which may have colons, or positions from 1. Malformed if a pattern matches none of
    the names, those of columns or whatever the noun says.
    """
    columns: dict[int, str] = {}
    for pattern in patterns:
        matching = [position for position, name in enumerate(names) if name == pattern or fnmatchcase(name, pattern)]
        positions = [position for position in matching or _range(pattern, names) if names[position] not in excluded]
        if not positions:
            raise Malformed(unmatched(noun, pattern, names))
        columns |= {position: names[position] for position in positions}
    return columns


def set_flags(noun: str, values: Mapping[str, object]) -> list[str]:
    """Return the names of the values that are 1, true or the like; Malformed if one is neither set nor unset."""
    flags = {name: FLAGS.get("" if value is None else str(value).strip().lower()) for name, value in values.items()}
    for name, is_set in flags.items():
        if is_set is None:
            raise Malformed(f"{noun} {excerpt(name)} has {show_value(values[name])}, which is neither 0 nor 1")
    return [name for name, is_set in flags.items() if is_set]


def _range(pattern: str, names: Sequence[str]) -> Sequence[int]:
    """Return the positions of a range of names; none if it is no range of these."""
    pieces = pattern.split(":")
    for count in range(1, len(pieces)):
        first = _position(":".join(pieces[:count]).strip(), names)
        last = _position(":".join(pieces[count:]).strip(), names)
        if first is not None and last is not None:
            return range(first, last + 1)
    return []


def _position(end: str, names: Sequence[str]) -> int | None:
    """Return the position of a name, or of a number from 1."""
    if end in names:
        return names.index(end)
    if end.isascii() and end.isdigit() and 1 <= int(end[:9]) <= len(names):
        return int(end) - 1
    return None
