"""Measures of a ranking that count every label, or every point, alike: recall, coverage, and macro measures @k.

Coverage and macro measures are means over labels, so that a rare label counts as much as a frequent one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.errors import SettingsError
from xmlgp.metrics.ranking import are_true, canonical, check_shapes, points_of, ranks_of, top_entries
from xmlgp.metrics.statistics import Statistic, ratio

__all__ = ["first_of_labelled", "macro_statistics"]

#: What a label with true labels among the first k adds to a mean over labels, times 100, given the numbers of points
#: for which it is among them and true (right), among them (listed), and true.
_MEASURES: dict[str, Callable[..., NDArray[np.floating]]] = {
    "coverage": lambda right, listed, true: np.sign(right),
    "macro-precision": lambda right, listed, true: right / np.maximum(listed, 1),
    "macro-recall": lambda right, listed, true: right / np.maximum(true, 1),
    "macro-F1": lambda right, listed, true: 2 * right / np.maximum(listed + true, 1),
}


def macro_statistics(scores: csr_array, labels: csr_array, ks: Sequence[int] = (1, 3, 5)) -> dict[str, Statistic]:
    """Return measures of how well scores find all labels, as statistics of the points, with values in percent.

    Of a label l, Y is the number of points that have it, A of those that list it among their first k labels, and TP of
    those for which both is so. Points without labels are left out. These are means:

    - recall@k over points: the share of the true labels that are among the first k,
    - coverage@k over labels: 1 if TP > 0, otherwise 0,
    - macro-precision@k over labels: TP / A, or 0 if A is 0,
    - macro-recall@k over labels: TP / Y,
    - macro-F1@k over labels: 2 TP / (A + Y).

    Means over labels are over the K' labels that at least one point has. Other packages divide by all K labels; since
    the others have TP = 0, their values are these times K'/K.

    `scores`, `labels` and `ks` are as for `evaluate_ranking`, and so are the order of equal scores and SettingsError.
    """
    check_shapes(scores, labels)
    labels = canonical(labels)
    label_counts = np.diff(labels.indptr)
    if not labels.nnz:
        raise SettingsError("no point has a true label, so there is nothing to evaluate")
    N = labels.shape[0]
    top = first_of_labelled(scores, labels, max(ks))
    points = points_of(top)
    ranks = ranks_of(top)
    is_true = are_true(top, labels)
    statistics = {}
    for k in ks:
        hits = np.bincount(points[is_true & (ranks < k)], minlength=N)
        statistics[f"recall@{k}"] = ratio(hits / np.maximum(label_counts, 1), label_counts > 0)

    # A label without a hit adds 0 to each mean, so only those with one need their own sums.
    present = np.unique(labels.indices)
    right = np.unique(top.indices[is_true])
    P = len(present)
    H = len(right)
    can_hit = np.isin(top.indices, right)
    place = np.searchsorted(right, top.indices)
    rows = [points_of(labels)]
    columns = [np.searchsorted(present, labels.indices)]
    for block, k in enumerate(ks):
        listed = can_hit & (ranks < k)
        for offset, entries in enumerate((listed & is_true, listed)):
            rows.append(points[entries])
            columns.append(P + (2 * block + offset) * H + place[entries])
    pairs = np.concatenate(rows), np.concatenate(columns)
    sums_of = csr_array((np.ones(len(pairs[0])), pairs), shape=(N, P + 2 * H * len(ks)))
    places = np.searchsorted(present, right)
    for name in _MEASURES:
        for block, k in enumerate(ks):
            mean = partial(_mean_over_labels, name, places, P, P + 2 * block * H)
            statistics[f"{name}@{k}"] = Statistic(sums_of, mean, 100.0, is_mean=False)
    return statistics


def first_of_labelled(scores: csr_array, labels: csr_array, k: int) -> csr_array:
    """Return the k highest scores of each point that has a label, see `top_entries`, and none of other points."""
    top = top_entries(scores, k)
    lengths = np.where(labels.indptr[1:] > labels.indptr[:-1], np.diff(top.indptr), 0)
    kept = np.repeat(lengths > 0, np.diff(top.indptr))
    return csr_array((top.data[kept], top.indices[kept], np.concatenate([[0], np.cumsum(lengths)])), top.shape)


def _mean_over_labels(
    name: str, places: NDArray[np.intp], P: int, start: int, sums: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return 100 times the mean of a measure over the labels that a point has, for S sets of points.

    The first P sums are the numbers of points that have a label; `places` are those of the labels with a hit. From
    `start`, there are sums for these: of points for which they are right, and of points that list them.
    """
    true = sums[:, :P]
    right, listed = (sums[:, first : first + len(places)] for first in (start, start + len(places)))
    added = _MEASURES[name](right, listed, true[:, places]).sum(axis=1)
    means: NDArray[np.float64] = 100 * added / np.count_nonzero(true, axis=1)
    return means
