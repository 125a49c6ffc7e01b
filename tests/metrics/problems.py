"""Scores and true labels that are written as rows."""

import numpy as np
from hypothesis import strategies as st
from scipy.sparse import csr_array

__all__ = ["listed", "sparse", "sparse_problems"]


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


@st.composite
def sparse_problems(draw, values):
    """Return rows of scores, {label: score}, with few distinct values, so that ties are common; true labels; and K."""
    n_points, n_labels = draw(st.integers(1, 6)), draw(st.integers(1, 7))
    label = st.integers(0, n_labels - 1)
    rows = st.dictionaries(label, st.sampled_from(values)), st.sets(label)
    return *(draw(st.lists(row, min_size=n_points, max_size=n_points)) for row in rows), n_labels
