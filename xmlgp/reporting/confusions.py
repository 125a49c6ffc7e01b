"""Find which wrong labels points get where they lack a true one."""

import numpy as np
from scipy.sparse import csr_array

from xmlgp.metrics.ranking import are_true

__all__ = ["most_frequent_confusions"]

#: Pairs that are counted at a time. The pairs of one missed label are counted together even if they are more; they are
#: at most as many as the assigned labels.
PAIRS = 1 << 22


def most_frequent_confusions(assigned, labels, most=20):
    """Count pairs of a missed and a wrongly assigned label of the same point, given as csr_arrays of bool, N×K.

    Return the `most` most frequent ones, an ndarray of int, 4×n: the missed label, the wrong one, the points that lack
    the first and got the second, and all points that lack the first. Of equally frequent pairs those of the lowest
    labels come first. The counts are exact; pairs are counted for a few missed labels at a time, so that memory does
    not depend on their number.
    """
    missed, wrong = csr_array(_others(labels, assigned).T), _others(assigned, labels)
    pairs_until = np.concatenate([[0], np.cumsum(missed @ np.diff(wrong.indptr))])
    best, first, K = np.empty((3, 0), np.int64), 0, labels.shape[1]
    while first < K:
        # As many labels as have at most so many pairs together, but at least one.
        last = max(first + 1, int(np.searchsorted(pairs_until, pairs_until[first] + PAIRS, side="right")) - 1)
        found = (missed[first:last] @ wrong).tocoo()
        best = np.concatenate([best, [found.coords[0] + first, found.coords[1], found.data]], axis=1)
        best = best[:, np.lexsort((best[1], best[0], -best[2]))[:most]]
        first = last
    return np.concatenate([best, [np.diff(missed.indptr)[best[0]]]])


def _others(entries, excluded):
    """Return a one for each entry of a csr_array that another one does not have, a csr_array of int."""
    kept = ~are_true(entries, excluded)
    points = np.repeat(np.arange(entries.shape[0]), np.diff(entries.indptr))
    return csr_array((np.ones(np.count_nonzero(kept), np.int64), (points[kept], entries.indices[kept])), entries.shape)
