"""Picking the labels of highest score as scores come, a block of labels at a time."""

import numpy as np

from xmlgp.linear_algebra.compiled import compiled

__all__ = ["offer"]


@compiled
def offer(values, first, labels, best):
    """Take the scores of labels from `first` on into the best k so far, of each point, if they are among them.

    Parameters
    ----------
    values : ndarray, B×L
        Scores of L labels, all later ones than those offered before.
    first : int
        The first of them, 0 at the beginning; then `labels` and `best` are empty.
    labels, best : ndarray, B×k
        Changed in place; highest score first, equal ones by label.
    """
    k = best.shape[1]
    for i in range(values.shape[0]):
        count = min(first, k)
        for j in range(values.shape[1]):
            value = values[i, j]
            if np.isnan(value):
                value = -np.inf
            if count < k:
                place = count
                count += 1
            elif value > best[i, k - 1]:
                place = k - 1
            else:
                continue
            while place > 0 and value > best[i, place - 1]:
                best[i, place], labels[i, place] = best[i, place - 1], labels[i, place - 1]
                place -= 1
            best[i, place], labels[i, place] = value, first + j
