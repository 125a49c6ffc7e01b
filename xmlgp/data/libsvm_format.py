"""Read data in the text format of libsvm and svmlight, of two classes or of several labels a point.

A line is `labels feature:value feature:value …`, separated by spaces or tabs. Values are decimals as in
`xmlgp.data.line_parser`. Text after a `#` is a comment; lines with nothing else are ignored.

In a file of two classes a line has one label. The labels of the file are either -1 and +1, or 0 and 1; features start
at 1 and increase.

Labels that are separated by commas, in any line, make the file one of several labels a point. Labels are then numbers
from 0, a line may have none, and features are in any order. Features start at 1, unless a feature 0 occurs.

The data are not cached: the numbers of features and labels, which no line declares, could not be checked.
"""

import functools
import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.data.dataset import Dataset, as_csr, widened
from xmlgp.data.features import Features
from xmlgp.data.line_parser import DECIMAL, check_pairs, report_first_mistake
from xmlgp.data.lines import LineReader
from xmlgp.data.scanner import empty_numbers, number_values, scan_libsvm
from xmlgp.errors import DataFormatError
from xmlgp.runtime.progress import Bar, Progress, ignore, silent
from xmlgp.runtime.untrusted_text import quote

__all__ = ["MAX_FEATURES", "is_libsvm", "read_points", "resize_features"]

#: Maximum index of a feature or label. Models allocate memory for each, so one line could exhaust it.
MAX_FEATURES = 10_000_000
MAX_DIGITS = len(str(MAX_FEATURES))

#: Labels of two classes. A file has either -1 and 1, or 0 and 1.
LABELS = (-1, 0, 1)
WORD = re.compile(rb"\S+")
COMMENT = re.compile(rb"#[^\n]*")
#: Several labels of a point.
SEVERAL = re.compile(rb"\d+(,\d+)+")
ONE_OF_MANY = re.compile(rb"\d{1,8}")
#: A feature and its value.
PAIR = re.compile(rb"\d+:%b" % DECIMAL.pattern)
#: The start of a line with several labels.
SEVERAL_LABELS = re.compile(rb"^[ \t]*\d+(,\d+)+\s", re.MULTILINE)
BLANK_LINE = re.compile(rb"^[ \t\r]*\n", re.MULTILINE)
#: A number of lines that no block has, to read as many lines as a block has.
ALL = 2**62


class _Block(NamedTuple):
    """Points: their labels, how many each has, their features and values, and how many features each has."""

    labels: NDArray[np.float64]
    label_counts: NDArray[np.int64]
    features: NDArray[np.int32]
    values: NDArray[np.float64]
    counts: NDArray[np.int64]


def is_libsvm(line: bytes, strict: bool = True) -> bool:
    """Return whether a data file is in this format, by its first line.

    The line is a comment, one or several numbers with `feature:value` pairs after them, or a label alone. Unless
    `strict`, it may also be pairs alone, of a point without labels, which a text may have as well.
    """
    text, hash_, _ = line.partition(b"#")
    # The line of a file that is not text can be long.
    words = (match[0] for match in WORD.finditer(text))
    label = next(words, b"")
    pair = next(words, b"")
    if not label:
        return bool(hash_)
    if SEVERAL.fullmatch(label):
        return bool(PAIR.fullmatch(pair)) and all(map(PAIR.fullmatch, words))
    if not strict and PAIR.fullmatch(label):
        return all(map(PAIR.fullmatch, [pair, *words] if pair else []))
    if not DECIMAL.fullmatch(label):
        return False
    return b":" in pair and all(b":" in other for other in words) if pair else float(label) in LABELS


def read_points(
    reader: LineReader,
    progress: Progress = silent,
    several: bool | None = None,
    note: Callable[[str], object] = ignore,
    labelled: bool = True,
) -> tuple[Dataset, bool]:
    """Read a whole data file from a `LineReader` at its first line; DataFormatError names the line of an error.

    Return the `Dataset` and whether it has several labels a point; `several` says so, or None to let the file tell.
    Points of two classes have K = 1 label, which those labelled +1 or 1 have. The highest index is the number of
    features, and feature 1 of the file is feature 0. With several labels, the highest label determines K, and `note`
    gets the assumptions. Labels that are not `labelled` may be any numbers, and K is 0.
    """
    with progress(f"reading {reader.path}", unit=" points") as bar:
        blocks, several, blank = _read_blocks(reader, several, labelled, bar)
    if not any(len(block.counts) for block in blocks):
        raise DataFormatError(reader.path, reader.line_number, "the file has no points")
    points = _Block(*map(np.concatenate, zip(*blocks, strict=True)))
    if several:
        if blank:
            note(f"{reader.path}: {blank} blank lines between points are no points")
        return _of_several_labels(points, reader.path, note), True
    indptr = np.concatenate([[0], np.cumsum(points.counts)])
    features = as_csr(points.values, points.features - 1, indptr, int(points.features.max(initial=0)))
    features.eliminate_zeros()
    label_indptr = np.concatenate([[0], np.cumsum(points.labels > 0)])
    return Dataset(Features(features), as_csr(None, np.zeros(label_indptr[-1], np.int32), label_indptr, 1)), False


