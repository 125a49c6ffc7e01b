"""A second reader of the repository's text format, slow and strict, that shares nothing with xmlgp.

It takes the whole text at once and matches whole lines: what `xmlgp.data.line_parser` describes, written down as
regular expressions.
"""

import math
import re
import struct

__all__ = ["BLANK", "DECIMAL", "INDEX", "Malformed", "lines_of", "read_data", "to_float32", "to_index"]

INDEX = rb"[0-9]+"
DECIMAL = rb"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
BLANK = rb"[ \t]"

HEADER = re.compile(rb"%b*(%b)%b+(%b)%b+(%b)%b*" % (BLANK, INDEX, BLANK, INDEX, BLANK, INDEX, BLANK))
PAIR = rb"%b:%b" % (INDEX, DECIMAL)
POINT = re.compile(rb"(%b(?:,%b)*)?((?:%b+%b)*)%b*" % (INDEX, INDEX, BLANK, PAIR, BLANK))

#: Maximum length of the first line with its line end.
HEADER_BYTES = 200


class Malformed(Exception):
    """The text is malformed; `line` is the first malformed line."""

    def __init__(self, line):
        super().__init__(f"line {line}")
        self.line = line


def lines_of(content):
    """Return the lines of a text without their ends, LF or CR LF, and whether the last one has an end."""
    lines = content.split(b"\n")
    ended = lines[-1] == b""
    if ended:
        lines.pop()
    return [line[:-1] if line[-1:] == b"\r" else line for line in lines], ended


def read_data(content):
    """Return N, D, K and for each point its set of labels and its mapping of features to values.

    Raises
    ------
    Malformed
    """
    lines, ended = lines_of(content)
    header = HEADER.fullmatch(lines[0]) if lines and content.find(b"\n") < HEADER_BYTES else None
    # Without its line end the first line has one byte less.
    if not header or (b"\n" not in content and len(content) >= HEADER_BYTES):
        raise Malformed(1)
    N, D, K = map(int, header.groups())
    if max(D, K) >= 2**31:
        raise Malformed(1)
    points = []
    for number, line in enumerate(lines[1:], 2):
        match = POINT.fullmatch(line)
        if len(points) == N or not match:
            raise Malformed(number)
        try:
            points.append(_point(*match.groups(), D, K))
        except (ValueError, OverflowError):
            raise Malformed(number) from None
    if not ended:
        raise Malformed(len(lines))
    if len(points) < N:
        raise Malformed(len(lines) + 1)
    return N, D, K, points


def to_index(digits, bound):
    """Return an index; ValueError if it is not below `bound`."""
    digits = digits.lstrip(b"0")
    if len(digits) > 10 or int(digits or b"0") >= bound:
        raise ValueError
    return int(digits or b"0")


def _point(labels, pairs, D, K):
    labels = [to_index(label, K) for label in (labels or b"").split(b",") if label]
    features = [pair.split(b":") for pair in pairs.split()]
    features = [(to_index(feature, D), to_float32(value)) for feature, value in features]
    if len(set(labels)) < len(labels) or len(dict(features)) < len(features):
        raise ValueError
    return set(labels), {feature: value for feature, value in features if value != 0}


def to_float32(text):
    """Return the float32 nearest to the double nearest to a decimal; OverflowError if that is infinite."""
    double = float(text)
    if math.isinf(double):
        raise OverflowError
    return struct.unpack("<f", struct.pack("<f", double))[0]
