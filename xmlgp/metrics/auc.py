"""The area under the ROC curve: how often a true label has a higher score than one that is not true.

The areas are counted from ranks, so the work and the memory are those of sorting the scores listed and the positives,
never of an N×K array.
"""

import numpy as np

from xmlgp.errors import SettingsError
from xmlgp.metrics.ranking import true_entries

__all__ = ["area_under_roc", "areas_under_roc"]


def areas_under_roc(scores, labels):
    """Measure how well scores tell true labels from the others, whatever the threshold.

    The area under the ROC curve of a set of entries, P of which are positive and M negative, is the share of the pairs
    of both that are in the right order, equal scores counting one half,

        1/(P M) Σ_{i positive, j negative} [s_i > s_j] + ½ [s_i = s_j].

    Entries without a score are equal to each other and below every score, −∞ too.

    Parameters
    ----------
    scores : csr_array of float, N×K
        The scores listed; a score of 0 that is stored is listed.
    labels : csr_array of bool, N×K
        The true labels.

    Returns
    -------
    dict of str to float
        From 0 to 1: `AUC_micro`, the area of all N·K entries; `AUC_macro`, the mean of the areas of the labels, each
        over the N points; `AUC_instance`, the mean of the areas of the points, each over their K labels. Labels and
        points that lack positives or negatives are left out of their mean.

    Raises
    ------
    SettingsError
        Where the shapes disagree, a score is no number, or no label or no point has positives and negatives.
    """
    if scores.shape != labels.shape:
        raise SettingsError(
            f"the scores are of {scores.shape[0]} points and {scores.shape[1]} labels, "
            f"the true labels of {labels.shape[0]} points and {labels.shape[1]} labels"
        )
    if np.isnan(scores.data).any():
        raise SettingsError("a score that is no number cannot be put in order")
    N, K = scores.shape
    scores, labels = scores.copy(), labels.copy()
    scores.sum_duplicates()
    labels.sum_duplicates()
    listed = np.repeat(np.arange(N), np.diff(scores.indptr)), scores.indices
    positives = labels.nonzero()
    true = np.zeros(scores.nnz, dtype=bool)
    true[true_entries(scores, labels)] = True
    ranks = np.unique(scores.data, return_inverse=True)[1]

    of_labels = _areas(listed[1], ranks, true, positives[1], N)
    if not len(of_labels):
        raise SettingsError("every label is true of all points or of none, so there is no AUC of labels")
    of_points = _areas(listed[0], ranks, true, positives[0], K)
    if not len(of_points):
        raise SettingsError("every point has all labels or none, so there is no AUC of points")
    # Where a label has both kinds, the whole has.
    (of_all,) = _areas(np.zeros_like(listed[0]), ranks, true, np.zeros_like(positives[0]), N * K)
    return {"AUC_micro": float(of_all), "AUC_macro": float(of_labels.mean()), "AUC_instance": float(of_points.mean())}


def area_under_roc(scores, true):
    """Return the area under the ROC curve of entries that all have scores, as `areas_under_roc` defines it.

    Parameters
    ----------
    scores : array of float, n
    true : array of bool, n
        Which of the entries are positive.

    Returns
    -------
    float or None
        From 0 to 1; None where there are no positives or no negatives.
    """
    ranks = np.unique(scores, return_inverse=True)[1]
    one = np.zeros(len(ranks), dtype=np.int64)
    areas = _areas(one, ranks, true, one[true], len(ranks))
    return float(areas[0]) if len(areas) else None


def _areas(groups, ranks, true, groups_of_positives, size):
    """Return the area of each group of `size` entries that has positives and negatives.

    Parameters
    ----------
    groups, ranks : array of int, n
        The group of each entry listed, and the rank of its score, equal for equal ones.
    true : array of bool, n
        Which of the entries listed are positive.
    groups_of_positives : array of int, P
        The group of each positive, listed or not.
    size : int
        The number of entries of a group, listed or not.
    """
    present, n_positive = np.unique(groups_of_positives.astype(np.int64), return_counts=True)
    # Numbers in the order of groups and, within them, of scores. There are at most 2^31 groups, so none overflows.
    n_ranks = ranks.max(initial=0) + 1
    keys = groups.astype(np.int64) * n_ranks + ranks
    negatives, found = np.sort(keys[~true]), np.sort(keys[true])
    starts = np.searchsorted(negatives, present * n_ranks)
    n_negative = size - n_positive
    n_unlisted = n_negative - (np.searchsorted(negatives, (present + 1) * n_ranks) - starts)

    # A positive that is listed beats the negatives below it, half of those beside it and all that are not listed.
    group = np.searchsorted(present, found // n_ranks)
    below, not_above = (np.searchsorted(negatives, found, side) for side in ("left", "right"))
    beaten = (below + not_above) / 2 - starts[group] + n_unlisted[group]
    n_missed = n_positive - np.bincount(group, minlength=len(present))
    # Halves of whole numbers, so their sums are exact up to 2^52.
    pairs = np.bincount(group, weights=beaten, minlength=len(present)) + n_missed * (n_unlisted / 2)
    both = n_negative > 0
    return pairs[both] / n_positive[both] / n_negative[both]
