"""Scan lines of `index:value` pairs, in which both text formats keep features, with compiled loops.

The last line ends with a newline as well. A number becomes a column of five: index, digits as an integer, how many of
them follow the point, start and end in the text. With too many digits or an exponent, the third is -1, and Python reads
the text. A loop that finds a malformed line stores what is wrong and where, and `reason_of` says it in words.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xmlgp.linear_algebra.compiled import compiled
from xmlgp.runtime.untrusted_text import quote

__all__ = ["Indices", "empty_numbers", "number_values", "reason_of", "repeated", "scan_libsvm", "scan_repository"]
__all__ += ["DECIMAL", "row_of"]

TAB, NEWLINE, RETURN, SPACE, PLUS, COMMA, MINUS, POINT, ZERO, NINE, COLON, UPPER_E, LOWER_E = b"\t\n\r +,-.09:Ee"

#: A decimal, as `_scan_number` reads it. It matches in linear time for any token.
DECIMAL = re.compile(rb"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")

#: Integers of 15 digits and powers of ten up to 10**22 are exact as doubles, so the quotient of two is the double
#: nearest to the decimal (Clinger, How to read floating point numbers accurately, 1990).
EXACT_DIGITS = 15
POWERS = 10.0 ** np.arange(EXACT_DIGITS + 1)

#: The smallest double that rounds to infinity as a float32: half a step above the largest float32 (IEEE 754).
FLOAT32_OVERFLOW = 2.0**128 - 2.0**103

#: Larger than every index, and so small that it times ten is an int64.
LARGE_INDEX = 1 << 40

#: What is wrong with a line, from the position in the text that comes with it.
LABEL, FEATURE, VALUE = range(1, 4)

#: What ends the parts of a line.
BLANK = re.compile(rb"[ \t]|\r?\n")
END_OF_LABEL = re.compile(rb"[ \t,]|\r?\n")
END_OF_INDEX = re.compile(rb"[ \t:]|\r?\n")


class Indices(NamedTuple):
    """What the labels and the features of a file are called, and how many there are."""

    K: int
    D: int
    label: str = "label"
    feature: str = "feature"
    most: str = "the number of {}s in the first line"


def empty_numbers(count: int) -> NDArray[np.int64]:
    """Return space for so many numbers, 5×count."""
    return np.empty((5, count), np.int64)


def number_values(text: bytes, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the doubles nearest to scanned numbers of a text; infinite if too large for a float32."""
    _, integers, decimals, starts, ends = numbers
    values: NDArray[np.float64] = integers / POWERS.take(decimals, mode="clip")
    for i in np.flatnonzero(decimals < 0).tolist():
        values[i] = float(text[starts[i] : ends[i]])
    values[np.abs(values) >= FLOAT32_OVERFLOW] = np.inf
    return values


def reason_of(text: bytes, mistake: NDArray[np.int64], indices: Indices) -> str:
    """Return what is wrong with a line of a text, given the `mistake` that a loop found: its kind and position."""
    kind, at = mistake.tolist()
    word = _word(text, at, BLANK)
    if kind == VALUE:
        return f"{quote(word)} is not a finite decimal number" if word else f"a {indices.feature} has no value"
    if kind == FEATURE and b":" not in word:
        return f"{quote(word)} is not a {indices.feature}:value pair"
    name, bound, end = indices.feature, indices.D, END_OF_INDEX
    if kind == LABEL:
        name, bound, end = indices.label, indices.K, END_OF_LABEL
    token = _word(text, at, end)
    if kind == LABEL and b":" in token:
        return f"{quote(word)} is not a list of labels; the line of a point without labels starts with a space"
    if not token:
        return f"a {name} is missing"
    if token.isdigit():
        return f"{name} {quote(token)} is not below {bound}, {indices.most.format(name)}"
    return (
        "qid is not supported for binary data"
        if token == b"qid"
        else f"{quote(token)} is not a {name}: a nonnegative integer"
    )


def _word(text: bytes, start: int, end: re.Pattern[bytes]) -> bytes:
    """Return what begins at a position of a text, up to what matches `end`."""
    match = end.search(text, start)
    return text[start : match.start() if match else len(text)]


def repeated(indices: NDArray[np.int32], indptr: NDArray[Any]) -> NDArray[np.intp]:
    """Return the positions of the indices that are the same as the one before them in their row."""
    same = np.zeros(len(indices) + 1, bool)
    same[1:-1] = indices[1:] == indices[:-1]
    same[indptr] = False
    return np.flatnonzero(same)


def row_of(position: int, indptr: NDArray[Any]) -> int:
    """Return the row of the element at a position."""
    return int(np.searchsorted(indptr, position, side="right")) - 1


@compiled
def scan_repository(
    text: NDArray[np.uint8],
    D: int,
    K: int,
    labelled: bool,
    labels: NDArray[np.int32],
    pairs: NDArray[np.int64],
    ends: NDArray[np.int64],
    mistake: NDArray[np.int64],
) -> bool:
    """Scan lines of the repository's format; return whether they are well-formed, but for indices that occur twice.

    Lines that are not `labelled` have pairs alone. `labels` receives the labels of all lines, `pairs`, 5×count, the
    features, and `ends`, 2×(lines + 1), the number of labels and of features before each line. `mistake` receives what
    is wrong with a malformed line, and where.
    """
    ends[:, 0] = 0
    # With a literal 0, Numba would compile all that is called twice.
    zero = int(ends[0, 0])
    at = zero
    line = 0
    label_count = 0
    pair_count = zero
    while at < len(text):
        if labelled and not _is_blank(text, at):
            while True:
                begin = at
                at, label = _scan_index(text, begin, K)
                if at < 0 or not (text[at] == COMMA or _is_blank(text, at)):
                    _fail(mistake, LABEL, begin)
                    return False
                labels[label_count] = label
                label_count += 1
                if text[at] != COMMA:
                    break
                at += 1
        at, pair_count = _scan_pairs(text, at, D, pairs, pair_count, mistake)
        if at < 0:
            return False
        line += 1
        ends[0, line] = label_count
        ends[1, line] = pair_count
    return True


