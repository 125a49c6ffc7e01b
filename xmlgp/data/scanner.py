"""Read lines of `label,label feature:value …`, which both formats of rows and scores files have, by a compiled loop.

The loop reads the numbers, and where a line is malformed it says what is wrong, by a code, and where.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.data.dataset import as_csr
from xmlgp.linear_algebra.compiled import compiled, compiled_part
from xmlgp.runtime.errors import DataFormatError
from xmlgp.runtime.untrusted_text import quote

__all__ = ["SCORES", "ScannedRows", "row_of", "scan_rows"]

TAB, NEWLINE, SPACE, PLUS, COMMA, MINUS, POINT, ZERO, NINE, COLON, UPPER_E, LOWER_E = b"\t\n +,-.09:Ee"

#: A value, if the line is well-formed.
VALUE = re.compile(rb":([^ \t\n]+)")

#: Integers of 15 digits and powers of ten up to 10**22 are exact as doubles, so the quotient of two is the double
#: nearest to the decimal (Clinger, How to read floating point numbers accurately, 1990).
EXACT_DIGITS = 15
POWERS = 10.0 ** np.arange(EXACT_DIGITS + 1)

#: The smallest double that rounds to infinity as a float32: half a step above the largest float32 (IEEE 754).
FLOAT32_OVERFLOW = 2.0**128 - 2.0**103

#: What is wrong with a line, and the words that say so of the word that begins where the loop stopped.
WELL_FORMED, NO_LABELS, LABEL_BEYOND, NO_PAIR, FEATURE_BEYOND = range(5)
REASONS = {
    NO_LABELS: "{word} is not a list of labels such as 3,17; {advice}",
    LABEL_BEYOND: "label {word} is not below {K}, the number of labels in the first line, or the limit",
    NO_PAIR: "{word} is not a {column}:{value} pair of a number from 0 and a finite decimal number",
    FEATURE_BEYOND: "{column} {word} is not below {D}, the number of {column}s in the first line, or the limit",
}

#: What is said beside of labels that are none, of a file with a first line `N D K` and of libsvm format.
ADVICE = ("the line of a point without labels starts with a space", "labels are whole numbers, or -1 and +1")

#: What messages call the two numbers of a pair.
FEATURES = ("feature", "value")
SCORES = ("label", "score")

#: What ends a label, or an index.
END_OF_NUMBER = re.compile(rb"[ \t,:\n]")

#: What ends a word.
END_OF_WORD = re.compile(rb"[ \t\n]")


class ScannedRows(NamedTuple):
    """Points: labels, N×K, features, N×D in double precision, and the line of each.

    Column indices are sorted within a row, without duplicates. Zeros may be stored.
    """

    labels: csr_array
    features: csr_array
    lines: NDArray[np.int64]


def scan_rows(
    text: bytes, first_line: int, path: str, D: int, K: int, libsvm: bool = False, pair: tuple[str, str] = FEATURES
) -> ScannedRows:
    """Return the points of some lines; DataFormatError names the first one that is malformed.

    Parameters
    ----------
    text : bytes
        Complete lines, each with a newline at its end, the first of which is line `first_line` of the file `path`.
    D, K : int
        Features and labels are below these numbers.
    libsvm : bool
        Whether blank lines are no points, the line of a point without labels may start with a feature, and labels may
        be -1. Label k is then in column k + 1.
    pair : FEATURES or SCORES
        What the pairs are. Scores stay in the order of the line.
    """
    text = text.replace(b"\r\n", b"\n")
    line_count = text.count(b"\n")
    pair_count = text.count(b":")
    labels = np.empty(line_count + text.count(b","), np.int32)
    features = np.empty(pair_count, np.int32)
    values = np.empty(pair_count)
    ends = np.empty((3, line_count + 1), np.int64)
    points, mistake, at = _scan_lines(np.frombuffer(text, np.uint8), D, K, libsvm, labels, features, values, ends)
    label_ends, pair_ends, lines = ends[:, : points + 1]
    lines += first_line
    mistakes = []
    if mistake:
        end = END_OF_NUMBER if mistake in (LABEL_BEYOND, FEATURE_BEYOND) else END_OF_WORD
        found = end.search(text, at)
        word = quote(text[at : found.start() if found else len(text)])
        names = {"column": pair[0], "value": pair[1], "advice": ADVICE[libsvm]}
        mistakes.append((points, REASONS[mistake].format(word=word, D=D, K=K, **names)))
    values = values[: pair_ends[-1]]
    inexact = np.flatnonzero(np.isnan(values))
    if len(inexact):
        words = VALUE.findall(text)
        values[inexact] = [float(words[position]) for position in inexact.tolist()]
    large = inexact[np.abs(values[inexact]) >= FLOAT32_OVERFLOW]
    if len(large):
        reason = f"the {pair[1]} of {pair[0]} {features[large[0]]} is too large for a 32-bit floating-point number"
        mistakes.append((row_of(int(large[0]), pair_ends), reason))
    label_matrix = as_csr(None, labels[: label_ends[-1]], label_ends, K + libsvm)
    feature_matrix = as_csr(values, features[: pair_ends[-1]], pair_ends, D)
    in_order = feature_matrix.copy() if pair == SCORES else feature_matrix
    for matrix, name, first in (label_matrix, "label", -int(libsvm)), (in_order, pair[0], 0):
        matrix.sort_indices()
        if not matrix.has_canonical_format:
            position = _repeated(matrix)
            mistakes.append(
                (row_of(position, matrix.indptr), f"{name} {matrix.indices[position] + first} occurs twice")
            )
    if mistakes:
        point, reason = min(mistakes)
        raise DataFormatError(path, int(lines[point]), reason)
    return ScannedRows(label_matrix, feature_matrix, lines[:points])


def row_of(position: int, indptr: NDArray[Any]) -> int:
    """Return the row of the element at a position."""
    return int(np.searchsorted(indptr, position, side="right")) - 1


def _repeated(matrix: csr_array) -> int:
    """Return the position of the first index that is the same as the one before it in its row."""
    same = np.zeros(len(matrix.indices) + 1, bool)
    same[1:-1] = matrix.indices[1:] == matrix.indices[:-1]
    same[matrix.indptr] = False
    return int(same.argmax())


@compiled
def _scan_lines(
    text: NDArray[np.uint8],
    D: int,
    K: int,
    libsvm: bool,
    labels: NDArray[np.int32],
    features: NDArray[np.int32],
    values: NDArray[np.float64],
    ends: NDArray[np.int64],
) -> tuple[int, int, int]:
    """Scan lines; return the number of points before a malformed line, what is wrong with that, and where.

    `labels` receives the labels of all points, `features` and `values` their features, and `ends`, 3×(lines + 1), the
    number of labels and of features before each point, and in row 2 its line, from 0.
    """
    ends[:, 0] = 0
    # With a literal 0, Numba would compile all that is called twice.
    at = int(ends[0, 0])
    line = at
    points = at
    label_count = at
    pair_count = at
    while at < len(text):
        if libsvm:
            at = _skip_blanks(text, at)
        ends[2, points] = line
        if not (libsvm and text[at] == NEWLINE):
            mistake, at, label_count = _scan_labels(text, at, K, libsvm, labels, label_count)
            if mistake == WELL_FORMED:
                mistake, at, pair_count = _scan_pairs(text, at, D, features, values, pair_count)
            if mistake != WELL_FORMED:
                return points, mistake, at
            points += 1
            ends[0, points] = label_count
            ends[1, points] = pair_count
        at += 1
        line += 1
    return points, WELL_FORMED, at


@compiled_part
def _scan_labels(
    text: NDArray[np.uint8], at: int, K: int, libsvm: bool, labels: NDArray[np.int32], count: int
) -> tuple[int, int, int]:
    """Store the labels at the start of a line after `count` others; return what is wrong, where, and the new count."""
    labelled = not _is_blank(text, at) and not (libsvm and text[_scan_decimal(text, at)[0]] == COLON)
    while labelled:
        end, label = _scan_decimal(text, at)
        # A number that is missing is NaN, which equals nothing.
        if label != np.floor(label) or label < -int(libsvm) or not (text[end] == COMMA or _is_blank(text, end)):
            return NO_LABELS, at, count
        if label >= K:
            return LABEL_BEYOND, at, count
        labels[count] = int(label) + int(libsvm)
        count += 1
        labelled = text[end] == COMMA
        at = end + int(labelled)
    return WELL_FORMED, at, count


@compiled_part
def _scan_pairs(
    text: NDArray[np.uint8], at: int, D: int, features: NDArray[np.int32], values: NDArray[np.float64], count: int
) -> tuple[int, int, int]:
    """Store the pairs up to the end of a line after `count` others; return what is wrong, where, and the new count."""
    at = _skip_blanks(text, at)
    while text[at] != NEWLINE:
        start = at
        feature = 0
        while ZERO <= text[at] <= NINE:
            feature = min(10 * feature + text[at] - ZERO, D)
            at += 1
        if at == start or text[at] != COLON:
            return NO_PAIR, start, count
        if feature == D:
            return FEATURE_BEYOND, start, count
        end, values[count] = _scan_decimal(text, at + 1)
        if end == at + 1 or not _is_blank(text, end):
            return NO_PAIR, start, count
        features[count] = feature
        count += 1
        at = _skip_blanks(text, end)
    return WELL_FORMED, at, count


@compiled_part
def _is_blank(text: NDArray[np.uint8], at: int) -> bool:
    """Return whether a position has a space, a tab or a newline."""
    return text[at] in (SPACE, NEWLINE, TAB)


@compiled_part
def _skip_blanks(text: NDArray[np.uint8], at: int) -> int:
    """Return the next position that has no space and no tab."""
    while text[at] == SPACE or text[at] == TAB:
        at += 1
    return at


@compiled_part
def _scan_decimal(text: NDArray[np.uint8], at: int) -> tuple[int, float]:
    """Return the end of a decimal such as `1`, `.5`, `+1` and `-2.5e-3`, which is its start if there is none, and it.

    It is NaN if it has an exponent or more than `EXACT_DIGITS` digits.
    """
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
        return start, np.nan
    if text[at] == UPPER_E or text[at] == LOWER_E:
        digits += EXACT_DIGITS
        at += 1
        if text[at] == MINUS or text[at] == PLUS:
            at += 1
        exponent = at
        while ZERO <= text[at] <= NINE:
            at += 1
        if at == exponent:
            return start, np.nan
    if digits > EXACT_DIGITS:
        return at, np.nan
    return at, (-integer if negative else integer) / POWERS[decimals]
