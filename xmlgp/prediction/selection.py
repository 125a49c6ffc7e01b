"""Select the labels of highest score of each point, with memory for few labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from xmlgp.prediction.parts import descending, label_blocks
from xmlgp.prediction.top_k import update_top_k

if TYPE_CHECKING:
    from xmlgp.prediction.predictor import Predictor, Prepared

__all__ = ["MAX_STREAMED", "Best", "select_best"]

#: The largest k for which top labels are selected block by block; for a larger k all labels are sorted.
MAX_STREAMED = 64


class Best(NamedTuple):
    """The k best labels of B points and their scores, both B×k: best first, equal scores by label."""

    labels: NDArray[np.int32]
    scores: NDArray[np.floating]

    @classmethod
    def of_all(
        cls, function: Callable[[slice], NDArray[np.floating]], count: int, K: int, k: int, dtype: DTypeLike
    ) -> Best:
        """Return the best of all K labels, given a function that returns the scores of a block, `count` points long."""
        best = cls(np.empty((count, k), np.int32), np.empty((count, k), dtype))
        best.update(function, K)
        return best

    def update(self, function: Callable[[slice], NDArray[np.floating]], K: int) -> None:
        """Write the best of all K labels, given a function that returns the scores of a block."""
        for block in label_blocks(K):
            update_top_k(function(block), block.start, *self)


def select_best(predictor: Predictor, points: Prepared, output: str, best: Best) -> None:
    """Write the best labels of prepared points.

    If the predictor knows labels among which they are (`Predictor.best_labels`), the others are not scored.
    """
    k = best.labels.shape[1]
    if k > MAX_STREAMED:
        scores = np.empty((len(best.labels), predictor.label_count), predictor.dtype)
        for block in label_blocks(predictor.label_count):
            scores[:, block] = predictor.scores(points, block, output)
        order = descending(scores)[:, :k]
        best.labels[:] = order
        best.scores[:] = np.take_along_axis(scores, order, axis=1)
        return
    among = predictor.best_labels(points, k, output)
    if among is None:
        best.update(lambda block: predictor.scores(points, block, output), predictor.label_count)
        return
    among = np.sort(among, axis=1)
    scores = predictor.scores_of(points, np.maximum(among, 0), output)
    scores[among < 0] = -np.inf
    order = descending(scores)[:, :k]
    # Too few labels are found only where scores are not finite, which the caller refuses.
    best.labels[:] = np.maximum(np.take_along_axis(among, order, axis=1), 0)
    best.scores[:] = np.take_along_axis(scores, order, axis=1)
