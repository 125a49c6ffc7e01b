"""The scores file: scores of some or all labels for each point, in the sparse text format of the repository.

The first line is `N K`, the numbers of points and labels, of a ranking, and `N K assigned` where all listed labels are
assigned to their points. N lines follow, `label:score label:score ...` with the highest score first. In a file with
standard deviations all pairs are triples, `label:score:std`. Pairs are separated by spaces or tabs; the line of a point
without scores is empty. Blank lines may follow. Numbers are decimals as in data files, read in double precision;
standard deviations are not read.

Files of other programs are read too. Without the first line, each line is a point, as napkinXC writes them. Pairs may
be `label score` with tabs between them, as omikuji writes them.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
from collections.abc import Iterable
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.data.dataset import as_csr, stack_rows
from xmlgp.data.files import open_input
from xmlgp.data.lines import LineReader
from xmlgp.data.repository_format import INDEX_BOUND
from xmlgp.data.scanner import SCORES, scan_rows
from xmlgp.runtime.errors import DataFormatError, NumericalError
from xmlgp.runtime.untrusted_text import quote

__all__ = ["Scores", "read_open_scores", "read_scores", "write_scores"]

HEADER = re.compile(rb"[ \t]*([0-9]{1,18})[ \t]+([0-9]{1,18})(?:[ \t]+(assigned))?[ \t]*")

#: A pair with a standard deviation, which is not read.
DEVIATION = re.compile(rb"(?<!\S)([0-9]+:[^:\s]+):[-+.0-9eE]+(?!\S)")

#: A pair of omikuji, which writes scores with decimals.
SPACED = re.compile(rb"(?<!\S)([0-9]+) ([0-9]+\.[0-9]+)(?=\t|\r?\n)")

#: Labels are stored as 32-bit integers.
MOST_LABELS = INDEX_BOUND - 1

#: A float32 has seven significant digits.
NUMBER = "%.7g"


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
        blocks = blocks or [Scores(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0), 0)]
        indptr = np.cumsum(np.concatenate([[0], *(np.diff(block.indptr) for block in blocks)]))
        labels = np.concatenate([block.labels for block in blocks])
        scores = np.concatenate([block.scores for block in blocks])
        std = [block.std for block in blocks if block.std is not None]
        return Scores(indptr, labels, scores, blocks[0].K if K is None else K, np.concatenate(std) if std else None)

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
        block = block.descending()
        columns = [block.labels, block.scores] if block.std is None else [block.labels, block.scores, block.std]
        form = ":".join(["%d"] + [NUMBER] * (len(columns) - 1))
        for start, stop in itertools.pairwise(block.indptr.tolist()):
            pairs = zip(*(column[start:stop].tolist() for column in columns), strict=True)
            stream.write(" ".join([form % pair for pair in pairs]).encode() + b"\n")
        written += block.N
    if written != N:
        raise ValueError(f"scores of {written} points for a file of {N}")


def read_scores(path: str | os.PathLike[str]) -> Scores:
    """Read a scores file, compressed or not, or `-` for standard input, in the order of the file.

    DataFormatError names a malformed line.
    """
    path = os.fspath(path)
    with open_input(path) as stream:
        return read_open_scores(LineReader(stream, path))


def read_open_scores(reader: LineReader) -> Scores:
    """Read a scores file that is open at its first line, as `read_scores` does."""
    N, K, assigned = _read_header(reader) or (None, MOST_LABELS, False)
    parts = [csr_array((0, K))]
    for line, text in reader.blocks(N):
        # A line that begins with a blank has no labels of a data file.
        pairs = b" " + _as_pairs(text).replace(b"\n", b"\n ")
        rows = scan_rows(pairs[:-1], line, reader.path, K, 0, pair=SCORES)
        parts.append(rows.features)
    matrix = stack_rows(parts)
    if N is None:
        K = int(matrix.indices.max(initial=-1)) + 1
    return Scores(matrix.indptr, matrix.indices, matrix.data, K, assigned=assigned, open=N is None)


def _read_header(reader: LineReader) -> tuple[int, int, bool] | None:
    """Return N, K and whether labels are assigned; None if the first line is that of a point."""
    line = reader.peek_line().rstrip(b"\r\n")
    if not reader.peek_line():
        raise DataFormatError(reader.path, 1, "the file is empty")
    fields = HEADER.fullmatch(line)
    if fields is None:
        if not line.strip() or b":" in _as_pairs(line + b"\n"):
            return None
        expected = "two nonnegative integers `N K`, the numbers of points and labels"
        reason = f"the first line must be {expected}, not {quote(line)}; the scores come first, then the data"
        raise DataFormatError(reader.path, 1, reason)
    N, K = map(int, fields.groups()[:2])
    if K > MOST_LABELS:
        raise DataFormatError(reader.path, 1, f"{K} labels are more than the {MOST_LABELS} supported")
    reader.read_lines(1)
    return N, K, fields[3] is not None


def _as_pairs(text: bytes) -> bytes:
    """Return complete lines with pairs `label:score` alone, without standard deviations."""
    return DEVIATION.sub(rb"\1", text) if b":" in text else SPACED.sub(rb"\1:\2", text)
