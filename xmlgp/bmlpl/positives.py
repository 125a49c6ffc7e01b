"""The positive labels, by point and by label. BMLPL never uses negative labels explicitly."""

import functools

import numpy as np
from scipy.sparse import csr_array

__all__ = ["Positives", "present_labels"]


class Positives:
    """The positive labels of N points, given Y, N×K; those of point n are `indices[indptr[n]:indptr[n + 1]]`."""

    def __init__(self, labels):
        self.shape, self.indptr, self.indices = labels.shape, labels.indptr, labels.indices

    def __len__(self):
        return len(self.indices)

    def by_point(self, values):
        """Return values, one for each positive in the order of `indices`, as a csr_array, N×K."""
        return csr_array((values, self.indices, self.indptr), shape=self.shape)

    def by_label(self, values):
        """Return the transpose of `by_point`, K×N, in CSR format."""
        order, points, indptr = self._transposed
        return csr_array((values[order], points, indptr), shape=self.shape[::-1])

    def frequencies(self):
        """Return the number of points of each label, K."""
        return np.bincount(self.indices, minlength=self.shape[1])

    @functools.cached_property
    def _transposed(self):
        order = self.by_point(np.arange(len(self), dtype=np.int64)).T.tocsr()
        return order.data, order.indices, order.indptr


def present_labels(labels):
    """Return the labels that occur in Y, B×K, ascending, and the `Positives` with these labels renumbered from 0."""
    present, indices = np.unique(labels.indices, return_inverse=True)
    shape = labels.shape[0], len(present)
    return present, Positives(csr_array((labels.data, indices.astype(np.int32), labels.indptr), shape=shape))
