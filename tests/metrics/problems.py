"""Scores and true labels that are written as rows."""

import numpy as np
from scipy.sparse import csr_array

__all__ = ["listed", "sparse"]


def sparse(rows, n_labels, dtype=float):
    """Return a csr_array of rows given as {label: value} or as a list of true labels, in the order given."""
    rows = [row if isinstance(row, dict) else dict.fromkeys(row, True) for row in rows]
    indptr = np.cumsum([0] + [len(row) for row in rows])
    values = [value for row in rows for value in row.values()]
    indices = np.array([label for row in rows for label in row], dtype=np.int32)
    return csr_array((np.array(values, dtype=dtype), indices, indptr), shape=(len(rows), n_labels))


def listed(scores, which=None):
    """Return a csr_array of the scores at `which`, or of all; zeros are stored."""
    scores = np.asarray(scores)
    which = np.ones(scores.shape, bool) if which is None else which
    columns = np.tile(np.arange(scores.shape[1]), (len(scores), 1))
    indptr = np.concatenate([[0], np.cumsum(which.sum(axis=1))])
    return csr_array((scores[which], columns[which], indptr), shape=scores.shape)
