"""Contributions of features to utilities: which words speak for a label of a point, and which against it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.data.dataset import stack_rows
from xmlgp.prediction.scores_file import Scores
from xmlgp.runtime.errors import NumericalError

__all__ = ["Contributions", "Supporter"]


#: Features that contribute less than this share of the strongest say nothing, as "the" and "of" do.
LEAST_SHARE = 0.1


class Supporter(NamedTuple):
    """A training point near another one: its number from 0, k(x, x′), and the features of both, strongest first."""

    point: int
    similarity: float
    words: list[int]


@dataclass(eq=False)
class Contributions:
    """The contributions of features to the utilities of n pairs of a point and a label.

    The utility of a pair is the sum of `features`, n×D, and of the `rest`, which no feature contributes by itself: the
    "bias" of the label, what the regression on "neighbours" adds, and what the "text" of the label adds, each n, where
    the model has them. Features that the point does not have contribute nothing and are not stored.

    `text` is the number of the text of each label that adds most, or −1, n. `supporters` are the training points near
    the point of each pair that weigh most for its label. Models without them have None.
    """

    features: csr_array
    rest: dict[str, NDArray[np.floating]]
    text: NDArray[np.int32] | None = None
    supporters: list[list[Supporter]] | None = None

    @classmethod
    def stack(cls, parts: Sequence[Contributions]) -> Contributions:
        """Return the contributions of the pairs of all parts."""
        first = parts[0]
        return cls(
            stack_rows([part.features for part in parts]),
            {name: np.concatenate([part.rest[name] for part in parts]) for name in first.rest},
            None if first.text is None else np.concatenate([part.text for part in parts]),
            None if first.supporters is None else [one for part in parts for one in part.supporters or ()],
        )

    def check_finite(self, scores: Scores) -> None:
        """Raise NumericalError if a contribution to the utilities of these pairs is not finite."""
        finite = np.isfinite(sum(self.rest.values()))
        elements = np.flatnonzero(~np.isfinite(self.features.data))
        finite[np.searchsorted(self.features.indptr, elements, side="right") - 1] = False
        if not finite.all():
            pair = np.argmin(finite)
            point = np.searchsorted(scores.indptr, pair, side="right") - 1
            raise NumericalError(
                f"the contributions to the score of label {scores.labels[pair]} for point {point} are not finite"
            )

    def shares(self, pair: int) -> dict[str, float]:
        """Return what words and each part of the rest add to the utility of a pair, by name."""
        _, values = self._of_pair(pair)
        shares = {"words": float(values.sum(dtype=np.float64))}
        return shares | {
            name: float(self.rest[name][pair]) for name in ("neighbours", "text", "bias") if name in self.rest
        }

    def strongest(self, pair: int, count: int) -> tuple[list[tuple[int, float]], list[tuple[int, float]]]:
        """Return the features that speak most for the label of a pair, and those that speak most against it.

        Each list has at most `count` features with their contributions, the strongest first, equal ones by feature, and
        none that contributes less than `LEAST_SHARE` of the strongest.
        """
        features, values = self._of_pair(pair)
        sizes = np.abs(values)
        order = np.lexsort((features, -sizes))
        order = order[sizes[order] >= LEAST_SHARE * sizes.max(initial=0)]
        sides = (order[values[order] > 0][:count], order[values[order] < 0][:count])
        positive, negative = (list(zip(features[s].tolist(), values[s].tolist(), strict=True)) for s in sides)
        return positive, negative

    def _of_pair(self, pair: int) -> tuple[NDArray[np.integer], NDArray[np.floating]]:
        """Return the features of a pair and their contributions."""
        elements = slice(self.features.indptr[pair], self.features.indptr[pair + 1])
        return self.features.indices[elements], self.features.data[elements]