def resize_features(dataset: Dataset, D: int) -> Dataset:
    """Return the points with the first D features; features beyond those of `dataset` are zero."""
    kept = dataset.features.sparse[:, :D]
    return Dataset(Features(widened(kept, D)), dataset.labels)


def _read_blocks(reader: LineReader, several: bool | None, labelled: bool, bar: Bar) -> tuple[list[_Block], bool, int]:
    """Return the points of a file, whether it has several labels a point, and the number of blank lines between points.

    Which kind of file it is may only be clear at the end, so the first mistake of each kind is kept until then.
    """
    blocks = []
    two_classes = _TwoClasses()
    several_labels = _SeveralLabels(labelled)
    blank = after = 0  # all blank lines, and those after the last point
    while True:
        line_number = reader.line_number
        try:
            text = reader.read_lines(ALL)
        except DataFormatError as error:
            (several_labels if several else two_classes).raise_mistake()
            raise error from None
        if not text:
            break
        # A blank line at the end needs no newline.
        reader.newline_needed = bool(text[text.rfind(b"\n", 0, -1) + 1 :].strip())
        content = COMMENT.sub(b"", text) if b"#" in text else text
        if several is None and b"," in content and SEVERAL_LABELS.search(content):
            several = True
        block = _scan(content, labelled)
        lines = _Lines(content, reader.path, line_number)
        if not several:
            two_classes.check(block, lines)
        # Points of two classes with labels 0 and 1 are points with several labels, too.
        if several or two_classes.mistake or -1 in two_classes.seen:
            several_labels.check(block, lines)
        if block is None:
            break
        after = 0
        if len(block.counts) < text.count(b"\n"):
            blank += len(BLANK_LINE.findall(text))
            after = text[len(text.rstrip()) :].count(b"\n") - 1
        blocks.append(block)
        bar.update(len(block.counts))
    (several_labels if several else two_classes).raise_mistake()
    return blocks, bool(several), blank - after


class _Lines(NamedTuple):
    """Some lines of a file, without comments, and the number of the first."""

    text: bytes
    path: str
    first: int


class _Kind:
    """A kind of file; `mistake` are the first lines that it cannot have."""

    mistake: _Lines | None = None

    def check(self, block: _Block | None, lines: _Lines) -> None:
        """Keep the first lines that are malformed (`block` None) or of another kind."""
        if self.mistake is None and (block is None or not self.accepts(block)):
            self.mistake = lines

    def raise_mistake(self) -> None:
        """Raise the DataFormatError of the first mistake if there is one."""
        if self.mistake:
            report_first_mistake(*self.mistake, self.check_line)

    def accepts(self, block: _Block) -> bool:
        """Return whether some points are of this kind."""
        raise NotImplementedError

    def check_line(self, line: bytes) -> None:
        """Raise ValueError that says what is wrong with a line."""
        raise NotImplementedError


class _TwoClasses(_Kind):
    """A file of two classes; `seen` are the labels so far."""

    def __init__(self) -> None:
        self.seen: set[float] = set()

    def accepts(self, block: _Block) -> bool:
        if (block.label_counts != 1).any() or block.features.min(initial=1) == 0:
            return False
        labels = self.seen | set(np.unique(block.labels).tolist())
        if not ((labels <= {-1, 1} or labels <= {0, 1}) and _rows(block.features, block.counts).has_canonical_format):
            return False
        self.seen = labels
        return True

    def check_line(self, line: bytes) -> None:
        label, *pairs = line.split() or [b""]
        if not label:
            return
        if b":" in label:
            advice = "rows of which some have no label need a first line `N D K`"
            raise ValueError(f"the label is missing before {quote(label)}; {advice}")
        value = float(label) if DECIMAL.fullmatch(label) else None
        if value not in LABELS:
            advice = "; rows with one of many labels need a first line `N D K`" if ONE_OF_MANY.fullmatch(label) else ""
            raise ValueError(f"label {quote(label)} is not one of -1, +1, 0, 1{advice}")
        self.seen.add(value)
        if {-1, 0} <= self.seen:
            raise ValueError(
                f"label {value:g} follows label {-1 - value:g}, but labels must be either -1 and +1 or 0 and 1"
            )
        check_pairs(pairs, functools.partial(_check_feature, earlier=[0]))


