"""Scores and true labels that are written as rows."""

import numpy as np
from scipy.sparse import csr_array

__all__ = ["sparse"]


def sparse(rows, n_labels, dtype=float):
    """Return a csr_array of rows given as {label: value} or as a list of true labels, in the order given."""
    rows = [row if isinstance(row, dict) else dict.fromkeys(row, True) for row in rows]
    indptr = np.cumsum([0] + [len(row) for row in rows])
    values = [value for row in rows for value in row.values()]
    indices = np.array([label for row in rows for label in row], dtype=np.int32)
    return csr_array((np.array(values, dtype=dtype), indices, indptr), shape=(len(rows), n_labels))
