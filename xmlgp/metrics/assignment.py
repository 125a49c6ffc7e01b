"""Measures of assigned labels: precision, recall and F1, over all pairs, per label and per point."""

from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from xmlgp.metrics.ranking import check_labelled
from xmlgp.metrics.statistics import Statistic, ratio

__all__ = ["assignment_statistics", "share_of", "without_unused_labels"]

_MEASURES = ("precision", "recall", "F1")


def assignment_statistics(assigned: csr_array, labels: csr_array) -> dict[str, Statistic]:
    """Return measures of which labels are assigned to points, as statistics of the points.

    Precision is TP / A, recall is TP / Y and F1 is 2 TP / (A + Y), or 0 where the denominator is 0. A is the number of
    assigned labels, Y that of true labels and TP that of assigned labels that are true:

    - `micro`: TP, A and Y are over all pairs of point and label;
    - `macro`: the mean over labels, with TP, A and Y over the points. Labels that no point has and that none is
      assigned are left out;
    - `point`: the mean over points, with TP, A and Y over the labels. So a point without true labels counts 0, as in
      `ranking_statistics`.

    On the remaining labels, scikit-learn has the same values with its averages `micro`, `macro` and `samples`, where
    `zero_division` is 0.

    Every stored element of `assigned`, a csr_array, N×K, is an assigned label, whatever its value, at most one per
    point and label; the true labels are a csr_array of bool, N×K. The result has `precision_micro`, `recall_micro`,
    `F1_micro`, `precision_macro` and so on. SettingsError is raised if the shapes disagree or no point has a true
    label.
    """
    check_labelled(assigned, labels)
    # Only labels that occur are counted, because a file can claim any number of labels.
    predicted, true = without_unused_labels(assigned, labels)
    counts = (predicted * true, predicted, true)
    by_label = csr_array(hstack(counts, format="csr"))
    by_point = np.column_stack([matrix.sum(axis=1) for matrix in counts])
    statistics = {
        f"{measure}_{mean}": Statistic(sums, partial(_mean_over_labels, measure), most=1.0)
        for mean, sums in (("micro", by_point), ("macro", by_label))
        for measure in _MEASURES
    }
    for measure in _MEASURES:
        statistics[f"{measure}_point"] = ratio(share_of(measure, *by_point.T), np.ones(len(by_point)), 1.0, 1.0)
    return statistics


def without_unused_labels(predicted: csr_array, labels: csr_array) -> tuple[csr_array, csr_array]:
    """Return 1.0 for the predicted and for the true labels, N×K, with the columns of labels in either only."""
    used, columns = np.unique(np.concatenate([predicted.indices, labels.indices]), return_inverse=True)
    first, second = (
        csr_array((np.ones(len(places)), places, part.indptr), shape=(labels.shape[0], len(used)))
        for part, places in zip((predicted, labels), np.split(columns, [predicted.nnz]), strict=True)
    )
    return first, second


def share_of(
    measure: str, TP: NDArray[np.float64], A: NDArray[np.float64], Y: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return precision, recall or F1 of each element."""
    above, below = {"precision": (TP, A), "recall": (TP, Y), "F1": (2 * TP, A + Y)}[measure]
    # Where the denominator is 0, so is the numerator.
    share: NDArray[np.float64] = above / np.maximum(below, 1)
    return share


def _mean_over_labels(measure: str, sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean of a measure over the labels that occur, given TP, A and Y of each, S×3L."""
    TP, A, Y = np.split(sums, 3, axis=1)
    mean: NDArray[np.float64] = share_of(measure, TP, A, Y).sum(axis=1) / np.count_nonzero(A + Y, axis=1)
    return mean
