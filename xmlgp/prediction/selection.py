"""Select the labels of highest score of each point, with memory for few labels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from xmlgp.data.features import Features
from xmlgp.prediction.parts import descending, label_blocks
from xmlgp.prediction.top_k import update_top_k

if TYPE_CHECKING:
    from xmlgp.prediction.predictor import Predictor, Prepared

__all__ = ["MAX_STREAMED", "Best", "searched_count", "select_best"]

#: Candidates for the top k labels, in multiples of k + 4. Points for which the first number may be too small are scored
#: again with the second: 1% of them with 20,000 labels, a third with 670,000. If the second may be too small as well,
#: every label is a candidate.
CANDIDATES = (4, 32)

#: The same where an index finds candidates, whose order lacks W x, for up to `FEW_LABELS` labels. Of 28,164 labels,
#: 0.996 of the five best are among the first 45, and 0.999 among the first 72. With K labels, they are
#: √(K / `FEW_LABELS`) times as many, because more labels are alike.
SEARCHED = 8
FEW_LABELS = 1 << 15

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


def select_best(
    predictor: Predictor,
    points: Prepared,
    features: Features,
    output: str,
    best: Best,
    counts: tuple[int, ...] | None = None,
) -> None:
    """Write the best labels of points, which are given as prepared and as read.

    If the predictor has candidates (`Predictor.candidates`), they are the best ones among these.
    `counts` has the numbers of candidates to try, in multiples of k + 4; default: `CANDIDATES`.
    """
    counts = CANDIDATES if counts is None else counts
    k = best.labels.shape[1]
    K = predictor.label_count
    if k > MAX_STREAMED:
        scores = np.empty((len(best.labels), K), predictor.dtype)
        for block in label_blocks(K):
            scores[:, block] = predictor.scores(points, block, output)
        order = descending(scores)[:, :k]
        best.labels[:] = order
        best.scores[:] = np.take_along_axis(scores, order, axis=1)
        return
    searched = predictor.candidates(points, searched_count(k, K), output)
    if searched is None:
        searched = predictor.best_labels(points, k, output)
    if searched is not None:
        _select_among(predictor, points, output, np.sort(searched, axis=1), best)
        # Where too few labels are found, because scores are not finite, all are scored.
        unfilled = np.flatnonzero((best.labels < 0).any(axis=1))
        if len(unfilled):
            rows = predictor.filled(features[unfilled])
            complete = Best.empty(rows.N, k, predictor.dtype)
            _stream(predictor, predictor.scores, predictor.prepare(rows, output, False), output, complete)
            best.labels[unfilled] = complete.labels[: len(unfilled)]
            best.scores[unfilled] = complete.scores[: len(unfilled)]
        return
    count = counts[0] * (k + 4) if counts and output in predictor.approximated else K
    if count >= K:
        _stream(predictor, predictor.scores, points, output, best)
        return
    candidates = Best.empty(len(best.labels), count, predictor.dtype)
    _stream(predictor, predictor.approximate_scores, points, output, candidates)
    candidates.labels.sort(axis=1)
    _select_among(predictor, points, output, candidates.labels, best)
    # No other label has a higher score than the last candidate can have. Comparisons with nan are false.
    unsure = np.flatnonzero(~(best.scores[:, -1] >= predictor.highest_scores(candidates.scores[:, -1])))
    if len(unsure):
        features = predictor.filled(features[unsure])
        longer = Best.empty(features.N, k, predictor.dtype)
        select_best(predictor, predictor.prepare(features, output, False), features, output, longer, counts[1:])
        best.labels[unsure] = longer.labels[: len(unsure)]
        best.scores[unsure] = longer.scores[: len(unsure)]


def searched_count(k: int, K: int) -> int:
    """Return the number of candidates for the k best of K labels where an index finds them."""
    return min(round(SEARCHED * (k + 4) * math.sqrt(max(1, K / FEW_LABELS))), K)


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