class _SeveralLabels(_Kind):
    """A file of several labels a point, or of any numbers in their place unless it is `labelled`."""

    def __init__(self, labelled: bool) -> None:
        self._labelled = labelled

    def accepts(self, block: _Block) -> bool:
        if ((block.labels < 0) | (block.labels > MAX_FEATURES) | (block.labels > np.floor(block.labels))).any():
            return False
        # Copies, which are sorted.
        pairs = (block.labels, block.label_counts), (block.features, block.counts)
        rows = [_rows(indices.astype(np.int32), counts) for indices, counts in pairs]
        for row in rows:
            row.sort_indices()
        return all(row.has_canonical_format for row in rows)

    def check_line(self, line: bytes) -> None:
        words = line.split()
        seen: set[float] = set()
        for label in words.pop(0).split(b",") if words and b":" not in words[0] else []:
            value = float(label) if DECIMAL.fullmatch(label) else -1
            if not self._labelled:
                if not DECIMAL.fullmatch(label):
                    raise ValueError(f"label {quote(label)} is not a number")
                continue
            if not (0 <= value <= MAX_FEATURES and value % 1 == 0):
                kind = f"a number from 0 to {MAX_FEATURES}"
                raise ValueError(f"label {quote(label)} is not {kind}, which labels are where points have several")
            if value in seen:
                raise ValueError(f"label {value:g} occurs twice")
            seen.add(value)
        features: set[int] = set()
        check_pairs(words, functools.partial(_check_index, seen=features))


def _scan(text: bytes, labelled: bool) -> _Block | None:
    """Return the `_Block` of some lines, which has labels if `labelled`; None if the lines are malformed."""
    lines = text.count(b"\n")
    # A line without labels uses the space of one label.
    labels = empty_numbers(lines + text.count(b",") + 1)
    pairs = empty_numbers(text.count(b":"))
    ends = np.empty((2, lines + 1), np.int64)
    points = scan_libsvm(np.frombuffer(text, np.uint8), MAX_FEATURES + 1, labels, pairs, ends)
    if points < 0:
        return None
    ends = ends[:, : points + 1]
    pairs = pairs[:, : ends[1, -1]]
    values = number_values(text, pairs)
    if not np.isfinite(values).all():
        return None
    features = pairs[0].astype(np.int32)
    if not labelled:
        ends[0] = 0
    return _Block(number_values(text, labels[:, : ends[0, -1]]), np.diff(ends[0]), features, values, np.diff(ends[1]))


def _rows(indices: NDArray[np.int32], counts: NDArray[np.int64]) -> csr_array:
    """Return a csr_array with elements in some columns, given the number of elements in each row."""
    return as_csr(None, indices, np.concatenate([[0], np.cumsum(counts)]), MAX_FEATURES + 1)


def _of_several_labels(points: _Block, path: str, note: Callable[[str], object]) -> Dataset:
    """Return the `Dataset` of points (`_Block`) with several labels, in single precision as in other formats."""
    first = int(points.features.min(initial=1) > 0)
    why = "none is 0; rows that count from 0 need a first line `N D K`" if first else "one is 0"
    note(f"{path}: labels are the numbers as they are; features count from {first}, as {why}")
    matrices = []
    for data, indices, counts in (
        (points.values.astype(np.float32), points.features - first, points.counts),
        (None, points.labels.astype(np.int32), points.label_counts),
    ):
        indptr = np.concatenate([[0], np.cumsum(counts)])
        matrices.append(as_csr(data, indices, indptr, int(indices.max(initial=-1)) + 1))
        matrices[-1].sort_indices()
    X, Y = matrices
    X.eliminate_zeros()
    return Dataset(Features(X), Y)


def _check_index(token: bytes, seen: set[int]) -> int:
    """Return a feature, which must not be among those `seen` in its line, and add it to them."""
    feature = _feature(token, 0)
    if feature in seen:
        raise ValueError(f"feature {feature} occurs twice")
    seen.add(feature)
    return feature


def _check_feature(token: bytes, earlier: list[int]) -> int:
    """Return a feature, which must follow those earlier in its line, and add it to them."""
    feature = _feature(token, 1)
    if feature == earlier[-1]:
        raise ValueError(f"feature {feature} occurs twice")
    if feature < earlier[-1]:
        raise ValueError(f"feature {feature} follows {earlier[-1]}, but features must increase")
    earlier.append(feature)
    return feature


def _feature(token: bytes, first: int) -> int:
    """Return the index of a feature; the lowest one is `first`."""
    if token == b"qid":
        raise ValueError("qid is not supported for binary data")
    digits = token.lstrip(b"0")
    if not token.isdigit() or (first and not digits):
        hint = " (in scikit-learn, use dump_svmlight_file with zero_based=False)" if token == b"0" else ""
        raise ValueError(f"{quote(token)} is not a feature index, an integer from {first}{hint}")
    if len(digits) > MAX_DIGITS or int(digits or b"0") > MAX_FEATURES:
        raise ValueError(f"feature {quote(token)} is above {MAX_FEATURES}, the highest index supported")
    return int(digits or b"0")
