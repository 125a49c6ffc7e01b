"""The area under the ROC curve (AUC): how often a true label has a higher score than one that is not true.

AUC is computed from ranks, so time and memory grow with the listed scores and the positives, not with N·K.

An area is a mean over pairs of a positive and a negative. As a statistic of the points it is a mean over positives, of
the share of negatives below, plus a mean over negatives, of the share of positives above, minus the area: to first
order, that is how it changes with the set of points.

Source: DeLong, DeLong, Clarke-Pearson: Comparing the areas under two or more correlated receiver operating
characteristic curves: a nonparametric approach, Biometrics 44, 1988.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from xmlgp.metrics.ranking import are_true, canonical, check_shapes, points_of
from xmlgp.metrics.statistics import Statistic, ratio
from xmlgp.runtime.errors import SettingsError

__all__ = ["auc_statistics", "multilabel_roc_auc", "roc_auc_statistic"]

#: Listed negatives that are compared at a time, so that no further copy of all entries is needed.
_BLOCK_ENTRIES = 1 << 20


def multilabel_roc_auc(scores: csr_array, labels: csr_array) -> dict[str, float]:
    """Compute the area under the ROC curve over all entries, per label and per point.

    The area of a set of entries, P of them positive and M negative, is the share of pairs in the right order, where
    equal scores count one half,

        1/(P M) Σ_{i positive, j negative} [s_i > s_j] + ½ [s_i = s_j].

    Scores, N×K, that are not stored are equal to each other and below every score, including −∞. The true labels are a
    csr_array of bool, N×K. The result has `AUC_micro`, the area of all N·K entries, `AUC_macro`, the mean over labels
    of the area of the label's N entries, and `AUC_instance`, the mean over points of the area of the point's K entries.
    Labels and points without positives or without negatives are left out of the means. SettingsError is raised if the
    shapes disagree, a score is NaN, or no label or no point has both positives and negatives.
    """
    return {name: statistic.value for name, statistic in auc_statistics(scores, labels).items()}


def auc_statistics(scores: csr_array, labels: csr_array) -> dict[str, Statistic]:
    """Return the areas of `multilabel_roc_auc`, with the same parameters, as statistics of the points."""
    entries = _Entries.of(scores, labels)
    per_label = _Groups(entries, entries.labels, entries.positive_labels, entries.N)
    if not len(per_label.areas):
        raise SettingsError("every label is true for all points or for none, so AUC_macro is undefined")
    per_point = _Groups(entries, entries.points, entries.positive_points, entries.K)
    if not len(per_point.areas):
        raise SettingsError("every point has all labels or none, so AUC_instance is undefined")
    areas = np.zeros(entries.N)
    areas[per_point.groups] = per_point.areas
    defined = np.zeros(entries.N)
    defined[per_point.groups] = 1
    return {
        # A label with positives and negatives exists, so all entries together have both.
        "AUC_micro": _micro(entries),
        "AUC_macro": _macro(entries, per_label),
        "AUC_instance": ratio(areas, defined, 1.0, 1.0),
    }


def roc_auc_statistic(scores: csr_array, labels: csr_array) -> Statistic | None:
    """Return the area of all N·K entries as a statistic of the points; None without positives or without negatives."""
    entries = _Entries.of(scores, labels)
    positives = len(entries.positive_points)
    return _micro(entries) if 0 < positives < entries.N * entries.K else None


class _Entries(NamedTuple):
    """Listed entries: point, label, rank of the score, and whether it is positive; and all positives, listed or not."""

    N: int
    K: int
    points: NDArray[np.integer]
    labels: NDArray[np.integer]
    ranks: NDArray[np.integer]
    true: NDArray[np.bool_]
    positive_points: NDArray[np.integer]
    positive_labels: NDArray[np.integer]

    @classmethod
    def of(cls, scores: csr_array, labels: csr_array) -> "_Entries":
        """Return the entries of scores and true labels, N×K each."""
        check_shapes(scores, labels)
        if np.isnan(scores.data).any():
            raise SettingsError("a score is NaN, so the scores cannot be ranked")
        N, K = scores.shape
        scores = canonical(scores)
        labels = canonical(labels)
        # Equal scores have equal ranks.
        ranks = np.unique(scores.data, return_inverse=True)[1]
        return cls(N, K, points_of(scores), scores.indices, ranks, are_true(scores, labels), *labels.nonzero())


class _Groups:
    """Groups of entries of which each has positives and negatives, and the pairs that entries win and lose.

    Attributes are arrays with an element for each group, `groups`, `n_positive`, `n_negative`, `areas`, and the pairs
    that an unlisted positive wins, `unlisted_wins`, and that an unlisted negative loses, `unlisted_losses`; and with an
    element for each listed positive of these groups, its position in the entries, `listed`, that of its group, `group`,
    and the pairs that it wins, `wins`.
    """

    def __init__(
        self,
        entries: _Entries,
        groups_of_entries: NDArray[np.integer],
        groups_of_positives: NDArray[np.integer],
        size: int,
    ) -> None:
        self._entries = entries
        self._groups_of_entries = groups_of_entries
        self._n_ranks = int(entries.ranks.max(initial=0)) + 1
        present, n_positive = np.unique(groups_of_positives.astype(np.int64), return_counts=True)
        self.groups = present[n_positive < size]
        self.n_positive = n_positive[n_positive < size]
        self.n_negative = size - self.n_positive
        limits = self.groups * self._n_ranks, (self.groups + 1) * self._n_ranks

        negatives = np.sort(self._keys(np.flatnonzero(~entries.true)))
        starts, stops = (np.searchsorted(negatives, limit) for limit in limits)
        self.unlisted_wins = (self.n_negative - (stops - starts)) / 2
        positives = np.flatnonzero(entries.true)
        group, belongs = _positions(self.groups, groups_of_entries[positives])
        self.listed = positives[belongs]
        self.group = group[belongs]
        # A listed positive beats the negatives below it, half of its ties and all unlisted negatives.
        self.wins = _rank(negatives, self._keys(self.listed)) - starts[self.group] + 2 * self.unlisted_wins[self.group]

        self._positives = np.sort(self._keys(self.listed))
        self._stops = np.searchsorted(self._positives, limits[1])
        n_listed = np.bincount(self.group, minlength=len(self.groups))
        self.unlisted_losses = (self.n_positive + n_listed) / 2
        # All terms are multiples of one half, so their sums are exact up to 2^52.
        missed = (self.n_positive - n_listed) * self.unlisted_wins
        pairs = np.bincount(self.group, self.wins, len(self.groups)) + missed
        self.areas = pairs / self.n_positive / self.n_negative

    def _keys(self, entries: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return numbers that sort entries by group, then by score."""
        # There are at most 2^31 groups, so they do not overflow.
        return self._groups_of_entries[entries].astype(np.int64) * self._n_ranks + self._entries.ranks[entries]

    def more_losses(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what the listed negatives of each point lose more than unlisted ones, weighted by group, N."""
        entries = self._entries
        more = np.zeros(entries.N)
        for start in range(0, len(entries.true), _BLOCK_ENTRIES):
            negatives = start + np.flatnonzero(~entries.true[start : start + _BLOCK_ENTRIES])
            group, belongs = _positions(self.groups, self._groups_of_entries[negatives])
            negatives = negatives[belongs]
            group = group[belongs]
            losses = self._stops[group] - _rank(self._positives, self._keys(negatives)) - self.unlisted_losses[group]
            more += np.bincount(entries.points[negatives], losses * weights[group], entries.N)
        return more


def _positions(
    groups: NDArray[np.int64], of_elements: NDArray[np.integer]
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return the position of each element's group in `groups`, ascending, and whether it is there."""
    positions = np.minimum(np.searchsorted(groups, of_elements), max(len(groups) - 1, 0))
    return positions, groups[positions] == of_elements if len(groups) else np.zeros(len(of_elements), bool)


def _rank(keys: NDArray[np.int64], of_keys: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return how many of `keys`, ascending, are below each of others, where equal ones count one half."""
    ranks: NDArray[np.float64] = (np.searchsorted(keys, of_keys) + np.searchsorted(keys, of_keys, "right")) / 2
    return ranks


def _micro(entries: _Entries) -> Statistic:
    """Return the area of all entries together."""
    N = entries.N
    one_group = np.broadcast_to(np.int64(0), len(entries.true)), np.zeros_like(entries.positive_points)
    all_entries = _Groups(entries, *one_group, N * entries.K)
    wins = all_entries.unlisted_wins[0]
    positives = np.bincount(entries.positive_points, minlength=N).astype(np.float64)
    negatives = entries.K - positives
    columns = [
        positives * wins + np.bincount(entries.points[all_entries.listed], all_entries.wins - wins, N),
        positives,
        negatives * all_entries.unlisted_losses[0] + all_entries.more_losses(np.ones(1)),
        negatives,
    ]
    area = partial(_area, all_entries.n_positive[0], all_entries.n_negative[0], all_entries.areas[0])
    return Statistic(np.column_stack(columns), area, most=1.0)


def _area(
    n_positive: np.int64, n_negative: np.int64, area: np.float64, sums: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the area to first order, given sums of wins, positives, losses and negatives, S×4."""
    wins, positives, losses, negatives = sums.T
    areas: NDArray[np.float64] = wins / positives / n_negative + losses / negatives / n_positive - area
    return areas


def _macro(entries: _Entries, labels: _Groups) -> Statistic:
    """Return the mean area of labels.

    Its sums are those of wins and of positives of each label, so that labels whose positives are not drawn are left
    out, and one that is linear for the negatives, of which a label has many.
    """
    N = entries.N
    L = len(labels.groups)
    label, belongs = _positions(labels.groups, entries.positive_labels)
    label = label[belongs]
    positives = entries.positive_points[belongs]
    rows = np.concatenate([positives, entries.points[labels.listed], positives])
    columns = np.concatenate([label, labels.group, L + label])
    more = (labels.wins - labels.unlisted_wins[labels.group]) / labels.n_negative[labels.group]
    values = np.concatenate([(labels.unlisted_wins / labels.n_negative)[label], more, np.ones(len(label))])

    # What a point adds as an unlisted negative of each label, less where it is a positive or a listed negative.
    unlisted = (labels.unlisted_losses / labels.n_positive - labels.areas) / labels.n_negative
    linear = unlisted.sum() - np.bincount(positives, unlisted[label], N)
    linear += labels.more_losses(1 / labels.n_positive / labels.n_negative)
    by_label = csr_array((values, (rows, columns)), shape=(N, 2 * L))
    return Statistic(csr_array(hstack([by_label, csr_array(linear[:, None] / L)], format="csr")), _mean_area, most=1.0)


def _mean_area(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    L = sums.shape[1] // 2
    wins = sums[:, :L]
    positives = sums[:, L : 2 * L]
    areas = np.divide(wins, positives, out=np.zeros_like(wins), where=positives > 0)
    mean: NDArray[np.float64] = areas.sum(axis=1) / np.count_nonzero(positives, axis=1) + sums[:, 2 * L]
    return mean
