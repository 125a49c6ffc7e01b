"""A second reader of the repository's format, slow and strict, that shares nothing with xmlgp.

It takes the whole text at once and matches whole lines.
"""

import math
import re
import struct

__all__ = ["Malformed", "read_data"]

INDEX = rb"[0-9]+"
DECIMAL = rb"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
PAIRS = rb"((?:[ \t]+%b:%b)*)[ \t]*" % (INDEX, DECIMAL)
LABEL = rb"[+-]?[0-9]{1,15}(?:\.0*)?"
POINT = re.compile(rb"(%b(?:,%b)*)?%b" % (LABEL, LABEL, PAIRS))
HEADER = re.compile(rb"[ \t]*([0-9]+)[ \t]+([0-9]+)[ \t]+([0-9]+)[ \t]*")
#: Maximum length of the first line with its line end.
HEADER_BYTES = 200


class Malformed(Exception):
    """The text is malformed; `line` is the first malformed line."""

    def __init__(self, line):
        super().__init__(f"line {line}")
        self.line = line


def read_data(content):
    """Return N, D, K and for each point its set of labels and its mapping of features to values."""
    content = content.removeprefix(b"\xef\xbb\xbf")
    lines = content.split(b"\n")
    length = len(lines[0])
    ended = lines[-1] == b""
    if ended:
        lines.pop()
    lines = [line[:-1] if line[-1:] == b"\r" else line for line in lines]
    header = HEADER.fullmatch(lines[0]) if lines else None
    if not header or length >= HEADER_BYTES:
        raise Malformed(1)
    N, D, K = map(int, header.groups())
    if max(D, K) >= 2**31:
        raise Malformed(1)
    points = []
    for number, line in enumerate(lines[1:], 2):
        if len(points) == N:
            if line.strip(b" \t\r"):
                raise Malformed(number)
            ended = True
            continue
        try:
            points.append(_point(line, D, K))
        except (ValueError, OverflowError):
            raise Malformed(number) from None
    if not ended:
        raise Malformed(len(lines))
    if len(points) < N:
        raise Malformed(len(lines) + 1)
    return N, D, K, points


def _point(line, D, K):
    match = POINT.fullmatch(line)
    if not match:
        raise ValueError
    labels = [_label(label, K) for label in (match[1] or b"").split(b",") if label]
    pairs = [pair.split(b":") for pair in match[2].split()]
    features = [(_index(feature, D), _float32(value)) for feature, value in pairs]
    if len(set(labels)) < len(labels) or len(dict(features)) < len(features):
        raise ValueError
    return set(labels), {feature: value for feature, value in features if value != 0}


def _label(text, bound):
    label = int(float(text))
    if not 0 <= label < bound:
        raise ValueError
    return label


def _index(digits, bound):
    digits = digits.lstrip(b"0")
    if len(digits) > 10 or int(digits or b"0") >= bound:
        raise ValueError
    return int(digits or b"0")


def _float32(text):
    """Return the float32 nearest to the double nearest to a decimal; OverflowError if that is infinite."""
    double = float(text)
    if math.isinf(double):
        raise OverflowError
    return struct.unpack("<f", struct.pack("<f", double))[0]
