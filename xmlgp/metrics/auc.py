"""The area under the ROC curve (AUC): how often a true label has a higher score than one that is not true.

AUC is computed from midranks, so time and memory grow with the listed scores and the positives, not with N·K.
"""

from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.stats import rankdata

from xmlgp.metrics.ranking import are_true, canonical, check_shapes, points_of
from xmlgp.metrics.statistics import Statistic, ratio
from xmlgp.runtime.errors import SettingsError

__all__ = ["auc_statistics", "pooled_area"]


def auc_statistics(scores: csr_array, labels: csr_array) -> dict[str, Statistic]:
    """Return the area under the ROC curve over all entries and per point, as statistics of the points.

    The area of a set of entries, P of them positive and M negative, is the share of pairs in the right order, where
    equal scores count one half,

        1/(P M) Σ_{i positive, j negative} [s_i > s_j] + ½ [s_i = s_j].

    Scores, N×K, that are not stored are equal to each other and below every score, including −∞. The true labels are a
    csr_array of bool, N×K. The result has `AUC_micro`, the area of all N·K entries, and `AUC_instance`, the mean over
    points of the area of the point's K entries, without points that have all labels or none. SettingsError is raised if
    the shapes disagree or an area is undefined.
    """
    pooled = pooled_area(scores, labels)
    if pooled is None:
        raise SettingsError("every point has all labels, or none has any, so AUC is undefined")
    return {"AUC_micro": pooled, "AUC_instance": _mean_area_of_points(scores, labels)}


def pooled_area(scores: csr_array, labels: csr_array) -> Statistic | None:
    """Return the area of all N·K entries, see `auc_statistics`; None without positives or without negatives.

    To first order, an area changes with the set of points as a mean over positives, of the share of negatives below,
    plus a mean over negatives, of the share of positives above, minus the area. Both follow from midranks among all
    entries and among those of the same kind [1].

    [1] DeLong, DeLong, Clarke-Pearson: Comparing the areas under two or more correlated receiver operating
    characteristic curves: a nonparametric approach, Biometrics 44, 1988.
    """
    scores, true = _listed_entries(scores, labels)
    N, K = scores.shape
    positives = labels.sum(axis=1)
    negatives = K - positives
    P = int(positives.sum())
    M = N * K - P
    if not (P and M):
        return None
    points = points_of(scores)
    ranks = rankdata(scores.data) + (N * K - scores.nnz)
    # Pairs that a positive wins and that a negative loses: listed ones, and those that are tied in the last place.
    unlisted = {kind: count - np.count_nonzero(true == kind) for kind, count in ((True, P), (False, M))}
    wins = ranks[true] - rankdata(scores.data[true]) - unlisted[True]
    losses = P - (ranks[~true] - rankdata(scores.data[~true]) - unlisted[False])
    unlisted_positives = positives - np.bincount(points[true], minlength=N)
    unlisted_negatives = negatives - np.bincount(points[~true], minlength=N)
    columns = [
        np.bincount(points[true], wins, N) + unlisted_positives * (unlisted[False] / 2),
        positives,
        np.bincount(points[~true], losses, N) + unlisted_negatives * (P - unlisted[True] / 2),
        negatives,
    ]
    area = columns[0].sum() / P / M
    return Statistic(np.column_stack(columns).astype(np.float64), partial(_area, P, M, area), most=1.0)


def _area(P: int, M: int, area: np.float64, sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the area to first order, given sums of wins, positives, losses and negatives, S×4."""
    wins, positives, losses, negatives = sums.T
    areas: NDArray[np.float64] = wins / positives / M + losses / negatives / P - area
    return areas


def _mean_area_of_points(scores: csr_array, labels: csr_array) -> Statistic:
    """Return the mean over points of the area of their K entries; SettingsError if no point has an area."""
    scores, true = _listed_entries(scores, labels)
    N, K = scores.shape
    points = points_of(scores)
    positives = labels.sum(axis=1)
    defined = (positives > 0) & (positives < K)
    if not defined.any():
        raise SettingsError("every point has all labels or none, so AUC_instance is undefined")
    unlisted = K - np.diff(scores.indptr)
    # Equal scores of a point have equal keys. There are fewer than 2^31 points, so keys do not overflow.
    distinct, places = np.unique(scores.data, return_inverse=True)
    ranks = rankdata(points * len(distinct) + places) - scores.indptr[points] + unlisted[points]
    unlisted_positives = positives - np.bincount(points[true], minlength=N)
    rank_sums = np.bincount(points[true], ranks[true], N) + unlisted_positives * (unlisted + 1) / 2
    wins = rank_sums - positives * (positives + 1) / 2
    areas = np.divide(wins, positives, out=np.zeros(N), where=defined)
    return ratio(areas / np.maximum(K - positives, 1), defined, 1.0, 1.0)


def _listed_entries(scores: csr_array, labels: csr_array) -> tuple[csr_array, NDArray[np.bool_]]:
    """Return scores, N×K, with sorted columns, and whether each stored one is of a true label."""
    check_shapes(scores, labels)
    scores = canonical(scores)
    return scores, are_true(scores, labels)
