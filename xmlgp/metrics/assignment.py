"""Measures of assigned labels: precision, recall and F1, over all pairs, per label and per point."""

import numpy as np
from scipy.sparse import csr_array

from xmlgp.errors import SettingsError
from xmlgp.metrics.ranking import check_shapes, points_of, true_entries

__all__ = ["evaluate_assignment"]


def evaluate_assignment(assigned: csr_array, labels: csr_array) -> dict[str, float]:
    """Evaluate which labels are assigned to points.

    Precision is TP / A, recall is TP / Y and F1 is 2 TP / (A + Y), or 0 where the denominator is 0. A is the number of
    assigned labels, Y that of true labels and TP that of assigned labels that are true:

    - `micro`: TP, A and Y are over all pairs of point and label;
    - `macro`: the mean over labels, with TP, A and Y over the points. Labels that no point has and that none is
      assigned are left out;
    - `point`: the mean over points, with TP, A and Y over the labels. Points without true labels are left out, as in
      `evaluate_ranking`.

    On the remaining labels or points, scikit-learn has the same values with its averages `micro`, `macro` and
    `samples`.

    Every stored element of `assigned`, a csr_array, N×K, is an assigned label, whatever its value, at most one per
    point and label; the true labels are a csr_array of bool, N×K. The result has `precision_micro`, `recall_micro`,
    `F1_micro`, `precision_macro` and so on. SettingsError is raised if the shapes disagree or no point has a true
    label.
    """
    check_shapes(assigned, labels)
    if not labels.nnz:
        raise SettingsError("no point has a true label, so there is nothing to evaluate")
    hits = true_entries(assigned, labels)
    # Only labels that occur are counted, because a file can claim any number of labels.
    present, columns = np.unique(np.concatenate([assigned.indices, labels.indices]), return_inverse=True)
    assigned_columns, true_columns = np.split(columns, [assigned.nnz])
    by_label = np.array(
        [
            np.bincount(column, minlength=len(present))
            for column in (assigned_columns[hits], assigned_columns, true_columns)
        ]
    )
    hits_of_point = np.bincount(points_of(assigned)[hits], minlength=labels.shape[0])
    by_point = np.array([hits_of_point, np.diff(assigned.indptr), np.diff(labels.indptr)])
    counts = {"micro": by_label.sum(axis=1, keepdims=True), "macro": by_label, "point": by_point[:, by_point[2] > 0]}
    measures = {}
    for name, (TP, A, Y) in counts.items():
        for measure, above, below in ("precision", TP, A), ("recall", TP, Y), ("F1", 2 * TP, A + Y):
            # Where the denominator is 0, so is the numerator.
            measures[f"{measure}_{name}"] = float((above / np.maximum(below, 1)).mean())
    return measures
