"""Points as users give them, as models are trained on them, and as they are scored."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeGuard

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.data.dataset import Dataset
from xmlgp.data.dense_files import DenseRows
from xmlgp.runtime.errors import UsageError
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.labels import LabelNumbers
from xmlgp.text.names import Names

__all__ = [
    "Block",
    "FilePath",
    "Identifier",
    "LabelledPoints",
    "Matrix",
    "PointStream",
    "Signature",
    "TrainingData",
    "check_count",
    "is_matrix",
    "never",
]

FilePath: TypeAlias = "str | os.PathLike[str]"
Matrix: TypeAlias = "NDArray[Any] | sp.sparray | sp.spmatrix"

#: What identifies a document in its corpus.
Identifier: TypeAlias = "str | int"


class Signature(NamedTuple):
    """What a model expects of its points: names, D features, K labels, and E dense ones; a new model has none yet.

    `title` is what messages call the model, and `folder` where it is stored, if it is. `same` maps names of labels to
    preferred names, see `LabelNumbers`. `first_feature` is that of the training data, see `Dataset`.
    """

    names: Names
    D: int = 0
    K: int = 0
    E: int = 0
    title: str = "the model"
    folder: Path | None = None
    same: Mapping[str, str] | None = None
    first_feature: int | None = None

    @property
    def label_numbers(self) -> LabelNumbers:
        """The numbers of its labels, to which new names are added."""
        return LabelNumbers(self.names.labels or (), self.same or self.names.same)


class TrainingData(NamedTuple):
    """Points, the format of their file, `REPOSITORY` (also of text) or another one of rows, and their names."""

    dataset: Dataset
    format: str
    names: Names


class LabelledPoints(NamedTuple):
    """The true labels of points: Y, a csr_array of bool, N×K; K names or None; and N identifiers or None.

    D is the number of features. If `open`, there may be labels besides these K, which no point has. `lines` are those
    where documents start in their file, and `groups` theirs, as in `Dataset`.
    """

    labels: csr_array
    names: list[str] | None = None
    ids: Sequence[Identifier | None] | None = None
    D: int = 0
    open: bool = False
    lines: Sequence[int] = ()
    groups: list[int] | None = None


class Block(NamedTuple):
    """Consecutive points, each with its identifier or else its number, from 1; documents also have texts."""

    points: Dataset
    ids: Sequence[Identifier]
    texts: list[str] | None = None


def never() -> bool:
    """Return False: nothing waits for the next points."""
    return False


class PointStream:
    """Points with D features, E dense ones and K labels, read a block at a time.

    `shape` is N, D, K, where N may not be known yet, None. `labels` are the names of labels; later blocks may add names
    to the first K. `waits` returns whether no more points come for now. `without_words` counts the documents without a
    word of the model; it is complete once `blocks` has ended.
    """

    def __init__(
        self,
        shape: tuple[int | None, int, int],
        blocks: Iterable[Block],
        *,
        labels: list[str] | None = None,
        E: int = 0,
        waits: Callable[[], bool] = never,
        is_text: bool = False,
    ) -> None:
        self._N, self.D, self.K = shape
        self.E = E
        self.labels = labels
        self.waits = waits
        self.is_text = is_text
        self.without_words = 0
        self._blocks = blocks
        self._dense: DenseRows | None = None

    def add_dense(self, rows: DenseRows) -> None:
        """Add dense features from another file; SettingsError if there are not as many as points, if that is known."""
        self._dense = rows
        self.E = rows.array.shape[1]
        if self._N is not None:
            rows.check(self._N)

    def count(self) -> int:
        """Return the number of points; if only reading tells it, the blocks have no texts then."""
        if self._N is None:
            self._blocks = [block._replace(texts=None) for block in self._blocks]
            self._N = sum(block.points.N for block in self._blocks)
        return self._N

    def blocks(self) -> Iterator[Block]:
        """Yield the points; raise an error if there are not as many rows of dense features."""
        start = 0
        for block in self._blocks:
            if self.is_text:
                self.without_words += int(np.count_nonzero(np.diff(block.points.features.sparse.indptr) == 0))
            if self._dense:
                self._dense.check(start + block.points.N, more=True)
                block = block._replace(points=self._dense.beside(block.points, start))
            yield block
            start += block.points.N
        if self._dense:
            self._dense.check(start)


def is_matrix(data: object) -> TypeGuard[Matrix]:
    """Return whether data are a table: sparse, or of two dimensions, which lists and a Series of texts are not."""
    return bool(sp.issparse(data)) or len(getattr(data, "shape", ())) == 2


def check_count(name: str, number: object, other: str = "") -> None:
    """Raise UsageError if an option is neither a positive integer nor None; `other` names what else it may be."""
    if number is not None and (isinstance(number, bool) or not isinstance(number, Integral) or number < 1):
        raise UsageError(f"{name} must be a positive integer{other}, not {excerpt(number)}.")
