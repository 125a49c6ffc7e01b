"""Which JSON values an untrusted description may hold."""

import sys

__all__ = ["is_plain"]

#: Descriptions have four levels; Python cannot print thousands.
LEVELS = 10


def is_plain(value, levels=LEVELS):
    """Return whether numbers are finite, strings printable, and lists and mappings not nested too deeply.

    A string that is not printable could send commands to a terminal, or imitate a line of output.

    Parameters
    ----------
    value : object
        As `json.loads` returns it.
    levels : int
        The allowed depth of lists and mappings.
    """
    if isinstance(value, str):
        return value.isprintable()
    if isinstance(value, list | dict):
        children = [*value, *value.values()] if isinstance(value, dict) else value
        return levels > 0 and all(is_plain(child, levels - 1) for child in children)
    # JSON integers can be larger than any float.
    return value is None or abs(value) <= sys.float_info.max
