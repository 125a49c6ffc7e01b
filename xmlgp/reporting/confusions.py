"""Find which wrong labels points get where they lack a true one."""

from typing import NamedTuple

import numpy as np

from xmlgp.data.dataset import as_csr
from xmlgp.metrics.ranking import are_true

__all__ = ["Confusions", "most_frequent_confusions"]

#: Pairs that are counted at a time. The pairs of one missed label are counted together even if they are more; they are
#: at most as many as the assigned labels.
PAIRS = 1 << 22


class Confusions(NamedTuple):
    """Pairs of a true label that points lack and a wrong one that they got, the most frequent first.

    Attributes
    ----------
    missed, given : ndarray of int, n
    count : ndarray of int, n
        The points that have the first label, were not given it, and were given the second wrongly.
    misses : ndarray of int, n
        The points that have the first label and were not given it.
    """

    missed: np.ndarray
    given: np.ndarray
    count: np.ndarray
    misses: np.ndarray


def most_frequent_confusions(assigned, labels, most=20):
    """Count pairs of a missed and a wrongly assigned label of the same point; return the `most` most frequent.

    The counts are exact. Pairs are counted for a few missed labels at a time, so that memory does not depend on their
    number. Of equally frequent pairs those of the lowest labels come first.

    Parameters
    ----------
    assigned, labels : csr_array, N×K
        Every stored element is an assigned or a true label, at most one per point and label.
    most : int
    """
    K = labels.shape[1]
    wrong, given_to = _others(assigned, labels)
    missed, points = _others(labels, assigned)
    starts = np.searchsorted(given_to, np.arange(labels.shape[0] + 1))
    order = np.argsort(missed, kind="stable")
    missed, points = missed[order], points[order]
    misses = np.bincount(missed, minlength=K)

    sizes = np.diff(starts)[points]
    ends_of_labels = np.cumsum(misses)
    pairs_until = np.concatenate([[0], np.cumsum(sizes)])
    pairs_of_labels = pairs_until[ends_of_labels]
    best = np.empty((2, 0), np.int64)
    label, first = 0, 0
    while label < K:
        # As many labels as have at most so many pairs together, but at least one.
        reached = np.searchsorted(pairs_of_labels, pairs_until[first] + PAIRS, side="right")
        label = max(label + 1, int(reached))
        last = int(ends_of_labels[label - 1])
        n = sizes[first:last]
        places = np.arange(n.sum()) + np.repeat(starts[points[first:last]] - (np.cumsum(n) - n), n)
        keys = np.repeat(missed[first:last].astype(np.int64), n) * K + wrong[places]
        best = np.concatenate([best, np.unique(keys, return_counts=True)], axis=1)
        best = best[:, np.lexsort((best[0], -best[1]))[:most]]
        first = last
    keys, count = best
    return Confusions(keys // K, keys % K, count, misses[keys // K])


def _others(entries, excluded):
    """Return the labels and points of the entries of a sparse array that another one does not have, by point."""
    # The product of entries must not round small scores to 0.
    excluded = as_csr(None, excluded.indices, excluded.indptr, excluded.shape[1])
    kept = ~are_true(entries, excluded)
    points = np.repeat(np.arange(entries.shape[0]), np.diff(entries.indptr))
    return entries.indices[kept], points[kept]
