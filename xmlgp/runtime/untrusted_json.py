"""Read untrusted JSON within the time and memory that an honest file needs."""

import io
import json
import sys
from typing import IO, Any

__all__ = ["LARGEST", "MOST_VALUES", "count_values", "is_plain", "read_json"]

#: Most bytes of JSON; usual descriptions and checkpoints have a few kilobytes.
LARGEST = 16 << 20

#: Most values in it. An empty list takes three bytes of text and thirty times as much memory.
MOST_VALUES = 1_000_000

#: Bytes that are read at once.
PIECE = 1 << 18

#: Levels of lists and mappings: honest writers need four, and Python cannot print thousands.
LEVELS = 10


def read_json(stream: io.BufferedIOBase | IO[bytes]) -> Any:
    """Return the value of JSON in UTF-8; ValueError if it is malformed, or larger than what is ever written."""
    content = bytearray()
    while piece := stream.read(PIECE):
        content += piece
        if len(content) > LARGEST:
            raise ValueError("the JSON is too long")
    if count_values(content) > MOST_VALUES:
        raise ValueError("the JSON has too many values")
    try:
        return json.loads(content.decode())
    except RecursionError as error:
        raise ValueError("the JSON is nested too deeply") from error


def count_values(content: bytes | bytearray) -> int:
    """Return how many values JSON has at most, without reading it: signs in texts count as well."""
    # Before each value but the outermost there is one of these.
    return 1 + sum(map(content.count, (b",", b"[", b"{")))


def is_plain(value: object, levels: int = LEVELS) -> bool:
    """Return whether numbers are finite, strings printable, and lists and mappings not nested too deeply.

    A string that is not printable could send commands to a terminal, or imitate a line of output.
    """
    if isinstance(value, str):
        return value.isprintable()
    if isinstance(value, list | dict):
        children = [*value, *value.values()] if isinstance(value, dict) else value
        return levels > 0 and all(is_plain(child, levels - 1) for child in children)
    # JSON integers can be larger than any float.
    return value is None or (isinstance(value, int | float) and abs(value) <= sys.float_info.max)