@compiled
def scan_libsvm(
    text: NDArray[np.uint8],
    bound: int,
    labels: NDArray[np.int64],
    pairs: NDArray[np.int64],
    ends: NDArray[np.int64],
    mistake: NDArray[np.int64],
) -> int:
    """Scan lines of libsvm's format without comments; return the number of points, -1 if a line is malformed.

    Any numbers are labels here, several, one or none a line, and indices may be 0 or in any order. `labels`, 5×(count +
    1), receives the labels of all points, `pairs`, 5×count, the features, and `ends`, 3×(lines + 1), the number of
    labels and of features before each point, and in row 2 the line of the point before. `mistake` is as for
    `scan_repository`.
    """
    ends[:, 0] = 0
    zero = int(ends[0, 0])
    at = zero
    line = 0
    points = 0
    label_count = zero
    pair_count = zero
    while at < len(text):
        line += 1
        at = _skip_blanks(text, at)
        if text[at] == NEWLINE:
            at += 1
            continue
        start = at
        at = _scan_number(text, start, labels, label_count)
        if at >= 0 and text[at] == COLON:
            at = start
        else:
            while True:
                if at < 0 or not (text[at] == COMMA or _is_blank(text, at)):
                    _fail(mistake, LABEL, start)
                    return -1
                label_count += 1
                if text[at] != COMMA:
                    break
                start = at + 1
                at = _scan_number(text, start, labels, label_count)
        at, pair_count = _scan_pairs(text, at, bound, pairs, pair_count, mistake)
        if at < 0:
            return -1
        points += 1
        ends[0, points] = label_count
        ends[1, points] = pair_count
        ends[2, points] = line - 1
    return points


@compiled
def _fail(mistake: NDArray[np.int64], kind: int, at: int) -> int:
    """Store what is wrong and where, and return -1."""
    mistake[0] = kind
    mistake[1] = at
    return -1


@compiled
def _scan_pairs(
    text: NDArray[np.uint8], at: int, bound: int, pairs: NDArray[np.int64], count: int, mistake: NDArray[np.int64]
) -> tuple[int, int]:
    """Store the pairs up to the end of the line; return the start of the next line, or -1, and the number of pairs.

    A value of `count` pairs are stored already. What is before `at` is the start of the line, or a label.
    """
    while True:
        at = _skip_blanks(text, at)
        if text[at] == NEWLINE:
            return at + 1, count
        start = at
        at, index = _scan_index(text, start, bound)
        if at < 0 or text[at] != COLON:
            return _fail(mistake, FEATURE, start), count
        value = at + 1
        at = _scan_number(text, value, pairs, count)
        if at < 0 or not _is_blank(text, at):
            return _fail(mistake, VALUE, value), count
        pairs[0, count] = index
        count += 1


@compiled
def _is_blank(text: NDArray[np.uint8], at: int) -> bool:
    """Return whether a position has a space, a tab, a newline, or a carriage return before a newline."""
    byte = text[at]
    return byte in (SPACE, NEWLINE, TAB) or (byte == RETURN and text[at + 1] == NEWLINE)


@compiled
def _skip_blanks(text: NDArray[np.uint8], at: int) -> int:
    """Return the next position that is not a space or a tab, nor a carriage return before a newline."""
    while text[at] == SPACE or text[at] == TAB or (text[at] == RETURN and text[at + 1] == NEWLINE):
        at += 1
    return at


@compiled
def _scan_index(text: NDArray[np.uint8], at: int, bound: int) -> tuple[int, int]:
    """Return the end of an integer, -1 if there is none or it is not below a bound, and the integer."""
    start = at
    index = 0
    while ZERO <= text[at] <= NINE:
        index = min(10 * index + text[at] - ZERO, LARGE_INDEX)
        at += 1
    return (at if start < at and index < bound else -1), index


@compiled
def _scan_number(text: NDArray[np.uint8], at: int, numbers: NDArray[np.int64], column: int) -> int:
    """Store a decimal such as `1`, `.5`, `+1` and `-2.5e-3`, and return its end; -1 if there is none."""
    start = at
    negative = text[at] == MINUS
    if negative or text[at] == PLUS:
        at += 1
    integer = 0
    digits = 0
    decimals = 0
    point = 0
    while (ZERO <= text[at] <= NINE) or (text[at] == POINT and not point):
        if text[at] == POINT:
            point = 1
        else:
            integer = 10 * integer + text[at] - ZERO  # meaningless after 18 digits
            digits += 1
            decimals += point
        at += 1
    if not digits:
        return -1
    if digits > EXACT_DIGITS:
        decimals = -1
    if text[at] == UPPER_E or text[at] == LOWER_E:
        decimals = -1
        at += 1
        if text[at] == MINUS or text[at] == PLUS:
            at += 1
        digit = at
        while ZERO <= text[at] <= NINE:
            at += 1
        if at == digit:
            return -1
    numbers[1, column] = -integer if negative else integer
    numbers[2, column] = decimals
    numbers[3, column] = start
    numbers[4, column] = at
    return at
