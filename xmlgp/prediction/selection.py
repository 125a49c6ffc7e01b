"""Select the labels of highest score of each point, with memory for few labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from xmlgp.data.features import Features
from xmlgp.prediction.parts import descending, label_blocks
from xmlgp.prediction.top_k import update_top_k

if TYPE_CHECKING:
    from xmlgp.prediction.predictor import Predictor, Prepared

__all__ = ["MAX_STREAMED", "Best", "select_best"]

#: Candidates for the top k labels, in multiples of k + 4. Points for which the first number may be too small are scored
#: again with the second: 1% of them with 20,000 labels, a third with 670,000. If the second may be too small as well,
#: every label is a candidate.
CANDIDATES = (4, 32)

#: The largest k for which top labels are selected block by block; for a larger k all labels are sorted.
MAX_STREAMED = 64


class Best(NamedTuple):
    """The k best labels of B points and their scores, both B×k: best first, equal scores by label."""

    labels: NDArray[np.int32]
    scores: NDArray[np.floating]

    @classmethod
    def empty(cls, count: int, k: int, dtype: DTypeLike) -> Best:
        """Return arrays to be written."""
        return cls(np.empty((count, k), np.int32), np.empty((count, k), dtype))


def select_best(predictor: Predictor, points: Prepared, features: Features, output: str, best: Best) -> None:
    """Write the best labels of points, which are given as prepared and as read.

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
        _select_of_all(predictor, points, features, output, best, CANDIDATES)
        return
    _select_among(predictor, points, output, np.sort(among, axis=1), best)
    # Where too few labels are found, because scores are not finite, all are scored.
    _select_again(predictor, features, output, best, np.flatnonzero((best.labels < 0).any(axis=1)), ())


def _select_of_all(
    predictor: Predictor, points: Prepared, features: Features, output: str, best: Best, counts: tuple[int, ...]
) -> None:
    """Write the best of all labels; `counts` has the numbers of candidates to try, in multiples of k + 4."""
    K = predictor.label_count
    count = counts[0] * (best.labels.shape[1] + 4) if counts and output in predictor.approximated else K
    if count >= K:
        _stream(predictor, predictor.scores, points, output, best)
        return
    candidates = Best.empty(len(best.labels), count, predictor.dtype)
    _stream(predictor, predictor.approximate_scores, points, output, candidates)
    candidates.labels.sort(axis=1)
    _select_among(predictor, points, output, candidates.labels, best)
    # No other label has a higher score than the last candidate can have. Comparisons with nan are false.
    unsure = np.flatnonzero(~(best.scores[:, -1] >= predictor.highest_scores(candidates.scores[:, -1])))
    _select_again(predictor, features, output, best, unsure, counts[1:])


def _select_again(
    predictor: Predictor, features: Features, output: str, best: Best, rows: NDArray[np.int64], counts: tuple[int, ...]
) -> None:
    """Write the best of all labels of the points in some rows."""
    if not len(rows):
        return
    features = predictor.filled(features[rows])
    again = Best.empty(features.N, best.labels.shape[1], predictor.dtype)
    _select_of_all(predictor, predictor.prepare(features, output, False), features, output, again, counts)
    best.labels[rows] = again.labels[: len(rows)]
    best.scores[rows] = again.scores[: len(rows)]


def _select_among(
    predictor: Predictor, points: Prepared, output: str, candidates: NDArray[np.int32], best: Best
) -> None:
    """Write those of highest score among some labels of each point, which are in ascending order; −1 is none."""
    scores = predictor.scores_of(points, np.maximum(candidates, 0), output)
    scores[candidates < 0] = -np.inf
    order = descending(scores)[:, : best.labels.shape[1]]
    best.labels[:] = np.take_along_axis(candidates, order, axis=1)
    best.scores[:] = np.take_along_axis(scores, order, axis=1)


def _stream(
    predictor: Predictor,
    function: Callable[[Prepared, slice, str], NDArray[np.floating]],
    points: Prepared,
    output: str,
    best: Best,
) -> None:
    """Write the labels for which `scores` or `approximate_scores` is highest, and its values."""
    for block in label_blocks(predictor.label_count):
        update_top_k(function(points, block, output), block.start, *best)
