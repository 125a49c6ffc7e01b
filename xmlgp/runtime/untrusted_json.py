"""Read untrusted JSON within the time and memory that an honest file needs."""

import io
import json
import sys
from typing import IO, Any

__all__ = ["is_plain", "read_json"]

#: Most bytes of JSON; usual descriptions and checkpoints have a few kilobytes. Values take up to thirty times as much
#: memory as their text, such as empty lists.
LARGEST = 8 << 20

#: Levels of lists and mappings: honest writers need four, and Python cannot print thousands.
LEVELS = 10


def read_json(stream: io.BufferedIOBase | IO[bytes]) -> Any:
    """Return the value of JSON in UTF-8; ValueError if it is malformed, or larger than what is ever written."""
    content = stream.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError("the JSON is too long")
    try:
        return json.loads(content.decode())
    except RecursionError as error:
        raise ValueError("the JSON is nested too deeply") from error


def is_plain(value: Any, levels: int = LEVELS) -> bool:
    """Return whether numbers are finite, strings printable, and lists and mappings not nested too deeply.

    A string that is not printable could send commands to a terminal, or imitate a line of output.
    """
    if isinstance(value, str):
        return value.isprintable()
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        return levels > 0 and all(is_plain(child, levels - 1) for child in value)
    # JSON integers can be larger than any float.
    return value is None or abs(value) <= sys.float_info.max
