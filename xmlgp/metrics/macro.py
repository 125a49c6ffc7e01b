"""Measures of a ranking that count every label, or every point, alike: recall, coverage, and macro measures @k.

Coverage and macro measures are means over labels, so that a rare label counts as much as a frequent one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from xmlgp.metrics.assignment import share_of, without_unused_labels
from xmlgp.metrics.ranking import check_labelled, ranks_of, top_entries
from xmlgp.metrics.statistics import Statistic, ratio

__all__ = ["macro_statistics"]

#: The names of the means over labels.
_MEANS = ("coverage", "macro-precision", "macro-recall", "macro-F1")


def macro_statistics(scores: csr_array, labels: csr_array, ks: Sequence[int] = (1, 3, 5)) -> dict[str, Statistic]:
    """Return measures of how well scores find all labels, as statistics of the points, with values in percent.

    Of a label l, Y is the number of points that have it, A of those that list it among their first k labels, and TP of
    those for which both is so. These are means:

    - recall@k over points: the share of the true labels that are among the first k, or 0 if a point has none,
    - coverage@k over labels: 1 if TP > 0, otherwise 0,
    - macro-precision@k over labels: TP / A, or 0 if A is 0,
    - macro-recall@k over labels: TP / Y,
    - macro-F1@k over labels: 2 TP / (A + Y).

    Means over labels are over the K' labels that at least one point has. Other packages divide by all K labels; since
    the others have TP = 0, their values are these times K'/K.

    `scores`, `labels` and `ks` are as for `ranking_statistics`, and so are the order of equal scores and SettingsError.
    """
    check_labelled(scores, labels)
    top = top_entries(scores, max(ks))
    top, true = without_unused_labels(top, labels)
    ranks = ranks_of(top)
    label_counts = np.diff(true.indptr)
    blocks = []
    statistics = {}
    for k in ks:
        first = csr_array(((ranks < k).astype(float), top.indices, top.indptr), top.shape, copy=True)
        first.eliminate_zeros()
        hits = first * true
        statistics[f"recall@{k}"] = ratio(hits.sum(axis=1) / np.maximum(label_counts, 1), np.ones(len(label_counts)))
        blocks += [hits, first]
    # A label without a hit adds 0 to each mean, so only those with one need their own sums.
    present = np.flatnonzero(true.sum(axis=0))
    right = np.flatnonzero(sum(hits.sum(axis=0) for hits in blocks[::2]))
    sums_of = hstack([true[:, present], *(block[:, right] for block in blocks)], format="csr")
    positions = np.searchsorted(present, right)
    for name in _MEANS:
        for block, k in enumerate(ks):
            mean = partial(_mean_over_labels, name, positions, len(present), block)
            statistics[f"{name}@{k}"] = Statistic(sums_of, mean, 100.0)
    return statistics


def _mean_over_labels(
    name: str, positions: NDArray[np.intp], count: int, block: int, sums: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return 100 times the mean of a measure over the labels that a point has, for S sets of points.

    The first sums, as many as `count`, are the numbers of points that have a label; `positions` are those of the labels
    with a hit. Each block has sums for these: of points for which they are right, and of points that list them.
    """
    true = sums[:, :count]
    start = count + 2 * block * len(positions)
    right, predicted = np.split(sums[:, start : start + 2 * len(positions)], 2, axis=1)
    if name == "coverage":
        added = np.sign(right)
    else:
        added = share_of(name.removeprefix("macro-"), right, predicted, true[:, positions])
    means: NDArray[np.float64] = 100 * added.sum(axis=1) / np.count_nonzero(true, axis=1)
    return means
