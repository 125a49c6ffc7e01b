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

    The ends of a range are names, or places from 1. There are none if an end is unknown.
    """
    first, colon, last = pattern.partition(":")
    if colon and pattern not in names:
        ends = [_place(end.strip(), names) for end in (first, last)]
        found = [] if None in ends else list(range(ends[0], ends[1] + 1))
    else:
        found = [place for place, name in enumerate(names) if name == pattern or fnmatch.fnmatchcase(name, pattern)]
    return [place for place in found if names[place] not in others]


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
