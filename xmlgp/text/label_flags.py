"""Labels that are columns of their own: a row has those whose columns have 1."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

__all__ = ["flag_places", "is_set"]

#: What says in a cell that a point has a label, and what says that it has not, in lower case.
SET = ("1", "1.0", "true", "yes", "y", "x")
NOT_SET = ("0", "0.0", "false", "no", "n", "", "nan", "<na>", "none", "null")


def flag_places(pattern: str, names: Sequence[str], others: Sequence[str]) -> list[int]:
    """Return the places of the names that a pattern or a range `FIRST:LAST` has, apart from `others`.

    The ends of a range are names, which may have colons, or places from 1. There are none if an end is unknown.
    """
    found = [place for place, name in enumerate(names) if name == pattern or fnmatch.fnmatchcase(name, pattern)]
    if not found:
        found = _range(pattern, names)
    return [place for place in found if names[place] not in others]


def _range(pattern: str, names: Sequence[str]) -> Sequence[int]:
    """Return the places of a range of names, none if it is no range of these."""
    pieces = pattern.split(":")
    for count in range(1, len(pieces)):
        first = _place(":".join(pieces[:count]).strip(), names)
        last = _place(":".join(pieces[count:]).strip(), names)
        if first is not None and last is not None:
            return range(first, last + 1)
    return []


def _place(end: str, names: Sequence[str]) -> int | None:
    """Return the place of a name, or of a number from 1."""
    if end in names:
        return names.index(end)
    if end.isascii() and end.isdigit() and 1 <= int(end[:9]) <= len(names):
        return int(end) - 1
    return None


def is_set(value: object) -> bool | None:
    """Return whether a cell or a value of JSON says that a point has a label; None if it says neither."""
    text = "" if value is None else str(value).strip().lower()
    if text in SET:
        return True
    return False if text in NOT_SET else None
