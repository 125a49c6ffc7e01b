"""Labels that are columns of their own: a row has those whose columns have 1."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

from xmlgp.text.written_names import FLAG_MARKS

__all__ = ["flag_positions", "is_set"]

#: What says in a cell that a point has a label, and what says that it has not, in lower case.
FLAGS = dict.fromkeys(("1", "1.0", "true", "yes", "y", "x"), True) | dict.fromkeys(
    ("0", "0.0", "false", "no", "n", *FLAG_MARKS), False
)


def flag_positions(pattern: str, names: Sequence[str], excluded: Sequence[str]) -> list[int]:
    """Return the positions of the names that match a pattern or are in a range `FIRST:LAST`, without `excluded` ones.

    The ends of a range are names, which may have colons, or positions from 1. The list is empty if an end is unknown.
    """
    matching = [
        position for position, name in enumerate(names) if name == pattern or fnmatch.fnmatchcase(name, pattern)
    ]
    return [position for position in matching or _range(pattern, names) if names[position] not in excluded]


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


def is_set(value: object) -> bool | None:
    """Return whether a cell or a value of JSON says that a point has a label; None if it says neither."""
    return FLAGS.get("" if value is None else str(value).strip().lower())
