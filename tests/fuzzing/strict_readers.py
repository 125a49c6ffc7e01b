"""Second readers of data files and of scores files, slow and strict, that share nothing with xmlgp.

They take the whole text at once and match whole lines: what `xmlgp.data.repository_format`,
`xmlgp.data.libsvm_format` and `xmlgp.prediction.scores_file` describe, written down as regular expressions. All raise
`Malformed`.
"""

import itertools
import math
import re
import struct

__all__ = ["HIGHEST", "Malformed", "is_libsvm", "has_several_labels", "read_data", "read_libsvm", "read_scores_text"]
__all__ += ["read_several"]

INDEX = rb"[0-9]+"
DECIMAL = rb"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
PAIRS = rb"((?:[ \t]+%b:%b)*)[ \t]*" % (INDEX, DECIMAL)
DATA_POINT = re.compile(rb"(%b(?:,%b)*)?%b" % (INDEX, INDEX, PAIRS))
LIBSVM_POINT = re.compile(rb"[ \t]*(%b)%b" % (DECIMAL, PAIRS))
SEVERAL_POINT = re.compile(
    rb"[ \t]*(%b(?:,%b)*(?![^ \t]))?((?:[ \t]*(?<![^ \t])%b:%b)*)[ \t]*" % (DECIMAL, DECIMAL, INDEX, DECIMAL)
)
OMIKUJI_LINE = re.compile(rb"[ \t]*[0-9]+ [0-9]+\.[0-9]+[\t\r\n]")
AS_PAIRS = bytes.maketrans(b" \t", b": ")
#: The start of scores without numbers in the first line.
OTHER_SCORES = re.compile(rb"[ \t]*([0-9]+:|\r?\n)|" + OMIKUJI_LINE.pattern)
LIBSVM = re.compile(rb"\s*%b(\s+[^\s:]*:\S*)+\s*" % DECIMAL)
#: The highest index of a feature in libsvm's format.
HIGHEST = 10_000_000
#: Maximum length of the first line with its line end.
HEADER_BYTES = 200


class Malformed(Exception):
    """The text is malformed; `line` is the first malformed line."""

    def __init__(self, line):
        super().__init__(f"line {line}")
        self.line = line


def read_data(content):
    """Return N, D, K and for each point its set of labels and its mapping of features to values."""
    return _read(content, 3, _data_point)


def read_scores_text(content):
    """Return N, K and for each point its tuples: (label, score) or (label, score, std)."""
    content = content.removeprefix(b"\xef\xbb\xbf")
    # Only the first mark is one; below, another one would be taken for it.
    if content.startswith(b"\xef\xbb\xbf"):
        raise Malformed(1)
    if OTHER_SCORES.match(content + b"\n" * (content != b"")):
        # Without the numbers in the first line all lines are points, and the highest label says how many there are.
        try:
            N, _, points = read_scores_text(b"%d 2147483647\n" % len(_lines_of(content)[0]) + content)
        except Malformed as error:
            raise Malformed(error.line - 1) from None
        return N, max((label for pairs in points for label, *_ in pairs), default=-1) + 1, points
    # The first valid pair determines how pairs are written.
    lines = content.split(b"\n")[1:]
    if OMIKUJI_LINE.match(next((line.lstrip() for line in lines if line.split()), b"") + b"\n"):
        content = b"\n".join([content.split(b"\n")[0], *(line.translate(AS_PAIRS) for line in lines)])
    first = next((line.split()[0] for line in content.split(b"\n")[1:] if line.split()), b"")
    pair = INDEX + (b":" + DECIMAL) * (2 if first.count(b":") == 2 else 1)
    line = re.compile(rb"[ \t]*(?:%b(?:[ \t]+%b)*)?[ \t]*" % (pair, pair))
    return _read(content, 2, lambda text, K: _scores(text, K, line), rb"(?:[ \t]+assigned)?")


def is_libsvm(content):
    """Return whether the first line identifies libsvm's format, malformed or not."""
    first = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")[0]
    text = first.split(b"#")[0]
    if not text.strip():
        return b"#" in first
    alone = re.fullmatch(DECIMAL, text.strip())
    several = re.fullmatch(
        rb"\s*(%b(,%b)+\s+)?%b:%b(\s+%b:%b)*\s*" % (INDEX, INDEX, INDEX, DECIMAL, INDEX, DECIMAL), text
    )
    return bool(several or LIBSVM.fullmatch(text) or (alone and float(text) in (-1, 0, 1)))


