"""Scan lines of `index:value` pairs, in which both text formats keep features, with compiled loops.

They find that a line is malformed, not why: `line_parser` and `libsvm_format` do, for the message. The last line ends
with a newline as well. A number becomes a column of five: index, digits as an integer, how many of them follow the
point, start and end in the text. With too many digits or an exponent, the third is -1, and Python reads the text.
"""

import numpy as np
from numpy.typing import NDArray

from xmlgp.linear_algebra.compiled import compiled

__all__ = ["FLOAT32_OVERFLOW", "empty_numbers", "number_values", "scan_libsvm", "scan_repository"]

TAB, NEWLINE, RETURN, SPACE, PLUS, COMMA, MINUS, POINT, ZERO, NINE, COLON, UPPER_E, LOWER_E = b"\t\n\r +,-.09:Ee"

#: Integers of 15 digits and powers of ten up to 10**22 are exact as doubles, so the quotient of two is the double
#: nearest to the decimal (Clinger, How to read floating point numbers accurately, 1990).
EXACT_DIGITS = 15
POWERS = 10.0 ** np.arange(EXACT_DIGITS + 1)

#: The smallest double that rounds to infinity as a float32: half a step above the largest float32 (IEEE 754).
FLOAT32_OVERFLOW = 2.0**128 - 2.0**103

#: Larger than every index, and so small that it times ten is an int64.
LARGE_INDEX = 1 << 40


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


@compiled
def scan_repository(
    text: NDArray[np.uint8],
    D: int,
    K: int,
    labelled: bool,
    labels: NDArray[np.int32],
    pairs: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> bool:
    """Scan lines of the repository's format; return whether they are well-formed, but for indices that occur twice.

    Lines that are not `labelled` have pairs alone. `labels` receives the labels of all lines, `pairs`, 5×count, the
    features, and `ends`, 2×(lines + 1), the number of labels and of features before each line.
    """
    ends[:, 0] = 0
    # With a literal 0, Numba would compile all that is called twice.
    zero = int(ends[0, 0])
    at = zero
    line = 0
    label_count = 0
    pair_count = zero
    while at < len(text):
        if labelled and ZERO <= text[at] <= NINE:
            while True:
                at, label = _scan_index(text, at, K)
                if at < 0:
                    return False
                labels[label_count] = label
                label_count += 1
                if text[at] != COMMA:
                    break
                at += 1
        at, pair_count = _scan_pairs(text, at, D, pairs, pair_count, not labelled)
        if at < 0:
            return False
        line += 1
        ends[0, line] = label_count
        ends[1, line] = pair_count
    return True


@compiled
def scan_libsvm(
    text: NDArray[np.uint8], bound: int, labels: NDArray[np.int64], pairs: NDArray[np.int64], ends: NDArray[np.int64]
) -> int:
    """Scan lines of libsvm's format without comments; return the number of points, -1 if a line is malformed.

    Any numbers are labels here, several, one or none a line, and indices may be 0 or in any order. `labels`, 5×(count +
    1), receives the labels of all points, `pairs`, 5×count, the features, and `ends`, 2×(lines + 1), the number of
    labels and of features before each point.
    """
    ends[:, 0] = 0
    zero = int(ends[0, 0])
    at = zero
    points = 0
    label_count = zero
    pair_count = zero
    while at < len(text):
        at = _skip_blanks(text, at)
        if text[at] == NEWLINE:
            at += 1
            continue
        start = at
        at = _scan_number(text, at, labels, label_count)
        unlabelled = at >= 0 and text[at] == COLON
        if unlabelled:
            at = start
        else:
            label_count += 1
            while at >= 0 and text[at] == COMMA:
                at = _scan_number(text, at + 1, labels, label_count)
                label_count += 1
            if at < 0:
                return -1
        at, pair_count = _scan_pairs(text, at, bound, pairs, pair_count, unlabelled)
        if at < 0:
            return -1
        points += 1
        ends[0, points] = label_count
        ends[1, points] = pair_count
    return points


@compiled
def _scan_pairs(
    text: NDArray[np.uint8], at: int, bound: int, pairs: NDArray[np.int64], count: int, apart: bool
) -> tuple[int, int]:
    """Store the pairs up to the end of a line; return the start of the next line, -1 on errors, and their number.

    A blank is needed before each pair, but before the first one if that stands `apart` from what precedes it.
    """
    while True:
        start = at
        at = _skip_blanks(text, at)
        if text[at] == NEWLINE:
            return at + 1, count
        if at == start and not apart:
            return -1, count
        apart = False
        at, index = _scan_index(text, at, bound)
        if at < 0 or text[at] != COLON:
            return -1, count
        at = _scan_number(text, at + 1, pairs, count)
        if at < 0:
            return -1, count
        pairs[0, count] = index
        count += 1


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
