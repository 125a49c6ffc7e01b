"""Contributions of features to utilities: which words speak for a label of a point, and which against it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from xmlgp.data.features import Features
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.prediction.scores_file import Scores
from xmlgp.runtime.errors import NumericalError

__all__ = ["Contributions", "Supporter"]


class Supporter(NamedTuple):
    """A training point near another one: its number from 0, k(x, x′), and the features of both, strongest first."""

    point: int
    similarity: float
    words: list[int]


@dataclass(frozen=True, eq=False)
class Contributions:
    """The contributions of features to the utilities of n pairs of a point and a label.

    The utility of pair j is the sum of the contributions of the point's sparse features, such as words, and of a
    rest:

        utility_j = Σ_e values[e] + rest[j],    indptr[j] ≤ e < indptr[j + 1]

    `features` has the features of the point of each pair, in the order of the point, and `values` their contributions.
    Features that the point does not have contribute nothing, and are not listed. The rest is the bias of the label, and
    what the regression on neighbours adds, which is None without it, and what the texts of labels add, which is None
    without them; `text` is the number of the text of each label that adds most, or −1.
    """

    indptr: NDArray[np.int64]
    features: NDArray[np.int32]
    values: NDArray[np.floating]
    bias: NDArray[np.floating]
    neighbours: NDArray[np.floating] | None = None
    texts: NDArray[np.floating] | None = None
    text: NDArray[np.int32] | None = None

    @classmethod
    def unset(
        cls, features: Features, scores: Scores, dtype: DTypeLike, pooled: bool = False, has_texts: bool = False
    ) -> Contributions:
        """Return contributions for the pairs of `Scores`, whose arrays are yet to be written.

        Neighbours have them if utilities are `pooled` with theirs, and texts if the model `has_texts`.
        """
        counts = np.repeat(np.diff(features.sparse.indptr), np.diff(scores.indptr))
        indptr = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        columns = np.empty(indptr[-1], np.int32)
        n = len(counts)
        _repeat_rows(features.sparse.indptr, features.sparse.indices, scores.indptr, columns)
        neighbours = np.zeros(n, dtype) if pooled else None
        texts = np.zeros(n, dtype) if has_texts else None
        text = np.full(n, -1, np.int32) if has_texts else None
        return cls(indptr, columns, np.empty(len(columns), dtype), np.empty(n, dtype), neighbours, texts, text)

    @property
    def rest(self) -> NDArray[np.floating]:
        """What no feature of the point contributes by itself, n: the bias of the label, neighbours and texts."""
        others = (part for part in (self.neighbours, self.texts) if part is not None)
        return sum(others, self.bias)

    def of_pairs(self, pairs: slice) -> Contributions:
        """Return the contributions to the utilities of the pairs in a slice, with views of the arrays."""
        indptr = self.indptr[pairs.start : pairs.stop + 1]
        elements = slice(indptr[0], indptr[-1])
        return Contributions(
            indptr - indptr[0],
            self.features[elements],
            self.values[elements],
            self.bias[pairs],
            None if self.neighbours is None else self.neighbours[pairs],
            None if self.texts is None else self.texts[pairs],
            None if self.text is None else self.text[pairs],
        )

    def check_finite(self, scores: Scores) -> None:
        """Raise NumericalError if a contribution to the utilities of these pairs is not finite."""
        finite = np.isfinite(self.rest)
        elements = np.flatnonzero(~np.isfinite(self.values))
        finite[np.searchsorted(self.indptr, elements, side="right") - 1] = False
        if not finite.all():
            pair = np.argmin(finite)
            point = np.searchsorted(scores.indptr, pair, side="right") - 1
            raise NumericalError(
                f"the contributions to the score of label {scores.labels[pair]} for point {point} are not finite"
            )

    def shares(self, pair: int) -> dict[str, float]:
        """Return what words, neighbours, texts and the bias add to the utility of pair j, by name."""
        words = self.values[self.indptr[pair] : self.indptr[pair + 1]].sum(dtype=np.float64)
        shares = {"words": float(words)}
        if self.neighbours is not None:
            shares["neighbours"] = float(self.neighbours[pair])
        if self.texts is not None:
            shares["text"] = float(self.texts[pair])
        return {**shares, "bias": float(self.bias[pair])}

    def strongest(self, pair: int, count: int) -> tuple[list[tuple[int, float]], list[tuple[int, float]]]:
        """Return the features that speak most for the label of pair j, and those that speak most against it.

        Each list has at most `count` features with their contributions, the strongest first, equal ones by feature.
        """
        elements = slice(self.indptr[pair], self.indptr[pair + 1])
        features = self.features[elements]
        values = self.values[elements]
        order = np.lexsort((features, -np.abs(values)))
        sides = (order[values[order] > 0][:count], order[values[order] < 0][:count])
        positive, negative = (list(zip(features[s].tolist(), values[s].tolist(), strict=True)) for s in sides)
        return positive, negative


@compiled
def _repeat_rows(
    indptr: NDArray[np.integer], indices: NDArray[np.integer], pairs: NDArray[np.integer], out: NDArray[np.int32]
) -> None:
    """Write the features of each point once for each of its pairs."""
    position = 0
    for i in range(indptr.size - 1):
        for _ in range(pairs[i], pairs[i + 1]):
            for e in range(indptr[i], indptr[i + 1]):
                out[position] = indices[e]
                position += 1