def read_libsvm(content):
    """Return for each point whether it has the label and its mapping of features to values, and the highest index."""
    lines, ended = _lines_of(content)
    points, labels, highest = [], set(), 0
    for number, line in enumerate(lines, 1):
        if b"#" in line:
            # The last byte may be the first half of the line end.
            line = line.split(b"#")[0].removesuffix(b"\r")
        if not line.strip(b" \t"):
            continue
        try:
            label, pairs = _libsvm_point(line)
        except (ValueError, OverflowError):
            raise Malformed(number) from None
        labels.add(label)
        if not (labels <= {-1, 1} or labels <= {0, 1}):
            raise Malformed(number)
        points.append((label == 1, {index - 1: value for index, value in pairs if value}))
        highest = max(highest, *(index for index, _ in pairs), 0)
    if not ended and lines[-1].strip(b" \t\r"):
        raise Malformed(len(lines))
    if not points:
        raise Malformed(len(lines) + 1)
    return points, highest


def has_several_labels(content):
    """Return whether a line of a file in libsvm's format has labels that are separated by commas."""
    lines = (line.split(b"#")[0] + b"\n" for line in _lines_of(content)[0])
    return any(re.match(rb"[ \t]*%b(,%b)+\s" % (INDEX, INDEX), line) for line in lines)


def read_several(content):
    """Return for each point its labels and its mapping of features to values, as they are.

    `Malformed` has no line: it depends on where labels are seen to be separated by commas.
    """
    lines, ended = _lines_of(content)
    points = []
    for line in lines:
        line = line.split(b"#")[0].removesuffix(b"\r") if b"#" in line else line
        if not line.strip(b" \t"):
            continue
        try:
            labels, pairs = _groups(SEVERAL_POINT, line)
            labels = [float(label) for label in (labels or b"").split(b",") if label]
            pairs = [pair.split(b":") for pair in pairs.split()]
            pairs = [(_index(index, HIGHEST + 1), _float32(value)) for index, value in pairs]
        except (ValueError, OverflowError):
            raise Malformed(None) from None
        if any(label % 1 or not 0 <= label <= HIGHEST for label in labels):
            raise Malformed(None)
        if len(set(labels)) < len(labels) or len(dict(pairs)) < len(pairs):
            raise Malformed(None)
        points.append(({int(label) for label in labels}, dict(pairs)))
    if not points or not (ended or not lines[-1].strip(b" \t\r")):
        raise Malformed(None)
    return points


def _lines_of(content):
    """Return the lines of a text without their ends, LF or CR LF, and whether the last one has an end."""
    lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    ended = lines[-1] == b""
    if ended:
        lines.pop()
    return [line[:-1] if line[-1:] == b"\r" else line for line in lines], ended


def _read(content, counts, read_point, end=b""):
    """Return the numbers of the first line, and a list of what `read_point(line, *all but the first)` returns.

    The first line ends with what the regular expression `end` says.
    """
    lines, ended = _lines_of(content)
    first = rb"[ \t]*%b%b[ \t]*" % (rb"[ \t]+".join([b"([0-9]+)"] * counts), end)
    header = re.fullmatch(first, lines[0]) if lines else None
    # Without its line end the first line has one byte less.
    length = len(content.removeprefix(b"\xef\xbb\xbf").split(b"\n")[0])
    if not header or length >= HEADER_BYTES:
        raise Malformed(1)
    N, *sizes = map(int, header.groups())
    if max(sizes) >= 2**31:
        raise Malformed(1)
    points = []
    for number, line in enumerate(lines[1:], 2):
        if len(points) == N:
            if line.strip(b" \t\r"):
                raise Malformed(number)
            ended = True
            continue
        try:
            points.append(read_point(line, *sizes))
        except (ValueError, OverflowError):
            raise Malformed(number) from None
    if not ended:
        raise Malformed(len(lines))
    if len(points) < N:
        raise Malformed(len(lines) + 1)
    return N, *sizes, points


def _data_point(line, D, K):
    labels, pairs = _groups(DATA_POINT, line)
    labels = [_index(label, K) for label in (labels or b"").split(b",") if label]
    features = [pair.split(b":") for pair in pairs.split()]
    features = [(_index(feature, D), _float32(value)) for feature, value in features]
    if len(set(labels)) < len(labels) or len(dict(features)) < len(features):
        raise ValueError
    return set(labels), {feature: value for feature, value in features if value != 0}


def _libsvm_point(line):
    label, pairs = _groups(LIBSVM_POINT, line)
    pairs = [pair.split(b":") for pair in pairs.split()]
    indices = [_index(index, HIGHEST + 1) for index, _ in pairs]
    values = [float(value) for _, value in pairs if math.isfinite(_float32(value))]
    if any(here <= before for before, here in itertools.pairwise([0, *indices])):
        raise ValueError
    return float(label), list(zip(indices, values, strict=True))


def _scores(line, K, pattern):
    _groups(pattern, line)
    pairs = [pair.split(b":") for pair in line.split()]
    pairs = [(_index(label, K), *map(float, numbers)) for label, *numbers in pairs]
    if len({label for label, *_ in pairs}) < len(pairs) or not all(map(math.isfinite, itertools.chain(*pairs))):
        raise ValueError
    return pairs


def _groups(pattern, line):
    match = pattern.fullmatch(line)
    if not match:
        raise ValueError
    return match.groups()


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
