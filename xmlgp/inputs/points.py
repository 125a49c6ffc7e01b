"""Points to be scored, a block at a time: rows of numbers, or documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from xmlgp.data.dataset import Dataset
from xmlgp.data.dense_files import DenseRows
from xmlgp.data.lines import LineReader
from xmlgp.data.spool import Numbering, Spool
from xmlgp.errors import DataFormatError
from xmlgp.text.documents import Document

__all__ = ["Block", "DocumentStream", "Identifier", "PointStream", "RowStream", "never"]

#: What identifies a document in its corpus.
Identifier: TypeAlias = "str | int"


class Block(NamedTuple):
    """Consecutive points; `first` is the number of the first one, counted from 1. Documents also have texts.

    Points may have identifiers, each perhaps None. A malformed point has no features, and its error is in `errors` by
    its row in the block.
    """

    first: int
    points: Dataset
    texts: list[str] | None = None
    ids: Sequence[Identifier | None] | None = None
    errors: Mapping[int, DataFormatError] = {}

    @property
    def identifiers(self) -> list[Identifier]:
        """The identifier of each point, or its number if it has none."""
        numbers = range(self.first, self.first + self.points.N)
        if self.ids is None:
            return list(numbers)
        return [number if id is None else id for number, id in zip(numbers, self.ids, strict=True)]


def never() -> bool:
    """Return False: nothing waits for the next points."""
    return False


class PointStream:
    """Points with D features and K labels, read a block at a time, perhaps with dense features `beside` them.

    `labels` are the names of labels; later blocks may add names to the first K. `waits` returns whether no more points
    come for now. `without_words` counts the documents without a known word; it is complete once `blocks` has ended.
    """

    is_text = False

    def __init__(
        self,
        D: int,
        K: int,
        labels: list[str] | None = None,
        widths: Sequence[int] = (),
        beside: DenseRows | None = None,
        waits: Callable[[], bool] = never,
    ) -> None:
        self.D = D
        self.K = K
        self.labels = labels
        self.waits = waits
        self.without_words = 0
        self.widths = [*widths, *(beside.dense.widths if beside else ())]
        self._beside = beside

    def count(self) -> int:
        """Return the number of points."""
        N = self._count()
        if self._beside:
            self._beside.check(N)
        return N

    def blocks(self) -> Iterator[Block]:
        """Yield the points; raise an error if there are not as many rows of dense features `beside` them."""
        start = 0
        for block in self._read_blocks():
            if self._beside:
                self._beside.check(start + block.points.N, more=True)
                block = block._replace(points=self._beside.beside(block.points, start))
            yield block
            start += block.points.N
        if self._beside:
            self._beside.check(start)

    def _count(self) -> int:
        raise NotImplementedError

    def _read_blocks(self) -> Iterator[Block]:
        raise NotImplementedError


class RowStream(PointStream):
    """Rows of numbers in a file.

    `shape` is N, D, K; each of the `blocks` is the number of its first line and its points.
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        blocks: Iterable[tuple[int, Dataset]],
        reader: LineReader,
        beside: DenseRows | None,
    ) -> None:
        self._N, D, K = shape
        super().__init__(D, K, beside=beside, waits=reader.waits)
        self._blocks = blocks
        self._errors = reader.errors

    def _count(self) -> int:
        return self._N

    def _read_blocks(self) -> Iterator[Block]:
        first = 1
        for line, points in self._blocks:
            errors = {}
            if self._errors:
                lines = {row: line + row for row in range(points.N)}
                errors = {row: self._errors.pop(number) for row, number in lines.items() if number in self._errors}
            yield Block(first, points, errors=errors)
            first += points.N


class PointsInMemory(PointStream):
    """One block of points, which may have texts and identifiers, with D features and K labels of a model."""

    def __init__(
        self,
        points: Dataset,
        K: int,
        labels: list[str] | None = None,
        texts: list[str] | None = None,
        ids: Sequence[Identifier] | None = None,
    ) -> None:
        super().__init__(points.D, K, labels, points.features.widths)
        self._block = Block(1, points, texts, ids)

    def _count(self) -> int:
        return self._block.points.N

    def _read_blocks(self) -> Iterator[Block]:
        yield self._block


class DocumentStream(PointStream):
    """Documents: `read` yields lists of them, each with their points, which leave out unknown words.

    Documents without a known word are counted only if the vectorizer `finds_words`.
    """

    is_text = True

    def __init__(
        self,
        read: Iterator[tuple[list[Document], Dataset]],
        D: int,
        labels: list[str],
        finds_words: bool,
        beside: DenseRows | None,
        waits: Callable[[], bool],
    ) -> None:
        super().__init__(D, len(labels), labels, beside=beside, waits=waits)
        self._blocks = self._of_documents(read, finds_words)
        self._spooled: tuple[Spool, dict[int, DataFormatError]] | None = None

    def _of_documents(self, read: Iterator[tuple[list[Document], Dataset]], finds_words: bool) -> Iterator[Block]:
        first = 1
        for documents, points in read:
            errors = {row: document.error for row, document in enumerate(documents) if document.error}
            if finds_words:
                self.without_words += int(np.count_nonzero(np.diff(points.features.sparse.indptr) == 0)) - len(errors)
            texts = [document.text for document in documents]
            yield Block(first, points, texts, [document.id for document in documents], errors)
            first += points.N

    def _count(self) -> int:
        """Read all documents to count them; from then on, blocks have neither texts nor identifiers."""
        spool = Spool()
        errors: dict[int, DataFormatError] = {}
        for block in self._blocks:
            errors |= {spool.N + row: error for row, error in block.errors.items()}
            spool.add(block.points)
        self._spooled = spool, errors
        return spool.N

    def _read_blocks(self) -> Iterator[Block]:
        if self._spooled is None:
            yield from self._blocks
            return
        spool, errors = self._spooled
        first = 1
        for points in spool.blocks(Numbering(None, self.D), Numbering(None, self.K)):
            rows = range(points.N)
            yield Block(
                first, points, errors={row: errors[first - 1 + row] for row in rows if first - 1 + row in errors}
            )
            first += points.N
