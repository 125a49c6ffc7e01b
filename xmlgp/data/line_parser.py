"""Parse lines of the repository's text format, or report the first malformed one.

A line is `label,label,... feature:value feature:value ...` in ASCII, separated by spaces or tabs; the line of a point
without labels starts with a space or tab. Labels and features are nonnegative integers; values are decimals such as
`1`, `.5`, `+1` and `-2.5e-3`. Labels and features may be in any order, but none may occur twice. A value that is zero
as a float32 is not stored.
"""

import re
from collections.abc import Callable, Iterable
from typing import NoReturn

from xmlgp.data.repository_format import parse_lines
from xmlgp.data.scanner import FLOAT32_OVERFLOW
from xmlgp.errors import DataFormatError
from xmlgp.runtime.untrusted_text import quote

__all__ = ["DECIMAL", "check_index", "check_pairs", "parse_lines", "report_first_mistake"]

NOT_TEXT = re.compile(rb"[^\t\x20-\x7e]")
#: Matches in linear time for any token.
DECIMAL = re.compile(rb"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")

#: Number of digits of the largest index, 2**31 - 1.
MAX_INDEX_DIGITS = 10


def report_first_mistake(
    text: bytes,
    path: str,
    first_line: int,
    check_line: Callable[[bytes], object],
    error_class: type[DataFormatError] = DataFormatError,
) -> NoReturn:
    """Raise an error for the first line with a byte that is not text, or for which `check_line` raises ValueError."""
    for number, line in enumerate(text.split(b"\n")[:-1], first_line):
        line = line.removesuffix(b"\r")
        try:
            if invalid := NOT_TEXT.search(line):
                raise ValueError(f"byte 0x{invalid[0][0]:02x} at column {invalid.start() + 1} is not text")
            check_line(line)
        except ValueError as error:
            raise error_class(path, number, str(error)) from None
    raise AssertionError("no mistake was found in lines that were not parsed")


def check_pairs(pairs: Iterable[bytes], check_feature: Callable[[bytes], int], kind: str = "feature") -> None:
    """Raise ValueError for the first of some tokens that is not `feature:value` with a value in the range of float32.

    `check_feature` returns the number of a feature, given as bytes, or raises ValueError if it is wrong; `kind` is
    "feature" or "label".
    """
    for pair in pairs:
        token, colon, value = pair.partition(b":")
        if not colon:
            raise ValueError(f"{quote(pair)} is not a {kind}:value pair")
        feature = check_feature(token)
        if not value:
            raise ValueError(f"{kind} {feature} has no value")
        if not DECIMAL.fullmatch(value):
            raise ValueError(f"{quote(value)} is not a finite decimal number")
        if abs(float(value)) >= FLOAT32_OVERFLOW:
            raise ValueError(f"{quote(value)} is too large for a 32-bit floating-point number")


def check_index(token: bytes, bound: int, kind: str, seen: set[int]) -> int:
    """Return a label or feature index, and add it to those seen in the line.

    ValueError is raised if it is not an integer below `bound`, or was seen before.
    """
    if not token.isdigit():
        raise ValueError(f"{quote(token)} is not a {kind}: a nonnegative integer" if token else f"a {kind} is missing")
    digits = token.lstrip(b"0") or b"0"
    if len(digits) > MAX_INDEX_DIGITS or int(digits) >= bound:
        raise ValueError(f"{kind} {quote(token)} is not below {bound}, the number of {kind}s in the first line")
    index = int(digits)
    if index in seen:
        raise ValueError(f"{kind} {index} occurs twice")
    seen.add(index)
    return index
