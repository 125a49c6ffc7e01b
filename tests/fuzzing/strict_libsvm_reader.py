"""A second reader of libsvm's text format for data of one label, slow and strict, that shares nothing with xmlgp.

It takes the whole text at once and matches whole lines: what `xmlgp.data.libsvm_format` describes, written down as
regular expressions.
"""

import itertools
import re

from tests.fuzzing.strict_data_reader import BLANK, DECIMAL, INDEX, Malformed, lines_of, to_float32, to_index

__all__ = ["HIGHEST", "is_meant", "read_libsvm"]

#: The highest index.
HIGHEST = 10_000_000

POINT = re.compile(rb"%b*(%b)((?:%b+%b:%b)*)%b*" % (BLANK, DECIMAL, BLANK, INDEX, DECIMAL, BLANK))
MEANT = re.compile(rb"\s*%b(\s+[^\s:]*:\S*)+\s*" % DECIMAL)


def is_meant(content):
    """Return whether the first line identifies this format, malformed or not."""
    first = content.split(b"\n")[0]
    text = first.split(b"#")[0]
    if not text.strip():
        return b"#" in first
    alone = re.fullmatch(DECIMAL, text.strip())
    return bool(MEANT.fullmatch(text) or (alone and float(text) in (-1, 0, 1)))


def read_libsvm(content):
    """Return for each point whether it has the label and its mapping of features to values, and the highest index.

    Raises
    ------
    Malformed
    """
    lines, ended = lines_of(content)
    points, labels, highest = [], set(), 0
    for number, line in enumerate(lines, 1):
        if b"#" in line:
            # The last byte may be the first half of the line end.
            line = line.split(b"#")[0].removesuffix(b"\r")
        if not line.strip(b" \t"):
            continue
        match = POINT.fullmatch(line)
        if not match:
            raise Malformed(number)
        try:
            label, pairs = _point(*match.groups())
        except (ValueError, OverflowError):
            raise Malformed(number) from None
        labels.add(label)
        if not (labels <= {-1, 1} or labels <= {0, 1}):
            raise Malformed(number)
        points.append((label == 1, {index - 1: value for index, value in pairs if value}))
        highest = max(highest, *(index for index, _ in pairs), 0)
    if not ended:
        raise Malformed(len(lines))
    if not points:
        raise Malformed(len(lines) + 1)
    return points, highest


def _point(label, pairs):
    pairs = [pair.split(b":") for pair in pairs.split()]
    indices = [to_index(index, HIGHEST + 1) for index, _ in pairs]
    if any(here <= before for before, here in itertools.pairwise([0, *indices])):
        raise ValueError
    return float(label), list(zip(indices, (_value(value) for _, value in pairs), strict=True))


def _value(text):
    to_float32(text)  # values beyond single precision are refused
    return float(text)
