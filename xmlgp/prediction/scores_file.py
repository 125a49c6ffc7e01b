"""The scores file: scores of some or all labels for each point, in the sparse text format of the repository.

The first line is `N K`, the numbers of points and labels, of a ranking, and `N K assigned` where all listed labels are
assigned to their points. N lines follow, `label:score label:score ...` with the highest score first. In a file with
standard deviations all pairs are triples, `label:score:std`. Pairs are separated by spaces or tabs; the line of a point
without scores is empty. Blank lines may follow. Numbers are decimals as in a data file (`xmlgp.data.line_parser`), read
in double precision.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_array

from xmlgp.data.dataset import as_csr
from xmlgp.data.line_parser import DECIMAL, check_index, report_first_mistake
from xmlgp.data.lines import LineReader
from xmlgp.data.repository_format import INDEX_BOUND, MAX_HEADER_BYTES
from xmlgp.data.streams import open_input
from xmlgp.errors import NumericalError, ScoresFormatError
from xmlgp.runtime.progress import silent
from xmlgp.runtime.untrusted_text import quote

__all__ = ["Scores", "read_open_scores", "read_scores", "write_scores"]

HEADER = re.compile(rb"[ \t]*(\d+)[ \t]+(\d+)(?:[ \t]+(assigned))?[ \t]*\r?\n")
#: Pairs that are formatted at a time, to limit the memory of the text and its template.
PAIRS_WRITTEN = 1 << 16
#: A float32 has seven significant digits.
NUMBER = "%.7g"

#: The characters of numbers.
NUMERALS = b"0123456789+-.eE"
#: Tabs become spaces; characters that only Python regards as white space become invalid.
BLANKS = bytes.maketrans(b"\t\n\r\v\f", b"  ???")
COLONS = bytes.maketrans(b":", b" ")


@dataclasses.dataclass(frozen=True, eq=False)
class Scores:
    """Scores of some of the K labels for each of N points.

    `indptr`, N+1, says where each point starts in the other arrays: its scored labels, each at most once per point,
    their scores, and perhaps the standard deviations of these, n each. `assigned` says whether a file has the assigned
    labels of each point, not a ranking.
    """

    indptr: np.ndarray
    labels: np.ndarray
    scores: np.ndarray
    K: int
    std: np.ndarray | None = None
    assigned: bool = False

    @classmethod
    def from_top(cls, labels: np.ndarray, scores: np.ndarray, K: int, std: np.ndarray | None = None) -> Scores:
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
    def points(self) -> np.ndarray:
        """The point of each score, an ndarray of int, n."""
        return np.repeat(np.arange(self.N), np.diff(self.indptr))

    def table(self) -> np.ndarray:
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
        return self._select(indptr - indptr[0], slice(indptr[0], indptr[-1]))

    def descending(self) -> Scores:
        """Return the scores with the highest of each point first, equal scores by label."""
        return self._select(self.indptr, np.lexsort((self.labels, -self.scores, self.points)))

    def first(self, counts: np.ndarray) -> Scores:
        """Return the scores that are listed first: so many of each point, an ndarray of int, N."""
        return self.gather(self.indptr[:-1], counts)

    def gather(self, starts: np.ndarray, counts: np.ndarray) -> Scores:
        """Return the scores of points whose scores start at these places of the arrays, and are so many, both N."""
        indptr = np.concatenate([[0], np.cumsum(counts)])
        return self._select(indptr, np.arange(indptr[-1]) + np.repeat(starts - indptr[:-1], counts))

    @staticmethod
    def stack(blocks: list[Scores], K: int | None = None) -> Scores:
        """Return the points of all blocks in one object, by default of as many labels as the first has.

        K is needed if there may be no block.
        """
        if not blocks:
            return Scores(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0), K)
        lengths = np.concatenate([np.diff(block.indptr) for block in blocks])
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        labels, scores = (np.concatenate([getattr(block, name) for block in blocks]) for name in ("labels", "scores"))
        # Blocks before the first pair of a file have none.
        std = [block.std for block in blocks if block.std is not None]
        return Scores(indptr, labels, scores, blocks[0].K if K is None else K, np.concatenate(std) if std else None)

    def where(self, kept: np.ndarray) -> Scores:
        """Return the scores that are `kept`, an ndarray of bool, n, of the same points."""
        indptr = np.concatenate([[0], np.cumsum(np.bincount(self.points[kept], minlength=self.N))])
        return self._select(indptr, kept)

    def check_finite(self, first_point: int = 0) -> None:
        """Raise NumericalError if a score or std is not finite; the first point has this number in the message."""
        finite = np.isfinite(self.scores) & (True if self.std is None else np.isfinite(self.std))
        if not finite.all():
            place = np.argmin(finite)
            point = first_point + np.searchsorted(self.indptr, place, side="right") - 1
            raise NumericalError(f"the score of label {self.labels[place]} for point {point} is not finite")

    def _select(self, indptr, pairs):
        std = None if self.std is None else self.std[pairs]
        labels = self.labels[pairs]
        scores = self.scores[pairs]
        return dataclasses.replace(self, indptr=indptr, labels=labels, scores=scores, std=std)


def write_scores(stream, N, K, blocks, assigned=False):
    """Write a scores file of N points and K labels into a binary file, a block of points (`Scores`) at a time.

    The header says whether the labels are assigned. All blocks have standard deviations or none has. The labels of a
    point can be in any order. NumericalError is raised if a score is not finite.
    """
    stream.write(b"%d %d%b\n" % (N, K, b" assigned" * assigned))
    written = 0
    for block in blocks:
        block.check_finite(written)
        for rows in block.slices(PAIRS_WRITTEN):
            stream.write(_format(block.rows(rows.start, rows.stop).descending()))
        written += block.N
    if written != N:
        raise ValueError(f"scores of {written} points for a file of {N}")


def read_scores(path, progress=silent):
    """Read a scores file, a gzip file named `.gz`, or `-` for standard input (`Scores`), in the order of the file.

    If it is malformed, DataFormatError names the line: a `ScoresFormatError`, except for damage of the compression.
    """
    path = os.fspath(path)
    with open_input(path) as stream:
        return read_open_scores(LineReader(stream, path), progress)


def read_open_scores(reader, progress=silent):
    """Read a scores file that is open (`LineReader` at the first line), as `read_scores` does."""
    path = reader.path
    N, K, assigned = _parse_header(reader.read_lines(1), path)
    blocks = []
    with progress(f"reading {path}", total=N, unit=" points") as bar:
        for block in _read_blocks(reader, N, K, path):
            blocks.append(block)
            bar.update(block.N)
    return dataclasses.replace(Scores.stack(blocks, K), assigned=assigned)


def _read_blocks(reader, N, K, path):
    """Yield the scores of the N points that follow the first line, a block at a time."""
    columns = None
    missing = N
    while missing:
        line = reader.line_number
        text = reader.read_lines(missing)
        if not text:
            reason = f"the file ends after {N - missing} points, but its first line declares {N}"
            raise ScoresFormatError(path, line, reason)
        # The first pair of the file shows whether it has standard deviations.
        if columns is None and (first := text.split(None, 1)[:1]):
            columns = 3 if first[0].count(b":") == 2 else 2
        block = _parse_block(text, K, columns or 2)
        if block is None:
            check_line = functools.partial(_check_line, K=K, columns=columns or 2)
            report_first_mistake(text, path, line, check_line, ScoresFormatError)
        missing -= block.N
        yield block
    if line := reader.skip_blank_lines():
        raise ScoresFormatError(path, line, f"the file has more points than the {N} that its first line declares")


def _parse_header(text, path):
    """Return N and K, and whether labels are assigned."""
    if not text:
        raise ScoresFormatError(path, 1, "the file is empty")
    fields = HEADER.fullmatch(text) if len(text) <= MAX_HEADER_BYTES else None
    if not fields:
        found = quote(text.rstrip(b"\r\n"))
        words = text.split()
        if len(words) == 3 and all(map(bytes.isdigit, words)):
            advice = ", as data have; the scores come first, then the data"
        else:
            advice = ", the numbers of points and labels" * (b":" in text)
        raise ScoresFormatError(path, 1, f"the first line must be two nonnegative integers `N K`, not {found}{advice}")
    N, K = map(int, fields.groups()[:2])
    if K >= INDEX_BOUND:
        raise ScoresFormatError(path, 1, f"{K} labels are more than the {INDEX_BOUND - 1} supported")
    return N, K, fields[3] is not None


def _parse_block(text, K, columns):
    """Return the scores in complete lines, or None if they are malformed."""
    plain = text.replace(b"\r\n", b"\n").translate(BLANKS)
    n_pairs = len(plain.split())
    # A pair without the characters of numbers is its colons; the number of tokens shows that no number is missing.
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
    places = np.sort(np.repeat(np.arange(len(indptr) - 1) * K, np.diff(indptr)) + labels)
    if np.any(places[1:] == places[:-1]):
        return None
    return Scores(indptr, labels, numbers[:, 1].copy(), K, numbers[:, 2].copy() if columns == 3 else None)


def _check_line(line, K, columns):
    """Raise ValueError that says what is wrong with a line."""
    form = "label:score:std, like the first pair of the file" if columns == 3 else "a label:score pair"
    seen = set()
    for pair in line.split():
        label, *numbers = pair.split(b":")
        if len(numbers) != columns - 1:
            raise ValueError(f"{quote(pair)} is not {form}")
        index = check_index(label, K, "label", seen)
        for number in numbers:
            if not DECIMAL.fullmatch(number) or not np.isfinite(float(number)):
                raise ValueError(f"label {index} has {quote(number)} instead of a finite decimal number")


def _format(block):
    """Return the lines of some points."""
    columns = [block.labels, block.scores] if block.std is None else [block.labels, block.scores, block.std]
    pair = ":".join(["%d"] + [NUMBER] * (len(columns) - 1))
    lengths = np.diff(block.indptr)
    template_of = {length: " ".join([pair] * length) + "\n" for length in np.unique(lengths).tolist()}
    values = [None] * (len(columns) * len(block.labels))
    for place, column in enumerate(columns):
        values[place :: len(columns)] = column.tolist()
    return ("".join(map(template_of.get, lengths.tolist())) % tuple(values)).encode()
