"""The area under the ROC curve (AUC): how often a true label has a higher score than one that is not true.

AUC is computed from ranks, so time and memory grow with the listed scores and the positives, not with N·K.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.errors import SettingsError
from xmlgp.metrics.ranking import are_true, canonical, check_shapes, points_of

__all__ = ["multilabel_roc_auc", "roc_auc"]


def multilabel_roc_auc(scores: csr_array, labels: csr_array) -> dict[str, float]:
    """Compute the area under the ROC curve over all entries, per label and per point.

    The area of a set of entries, P of them positive and M negative, is the share of pairs in the right order, where
    equal scores count one half,

        1/(P M) Σ_{i positive, j negative} [s_i > s_j] + ½ [s_i = s_j].

    Scores, N×K, that are not stored are equal to each other and below every score, including −∞. The true labels are a
    csr_array of bool, N×K. The result has `AUC_micro`, the area of all N·K entries, `AUC_macro`, the mean over labels
    of the area of the label's N entries, and `AUC_instance`, the mean over points of the area of the point's K entries.
    Labels and points without positives or without negatives are left out of the means. SettingsError is raised if the
    shapes disagree, a score is NaN, or no label or no point has both positives and negatives.
    """
    check_shapes(scores, labels)
    if np.isnan(scores.data).any():
        raise SettingsError("a score is NaN, so the scores cannot be ranked")
    N, K = scores.shape
    scores = canonical(scores)
    labels = canonical(labels)
    points = points_of(scores)
    positive_points, positive_labels = labels.nonzero()
    true = are_true(scores, labels)
    ranks = np.unique(scores.data, return_inverse=True)[1]

    per_label = _areas(scores.indices, ranks, true, positive_labels, N)
    if not len(per_label):
        raise SettingsError("every label is true for all points or for none, so AUC_macro is undefined")
    per_point = _areas(points, ranks, true, positive_points, K)
    if not len(per_point):
        raise SettingsError("every point has all labels or none, so AUC_instance is undefined")
    # A label with positives and negatives exists, so all entries together have both.
    (micro,) = _areas(np.zeros_like(points), ranks, true, np.zeros_like(positive_points), N * K)
    return {"AUC_micro": float(micro), "AUC_macro": float(per_label.mean()), "AUC_instance": float(per_point.mean())}


def roc_auc(scores: NDArray[np.floating], true: NDArray[np.bool_]) -> float | None:
    """Compute the area under the ROC curve of n entries, given their scores and which are positive.

    See `multilabel_roc_auc`. The result is None without positives or without negatives.
    """
    ranks = np.unique(scores, return_inverse=True)[1]
    one_group = np.zeros(len(ranks), dtype=np.int64)
    areas = _areas(one_group, ranks, true, one_group[true], len(ranks))
    return float(areas[0]) if len(areas) else None


def _areas(
    groups: NDArray[np.integer],
    ranks: NDArray[np.integer],
    true: NDArray[np.bool_],
    groups_of_positives: NDArray[np.integer],
    size: int,
) -> NDArray[np.float64]:
    """Return the area of each group of entries that has positives and negatives.

    `groups`, `ranks` and `true` have, for each listed entry, its group, the rank of its score, equal for equal scores,
    and whether it is positive. `groups_of_positives` has the group of each positive, listed or not. A group has `size`
    entries.
    """
    present, n_positive = np.unique(groups_of_positives.astype(np.int64), return_counts=True)
    # Keys sort by group, then by score. There are at most 2^31 groups, so keys do not overflow.
    n_ranks = ranks.max(initial=0) + 1
    keys = groups.astype(np.int64) * n_ranks + ranks
    negatives = np.sort(keys[~true])
    positives = np.sort(keys[true])
    starts = np.searchsorted(negatives, present * n_ranks)
    n_negative = size - n_positive
    n_unlisted = n_negative - (np.searchsorted(negatives, (present + 1) * n_ranks) - starts)

    # A listed positive beats the negatives below it, half of its ties and all unlisted negatives.
    group = np.searchsorted(present, positives // n_ranks)
    below, not_above = (np.searchsorted(negatives, positives, side) for side in ("left", "right"))
    beaten = (below + not_above) / 2 - starts[group] + n_unlisted[group]
    n_missed = n_positive - np.bincount(group, minlength=len(present))
    # All terms are multiples of one half, so their sums are exact up to 2^52.
    pairs = np.bincount(group, weights=beaten, minlength=len(present)) + n_missed * (n_unlisted / 2)
    areas: NDArray[np.float64] = (pairs / n_positive)[n_negative > 0] / n_negative[n_negative > 0]
    return areas
