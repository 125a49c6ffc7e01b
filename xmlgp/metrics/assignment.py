"""Measures of assigned labels: precision, recall and F1, over all pairs, per label and per point."""

import numpy as np

from xmlgp.errors import SettingsError
from xmlgp.metrics.ranking import check_shapes, true_entries

__all__ = ["evaluate_assignment"]


def evaluate_assignment(assigned, labels):
    """Evaluate which labels are assigned to points.

    With TP the number of assigned labels that are true, A of assigned and Y of true labels, precision is TP / A, recall
    is TP / Y and F1 is 2 TP / (A + Y), or 0 where the denominator is 0:

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
    N = len(labels.indptr) - 1
    # Of labels that occur alone, because a file can claim any number of others.
    present, places = np.unique(np.concatenate([assigned.indices, labels.indices]), return_inverse=True)
    hits = true_entries(assigned, labels)
    lengths = np.diff(assigned.indptr)
    points = np.repeat(np.arange(N), lengths)[hits]
    assigned_places = places[: assigned.nnz]
    label_places = places[assigned.nnz :]
    by_label = [
        np.bincount(found, minlength=len(present)) for found in (assigned_places[hits], assigned_places, label_places)
    ]
    by_point = [np.bincount(points, minlength=N), lengths, np.diff(labels.indptr)]
    by_label = np.array(by_label)
    by_point = np.array(by_point)
    counts_of = {
        "micro": np.array([[len(hits)], [assigned.nnz], [labels.nnz]]),
        "macro": by_label,
        "point": by_point[:, by_point[2] > 0],
    }
    measures = {}
    for name, (TP, A, Y) in counts_of.items():
        for measure, above, below in ("precision", TP, A), ("recall", TP, Y), ("F1", 2 * TP, A + Y):
            # Where the denominator is 0, so is the numerator.
            measures[f"{measure}_{name}"] = float((above / np.maximum(below, 1)).mean())
    return measures
