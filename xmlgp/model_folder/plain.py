"""What of JSON a model's description may hold: what can be shown in a line, computed with and written again."""

import sys

__all__ = ["is_plain", "once_each"]

#: Real descriptions have four levels; thousands are more than Python writes or shows.
LEVELS = 10


def is_plain(value, levels=LEVELS):
    """Return whether all numbers are finite, all texts printable and lists and mappings not nested without end.

    Parameters
    ----------
    value : object
        As JSON has it.
    levels : int
        How deep lists and mappings may be.
    """
    if isinstance(value, str):
        return value.isprintable()
    if isinstance(value, list | dict):
        children = [*value, *value.values()] if isinstance(value, dict) else value
        return levels > 0 and all(is_plain(child, levels - 1) for child in children)
    # Integers of JSON may be greater than any float.
    return value is None or abs(value) <= sys.float_info.max


def once_each(pairs):
    """Return a mapping of JSON's keys and values, for `json.loads`: of a key given twice the last would count.

    Parameters
    ----------
    pairs : list of tuple

    Raises
    ------
    ValueError
        For a key that is given twice.
    """
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise ValueError("a key is given twice")
    return mapping
