"""The scores file: scores of some or all labels for each point, in the sparse text format of the repository.

The first line is `N K`, the numbers of points and labels, of a ranking, and `N K assigned` where all listed labels are
assigned to their points. N lines follow, `label:score label:score ...` with the highest score first. In a file with
standard deviations all pairs are triples, `label:score:std`. Pairs are separated by spaces or tabs; the line of a point
without scores is empty. Blank lines may follow. Numbers are decimals as in data files, read in double
precision.

Files of other programs are read too. Without the first line, each line is a point, as napkinXC writes them. Pairs may
be `label score` with tabs between them, as omikuji writes them.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.data.dataset import as_csr
from xmlgp.data.lines import LineReader
from xmlgp.data.repository_format import INDEX_BOUND, MAX_HEADER_BYTES
from xmlgp.data.streams import open_input
from xmlgp.runtime.errors import NumericalError, ScoresFormatError
from xmlgp.runtime.progress import Progress, silent
from xmlgp.runtime.untrusted_text import quote

__all__ = ["Scores", "read_open_scores", "read_scores", "write_scores"]

HEADER = re.compile(rb"[ \t]*(\d+)[ \t]+(\d+)(?:[ \t]+(assigned))?[ \t]*\r?\n")

#: The start of a line of omikuji, which writes scores with decimals.
SPACED = rb"[ \t]*\d+ \d+\.\d+[\t\r\n]"

#: The start of the first line of a file without `N K`, which is that of a point, perhaps one without scores.
POINT = re.compile(rb"[ \t]*(?:\d+:|\r?\n)|" + SPACED)

#: Pairs that are formatted at a time, to limit the memory of the text and its template.
PAIRS_WRITTEN = 1 << 16

#: A float32 has seven significant digits.
NUMBER = "%.7g"

#: The characters of numbers.
NUMERALS = b"0123456789+-.eE"

#: Tabs become spaces; characters that only Python regards as white space become invalid.
BLANKS = bytes.maketrans(b"\t\n\r\v\f", b"  ???")

COLONS = bytes.maketrans(b":", b" ")

#: Makes the pairs of omikuji those of a scores file.
AS_PAIRS = bytes.maketrans(b" \t", b": ")


@dataclasses.dataclass(frozen=True, eq=False)
class Scores:
    """Scores of some of the K labels for each of N points.

    `indptr`, N+1, says where each point starts in the other arrays: its scored labels, each at most once per point,
    their scores, and perhaps the standard deviations of these, n each. `assigned` says whether a file has the assigned
    labels of each point, not a ranking; `open`, whether it does not say how many labels there are, so that K is only
    one more than the highest.
    """

    indptr: NDArray[np.integer]
    labels: NDArray[np.int32]
    scores: NDArray[np.floating]
    K: int
    std: NDArray[np.floating] | None = None
    assigned: bool = False
    open: bool = False

    @classmethod
    def from_top(
        cls, labels: NDArray[np.int32], scores: NDArray[np.floating], K: int, std: NDArray[np.floating] | None = None
    ) -> Scores:
        """Return scores of the same number of labels for every point, given labels, scores and perhaps std, N×k."""
        indptr = np.arange(len(labels) + 1, dtype=np.int64) * labels.shape[1]
        return cls(indptr, np.ravel(labels), np.ravel(scores), K, None if std is None else np.ravel(std))

    @property
    def N(self) -> int:
        """Number of points."""
        return len(self.indptr) - 1

    @property
    def matrix(self) -> csr_array:
        """The scores as a csr_array, N×K; scores of 0 are stored."""
        return as_csr(self.scores, self.labels, self.indptr, self.K)

    @property
    def points(self) -> NDArray[np.intp]:
        """The point of each score, n."""
        return np.repeat(np.arange(self.N), np.diff(self.indptr))

    def table(self) -> NDArray[np.floating]:
        """Return the scores of each point in a row, N×k, with zeros after lists that are shorter than the longest."""
        lengths = np.diff(self.indptr)
        k = int(lengths.max(initial=0))
        if len(self.scores) == self.N * k:
            return self.scores.reshape(self.N, k)
        table = np.zeros((self.N, k), self.scores.dtype)
        table[np.arange(k) < lengths[:, None]] = self.scores
        return table

    def slices(self, most: int) -> Iterator[slice]:
        """Yield slices of points that together have at most so many scores, or are one point."""
        step = max(1, most // int(np.diff(self.indptr).max(initial=1)))
        for start in range(0, self.N, step):
            yield slice(start, min(start + step, self.N))

    def rows(self, start: int, stop: int) -> Scores:
        """Return the scores of the points in range(start, stop)."""
        indptr = self.indptr[start : stop + 1]
        return self.select(indptr - indptr[0], slice(indptr[0], indptr[-1]))

    def descending(self) -> Scores:
        """Return the scores with the highest of each point first, equal scores by label."""
        return self.select(self.indptr, np.lexsort((self.labels, -self.scores, self.points)))

    def first(self, counts: NDArray[np.integer]) -> Scores:
        """Return the first scores of each point; `counts`, N, says how many."""
        return self.gather(self.indptr[:-1], counts)

    def gather(self, starts: NDArray[np.integer], counts: NDArray[np.integer]) -> Scores:
        """Return the scores of N points, given the position of the first one of each, and their numbers, both N."""
        indptr = np.concatenate([[0], np.cumsum(counts)])
        return self.select(indptr, np.arange(indptr[-1]) + np.repeat(starts - indptr[:-1], counts))

    @staticmethod
    def stack(blocks: list[Scores], K: int | None = None) -> Scores:
        """Return the points of all blocks in one object; K is by default that of the first, 0 without any."""
        if not blocks:
            return Scores(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0), K or 0)
        lengths = np.concatenate([np.diff(block.indptr) for block in blocks])
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        labels, scores = (np.concatenate([getattr(block, name) for block in blocks]) for name in ("labels", "scores"))
        # The blocks before the first pair of a file have no standard deviations.
        std = [block.std for block in blocks if block.std is not None]
        return Scores(indptr, labels, scores, blocks[0].K if K is None else K, np.concatenate(std) if std else None)

    def where(self, mask: NDArray[np.bool_]) -> Scores:
        """Return the scores of the same points that a mask selects, n."""
        indptr = np.concatenate([[0], np.cumsum(np.bincount(self.points[mask], minlength=self.N))])
        return self.select(indptr, mask)

    def check_finite(self, first_point: int = 0) -> None:
        """Raise NumericalError if a score or std is not finite; the first point has this number in the message."""
        finite = np.isfinite(self.scores) & (True if self.std is None else np.isfinite(self.std))
        if not finite.all():
            pair = np.argmin(finite)
            point = first_point + np.searchsorted(self.indptr, pair, side="right") - 1
            raise NumericalError(f"the score of label {self.labels[pair]} for point {point} is not finite")

    def select(self, indptr: NDArray[np.integer], pairs: NDArray[Any] | slice) -> Scores:
        """Return some pairs of a point and a label in a new order, divided among points by `indptr`."""
        std = None if self.std is None else self.std[pairs]
        return dataclasses.replace(self, indptr=indptr, labels=self.labels[pairs], scores=self.scores[pairs], std=std)


def write_scores(stream: BinaryIO, N: int, K: int, blocks: Iterable[Scores], assigned: bool = False) -> None:
    """Write a scores file of N points and K labels into a binary file, a block of points (`Scores`) at a time.

    The header says whether the labels are assigned. All blocks have standard deviations or none has. The labels of a
    point can be in any order. NumericalError is raised if a score is not finite.
    """
    stream.write(f"{N} {K}{' assigned' if assigned else ''}\n".encode())
    written = 0
    for block in blocks:
        block.check_finite(written)
        for rows in block.slices(PAIRS_WRITTEN):
            stream.write(_format(block.rows(rows.start, rows.stop).descending()))
        written += block.N
    if written != N:
        raise ValueError(f"scores of {written} points for a file of {N}")


def read_scores(path: str | os.PathLike[str], progress: Progress = silent) -> Scores:
    """Read a scores file, compressed or not, or `-` for standard input, in the order of the file.

    If it is malformed, DataFormatError names the line: a `ScoresFormatError`, except for damage of the compression.
    """
    path = os.fspath(path)
    with open_input(path) as stream:
        return read_open_scores(LineReader(stream, path), progress)


def read_open_scores(reader: LineReader, progress: Progress = silent) -> Scores:
    """Read a scores file that is open at its first line, as `read_scores` does."""
    path = reader.path
    N: int | None = None
    K = INDEX_BOUND - 1
    assigned = False
    declared = not POINT.match(reader.peek_line())
    if declared:
        N, K, assigned = _parse_header(reader.read_lines(1), path)
    blocks = []
    with progress(f"reading {path}", total=N, unit=" points") as bar:
        for block in _read_blocks(reader, N, K):
            blocks.append(block)
            bar.update(block.N)
    scores = Scores.stack(blocks, K)
    if not declared:
        K = int(scores.labels.max(initial=-1)) + 1
    return dataclasses.replace(scores, K=K, assigned=assigned, open=not declared)


def _read_blocks(reader: LineReader, N: int | None, K: int) -> Iterator[Scores]:
    """Yield the scores of the next N points, or of all points, a block at a time."""
    path = reader.path
    columns: int | None = None
    spaced = False
    missing = sys.maxsize if N is None else N
    while missing:
        line = reader.line_number
        text = reader.read_lines(missing)
        if not text:
            if N is None:
                return
            reason = f"the file ends after {N - missing} points, but its first line declares {N}"
            raise ScoresFormatError(path, line, reason)
        # The first pair of the file shows how pairs are written, and whether they have standard deviations.
        if columns is None and (first := text.split(None, 1)[:1]):
            columns = 3 if first[0].count(b":") == 2 else 2
            spaced = bool(re.match(SPACED, text.lstrip()))
        if spaced:
            text = text.translate(AS_PAIRS)
        block = _parse_block(text, K, columns or 2)
        if block is None:
            raise _mistake(text, path, line, K, columns or 2)
        missing -= block.N
        yield block
    if extra := reader.skip_blank_lines():
        raise ScoresFormatError(path, extra, f"the file has more points than the {N} that its first line declares")


def _parse_header(text: bytes, path: str) -> tuple[int, int, bool]:
    """Return N and K, and whether labels are assigned."""
    if not text:
        raise ScoresFormatError(path, 1, "the file is empty")
    fields = HEADER.fullmatch(text) if len(text) <= MAX_HEADER_BYTES else None
    if not fields:
        words = text.split()
        advice = ""
        if len(words) == 3 and all(map(bytes.isdigit, words)):
            advice = ", as data have; the scores come first, then the data"
        elif b":" in text:
            advice = ", the numbers of points and labels"
        line = quote(text.rstrip(b"\r\n"))
        raise ScoresFormatError(path, 1, f"the first line must be two nonnegative integers `N K`, not {line}{advice}")
    N, K = map(int, fields.groups()[:2])
    if K >= INDEX_BOUND:
        raise ScoresFormatError(path, 1, f"{K} labels are more than the {INDEX_BOUND - 1} supported")
    return N, K, fields[3] is not None


def _parse_block(text: bytes, K: int, columns: int) -> Scores | None:
    """Return the scores in complete lines, or None if they are malformed."""
    plain = text.replace(b"\r\n", b"\n").translate(BLANKS)
    n_pairs = len(plain.split())
    # Without the characters of numbers, a pair is its colons; the number of tokens shows that no number is missing.
    if plain.translate(None, NUMERALS).split() != [b":" * (columns - 1)] * n_pairs:
        return None
    tokens = plain.translate(COLONS).split()
    if len(tokens) != columns * n_pairs:
        return None
    if tokens and not b"".join(tokens[::columns]).isdigit():
        return None
    try:
        # Of tokens that consist of these characters, float() accepts those that the format allows.
        numbers = np.array(list(map(float, tokens))).reshape(-1, columns)
    except ValueError:
        return None
    if not np.isfinite(numbers).all() or np.any(numbers[:, 0] >= K):
        return None
    labels = numbers[:, 0].astype(np.int32)
    marks = np.frombuffer(text, np.uint8)
    marks = marks[(marks == ord(":")) | (marks == ord("\n"))] == ord("\n")
    colons_before = np.flatnonzero(marks) - np.arange(np.count_nonzero(marks))
    indptr = np.concatenate([[0], colons_before // (columns - 1)])
    pairs = np.sort(np.repeat(np.arange(len(indptr) - 1) * K, np.diff(indptr)) + labels)
    if np.any(pairs[1:] == pairs[:-1]):
        return None
    return Scores(indptr, labels, numbers[:, 1].copy(), K, numbers[:, 2].copy() if columns == 3 else None)


def _mistake(text: bytes, path: str, first: int, K: int, columns: int) -> ScoresFormatError:
    """Return the error of the first malformed line of a text whose first line has this number."""
    lines = enumerate(text.split(b"\n"), first)
    number, line = next((number, line) for number, line in lines if _parse_block(line + b"\n", K, columns) is None)
    pairs = line.removesuffix(b"\r").translate(BLANKS).split()
    wrong = next((pair for pair in pairs if _parse_block(pair + b"\n", K, columns) is None), None)
    if wrong is None:
        return ScoresFormatError(path, number, "a label occurs twice")
    form = "label:score:std, like the first pair of the file" if columns == 3 else "label:score"
    reason = f"{quote(wrong)} is not {form}, a label below {K} and a finite decimal number"
    return ScoresFormatError(path, number, reason)


def _format(block: Scores) -> bytes:
    """Return the lines of some points."""
    columns = [block.labels, block.scores] if block.std is None else [block.labels, block.scores, block.std]
    pair = ":".join(["%d"] + [NUMBER] * (len(columns) - 1))
    lengths = np.diff(block.indptr)
    template_of = {length: " ".join([pair] * length) + "\n" for length in np.unique(lengths).tolist()}
    values = zip(*[column.tolist() for column in columns], strict=True)
    template = "".join([template_of[length] for length in lengths.tolist()])
    return (template % tuple(itertools.chain.from_iterable(values))).encode()
