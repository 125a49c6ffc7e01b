"""Measures of a ranking by how frequent labels are in training: by tenths of the pairs of a training point and a label.

So the first tenth has few labels with many training points each, and the last has many labels with few. Tenths of the
labels would say less: where most labels are rare, nine of ten would be the tail, and hold few of the true labels.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.metrics.macro import first_of_labelled
from xmlgp.metrics.ranking import are_true, check_shapes, points_of
from xmlgp.metrics.statistics import Statistic, ratio

__all__ = ["Decile", "decile_statistics", "frequency_deciles"]

#: Number of groups of labels.
DECILES = 10


class Decile(NamedTuple):
    """A tenth, from 1: its labels, their training points, such as "3-7", its true labels and measures (see below)."""

    decile: int
    labels: int
    training_points: str
    true: int
    statistics: dict[str, Statistic]


def frequency_deciles(counts: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the tenth of each label, K: 0 for the most frequent ones, 9 for the rarest, given their training points.

    Labels are in the tenth where the middle of their pairs is, so that a label is in one tenth only, and a tenth may be
    empty. Labels without training points are in the last.
    """
    order = np.argsort(-counts, kind="stable")
    ends = np.cumsum(counts[order])
    middles = ends - counts[order] / 2
    deciles = np.empty(len(counts), np.int64)
    deciles[order] = np.minimum(DECILES * middles / max(ends[-1], 1), DECILES - 1)
    return deciles


def decile_statistics(scores: csr_array, labels: csr_array, k: int, counts: NDArray[np.integer]) -> list[Decile]:
    """Return measures of each tenth that has labels, as statistics of the points, with values in percent.

    `P@k` is what the labels of the tenth add to P@k: the sum over tenths is P@k. `recall@k` is the share of the true
    labels of the tenth that are among the first k; a tenth without true labels has none. `counts` are the training
    points of each label, K; the other parameters are as for `evaluate_ranking`.
    """
    check_shapes(scores, labels)
    N = labels.shape[0]
    deciles = frequency_deciles(counts)
    top = first_of_labelled(scores, labels, k)
    is_hit = are_true(top, labels)
    labelled = np.diff(labels.indptr) > 0
    hits, true = (
        np.bincount(points * DECILES + deciles[columns], minlength=N * DECILES).reshape(N, DECILES)
        for points, columns in ((points_of(top)[is_hit], top.indices[is_hit]), (points_of(labels), labels.indices))
    )
    rows = []
    for decile in np.unique(deciles).tolist():
        frequencies = counts[deciles == decile]
        statistics = {f"P@{k}": ratio(hits[:, decile], k * labelled)}
        total = int(true[:, decile].sum())
        if total:
            statistics[f"recall@{k}"] = ratio(hits[:, decile], true[:, decile])
        range_of = "-".join(map(str, dict.fromkeys((frequencies.min(), frequencies.max()))))
        rows.append(Decile(decile + 1, len(frequencies), range_of, total, statistics))
    return rows
