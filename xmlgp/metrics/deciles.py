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
from xmlgp.metrics.ranking import check_shapes
from xmlgp.metrics.statistics import Statistic, ratio

__all__ = ["Decile", "decile_statistics", "frequency_deciles"]

#: Number of groups of labels.
DECILES = 10


class Decile(NamedTuple):
    """A tenth, from 1: the number of its labels, their training points, such as "3-7", and its true labels.

    Of its `statistics`, whose values are in percent, `P@k` is what the labels add to P@k: the sum over tenths is P@k.
    `recall@k` is the share of the true labels that are among the first k; a tenth without true labels has none.
    """

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
    """Return the measures of each tenth that has labels, as statistics of the points.

    `counts` are the training points of each label, K; the other parameters are as for `evaluate_ranking`.
    """
    check_shapes(scores, labels)
    deciles = frequency_deciles(counts)
    in_tenth = csr_array((np.ones(len(counts)), deciles, np.arange(len(counts) + 1)), shape=(len(counts), DECILES))
    true = (labels @ in_tenth).toarray()
    hits = ((first_of_labelled(scores, labels, k) * labels) @ in_tenth).toarray()
    rows = []
    for tenth in np.unique(deciles).tolist():
        frequencies = counts[deciles == tenth]
        statistics = {f"P@{k}": ratio(hits[:, tenth], k * true.any(axis=1))}
        total = int(true[:, tenth].sum())
        if total:
            statistics[f"recall@{k}"] = ratio(hits[:, tenth], true[:, tenth])
        range_of = "-".join(map(str, dict.fromkeys((frequencies.min(), frequencies.max()))))
        rows.append(Decile(tenth + 1, len(frequencies), range_of, total, statistics))
    return rows
