"""Tables of labels: by frequency, the best and the worst, and the most frequent confusions."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.metrics.probabilities import frequency_groups
from xmlgp.metrics.ranking import are_true, true_entries

__all__ = ["LabelCounts", "Ranking", "Tally", "best_and_worst", "by_frequency", "most_frequent_confusions"]

#: Test documents that a label must have to be among the best and the worst labels.
FEWEST = 5

#: Labels in each of the tables of the best and the worst.
BEST = 15

#: Pairs that are counted at a time. The pairs of one missed label are counted together even if they are more; they are
#: at most as many as the assigned labels.
PAIRS = 1 << 22


class Tally(NamedTuple):
    """Counts of the documents of a label, or of those of some labels: how many are true, assigned, and both (`right`).

    `size` is the number of labels, or for one label that of its training documents, None if it is not known.
    """

    name: str
    size: int | None
    true: int
    assigned: int
    right: int

    @property
    def precision(self) -> float | None:
        """The share of assigned labels that are true; None without assigned labels."""
        return self.right / self.assigned if self.assigned else None

    @property
    def recall(self) -> float | None:
        """The share of true labels that are assigned; None without true labels."""
        return self.right / self.true if self.true else None

    @property
    def F1(self) -> float:
        """The harmonic mean of precision and recall."""
        return 2 * self.right / (self.true + self.assigned)


class LabelCounts(NamedTuple):
    """The documents for which each label is true, for which it is assigned, and for which it is both, K each."""

    true: NDArray[np.integer]
    assigned: NDArray[np.integer]
    right: NDArray[np.integer]

    @classmethod
    def of(cls, assigned: csr_array, labels: csr_array) -> LabelCounts:
        """Count assigned and true labels, N×K."""
        right = assigned.indices[true_entries(assigned, labels)]
        K = labels.shape[1]
        return cls(*(np.bincount(entries, minlength=K) for entries in (labels.indices, assigned.indices, right)))


def by_frequency(counts: LabelCounts, frequencies: NDArray[np.integer]) -> list[Tally]:
    """Return a `Tally` of each group of labels of similar frequency."""
    names, group_of = frequency_groups(frequencies)
    columns = (np.bincount(group_of, weights, len(names)) for weights in (None, *counts))
    groups = map(Tally, names, *(column.astype(int).tolist() for column in columns))
    return [group for group in groups if group.true or group.assigned]


class Ranking(NamedTuple):
    """The best and the worst labels by F1, of the `eligible` ones, which have at least `fewest` test documents."""

    best: list[Tally]
    worst: list[Tally]
    fewest: int
    eligible: int


def best_and_worst(
    counts: LabelCounts, sizes: NDArray[np.integer] | None, label_count: int, label_name: Callable[[int], str]
) -> Ranking:
    """Rank the labels of a model, given the numbers of their training documents, if known.

    Labels beyond the first `label_count` are unknown to the model. Labels without training documents cannot be assigned
    either; a long list of such labels would say little.
    """
    true, assigned, right = counts
    documents = np.where((np.arange(len(true)) < label_count) & (sizes is None or sizes > 0), true, 0)
    fewest = FEWEST if np.any(documents >= FEWEST) else 1
    labels = np.flatnonzero(documents >= fewest)
    F1 = 2 * right[labels] / (assigned[labels] + true[labels])
    # Of equally good labels, those of more documents say more.
    order = np.lexsort((labels, -true[labels], -F1))
    best, rest = np.split(order, [min(BEST, (len(labels) + 1) // 2)])
    worst = rest[np.lexsort((labels[rest], -true[labels[rest]], F1[rest]))][:BEST]

    def rows(ranks: NDArray[np.intp]) -> list[Tally]:
        columns = [column[labels[ranks]].tolist() for column in counts]
        numbers = [None] * len(ranks) if sizes is None else sizes[labels[ranks]].tolist()
        return list(map(Tally, map(label_name, labels[ranks].tolist()), numbers, *columns))

    return Ranking(rows(best), rows(worst), fewest, len(labels))


def most_frequent_confusions(assigned: csr_array, labels: csr_array, most: int = 20) -> NDArray[np.int64]:
    """Count pairs of a missed and a wrongly assigned label of the same point, given as csr_arrays of bool, N×K.

    Return the `most` most frequent ones, 4×n: the missed label, the wrong one, the points that lack the first and got
    the second, and all points that lack the first. Of equally frequent pairs those of the lowest
    labels come first. Memory does not depend on the number of labels.
    """
    missed = csr_array(_without(labels, assigned).T)
    wrong = _without(assigned, labels)
    pairs_until = np.concatenate([[0], np.cumsum(missed @ np.diff(wrong.indptr))])
    best = np.empty((3, 0), np.int64)
    first = 0
    K = labels.shape[1]
    while first < K:
        # As many labels as have at most so many pairs together, but at least one.
        last = max(first + 1, int(np.searchsorted(pairs_until, pairs_until[first] + PAIRS, side="right")) - 1)
        counts = (missed[first:last] @ wrong).tocoo()
        best = np.concatenate([best, [counts.coords[0] + first, counts.coords[1], counts.data]], axis=1)
        best = best[:, np.lexsort((best[1], best[0], -best[2]))[:most]]
        first = last
    return np.concatenate([best, [np.diff(missed.indptr)[best[0]]]])


def _without(entries: csr_array, excluded: csr_array) -> csr_array:
    """Return a one for each entry of a csr_array that another one does not have."""
    difference = entries.astype(np.int64)
    difference.data[:] = ~are_true(entries, excluded)
    difference.eliminate_zeros()
    return difference
