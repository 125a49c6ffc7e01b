"""A second reader of scores files, slow and strict, that shares nothing with xmlgp."""

import math
import re

from tests.fuzzing.strict_data_reader import BLANK, DECIMAL, INDEX, Malformed, lines_of, to_index

__all__ = ["read_scores_text"]

HEADER = re.compile(rb"%b*(%b)%b+(%b)%b*" % (BLANK, INDEX, BLANK, INDEX, BLANK))
HEADER_BYTES = 200


def _line_of(pair):
    return re.compile(rb"%b*(?:%b(?:%b+%b)*)?%b*" % (BLANK, pair, BLANK, pair, BLANK))


#: Names of the numbers by the count of colons in a pair.
LINES = {colons: _line_of(INDEX + (b":" + DECIMAL) * colons) for colons in (1, 2)}


def read_scores_text(content):
    """Return N, K and for each point its tuples: (label, score) or (label, score, std).

    Raises
    ------
    Malformed
    """
    lines, ended = lines_of(content)
    header = HEADER.fullmatch(lines[0]) if lines and content.find(b"\n") < HEADER_BYTES else None
    if not header or (b"\n" not in content and len(content) >= HEADER_BYTES):
        raise Malformed(1)
    N, K = map(int, header.groups())
    if K >= 2**31:
        raise Malformed(1)
    colons = None
    points = []
    for number, line in enumerate(lines[1:], 2):
        if colons is None and line.split():
            # The first valid pair determines how many numbers there are.
            colons = 2 if line.split()[0].count(b":") == 2 else 1
        if len(points) == N or not LINES[colons or 1].fullmatch(line):
            raise Malformed(number)
        try:
            points.append(_point(line, K))
        except ValueError:
            raise Malformed(number) from None
    if not ended:
        raise Malformed(len(lines))
    if len(points) < N:
        raise Malformed(len(lines) + 1)
    return N, K, points


def _point(line, K):
    pairs = []
    for pair in line.split():
        label, *numbers = pair.split(b":")
        numbers = [float(number) for number in numbers]
        if not all(map(math.isfinite, numbers)):
            raise ValueError
        pairs.append((to_index(label, K), *numbers))
    if len({label for label, *_ in pairs}) < len(pairs):
        raise ValueError
    return pairs
