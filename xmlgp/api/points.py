"""Points to be scored, a block at a time: rows of numbers, or documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from xmlgp.data.dataset import Dataset
from xmlgp.data.dense_files import DenseRows

__all__ = ["Block", "Identifier", "PointStream", "never"]

#: What identifies a document in its corpus.
Identifier: TypeAlias = "str | int"


class Block(NamedTuple):
    """Consecutive points; `first` is the number of the first one, counted from 1. Documents also have texts.

    Points may have identifiers, each perhaps None.
    """

    first: int
    points: Dataset
    texts: list[str] | None = None
    ids: Sequence[Identifier | None] | None = None

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

    `shape` is N, D, K, where N may not be known yet, None. `labels` are the names of labels; later blocks may add names
    to the first K. `waits` returns whether no more points come for now. `without_words` counts the documents without a
    known word; it is complete once `blocks` has ended.
    """

    def __init__(
        self,
        shape: tuple[int | None, int, int],
        blocks: Iterable[Block],
        *,
        labels: list[str] | None = None,
        E: int = 0,
        beside: DenseRows | None = None,
        waits: Callable[[], bool] = never,
        is_text: bool = False,
    ) -> None:
        self._N, self.D, self.K = shape
        self.labels = labels
        self.waits = waits
        self.is_text = is_text
        self.without_words = 0
        self.E = beside.array.shape[1] if beside else E
        self._blocks = blocks
        self._beside = beside

    def count(self) -> int:
        """Return the number of points; if only reading tells it, the blocks have neither texts nor identifiers then."""
        if self._N is None:
            self._blocks = [Block(block.first, block.points) for block in self._blocks]
            self._N = sum(block.points.N for block in self._blocks)
        if self._beside:
            self._beside.check(self._N)
        return self._N

    def blocks(self) -> Iterator[Block]:
        """Yield the points; raise an error if there are not as many rows of dense features `beside` them."""
        start = 0
        for block in self._blocks:
            if self.is_text:
                self.without_words += int(np.count_nonzero(np.diff(block.points.features.sparse.indptr) == 0))
            if self._beside:
                self._beside.check(start + block.points.N, more=True)
                block = block._replace(points=self._beside.beside(block.points, start))
            yield block
            start += block.points.N
        if self._beside:
            self._beside.check(start)
