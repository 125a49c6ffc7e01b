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

from xmlgp.errors import SettingsError
from xmlgp.metrics.ranking import are_true, canonical, check_shapes, points_of
from xmlgp.metrics.statistics import Statistic, ratio

__all__ = ["auc_statistics", "multilabel_roc_auc", "roc_auc_statistic"]


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
    that an unlisted positive wins, `unlisted_wins`, and that an unlisted negative loses, `unlisted_losses`; for each
    listed entry its position in `groups`, `group`; and the `positives` and `negatives` among the listed entries, with
    the `wins` of the former.
    """

    def __init__(
        self, entries: _Entries, groups: NDArray[np.integer], groups_of_positives: NDArray[np.integer], size: int
    ) -> None:
        present, n_positive = np.unique(groups_of_positives.astype(np.int64), return_counts=True)
        self.groups = present[n_positive < size]
        self.n_positive = n_positive[n_positive < size]
        self.n_negative = size - self.n_positive
        self.group, belongs = _positions(self.groups, groups)
        self.positives = np.flatnonzero(entries.true & belongs)
        self.negatives = np.flatnonzero(~entries.true & belongs)
        # Keys sort by group, then by score. There are at most 2^31 groups, so they do not overflow.
        self._keys = groups.astype(np.int64) * (entries.ranks.max(initial=0) + 1) + entries.ranks
        positives = np.bincount(self.group[self.positives], minlength=len(self.groups))
        negatives = np.bincount(self.group[self.negatives], minlength=len(self.groups))
        self._positive_stops = np.cumsum(positives)
        self.unlisted_wins = (self.n_negative - negatives) / 2
        self.unlisted_losses = (self.n_positive + positives) / 2

        # A listed positive beats the negatives below it, half of its ties and all unlisted negatives.
        group = self.group[self.positives]
        not_in_group = np.cumsum(negatives) - negatives
        self.wins = _rank(self._keys[self.negatives], self._keys[self.positives]) - not_in_group[group]
        self.wins += 2 * self.unlisted_wins[group]
        # All terms are multiples of one half, so their sums are exact up to 2^52.
        pairs = np.bincount(group, self.wins, len(self.groups)) + (self.n_positive - positives) * self.unlisted_wins
        self.areas = pairs / self.n_positive / self.n_negative

    @property
    def losses(self) -> NDArray[np.float64]:
        """The positives above each of `negatives`, where those with the same score count one half."""
        ranks = _rank(self._keys[self.positives], self._keys[self.negatives])
        losses: NDArray[np.float64] = self._positive_stops[self.group[self.negatives]] - ranks
        return losses


def _positions(
    groups: NDArray[np.int64], of_elements: NDArray[np.integer]
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return the position of each element's group in `groups`, ascending, and whether it is there."""
    positions = np.minimum(np.searchsorted(groups, of_elements), max(len(groups) - 1, 0))
    return positions, groups[positions] == of_elements if len(groups) else np.zeros(len(of_elements), bool)


def _rank(keys: NDArray[np.int64], of_keys: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return how many of `keys` are below each of others, where equal ones count one half."""
    keys = np.sort(keys)
    ranks: NDArray[np.float64] = (np.searchsorted(keys, of_keys) + np.searchsorted(keys, of_keys, "right")) / 2
    return ranks


def _micro(entries: _Entries) -> Statistic:
    """Return the area of all entries together."""
    N = entries.N
    all_entries = _Groups(entries, np.zeros_like(entries.points), np.zeros_like(entries.positive_points), N * entries.K)
    wins = all_entries.unlisted_wins[0]
    losses = all_entries.unlisted_losses[0]
    positives = np.bincount(entries.positive_points, minlength=N).astype(np.float64)
    negatives = entries.K - positives
    columns = [
        positives * wins + np.bincount(entries.points[all_entries.positives], all_entries.wins - wins, N),
        positives,
        negatives * losses + np.bincount(entries.points[all_entries.negatives], all_entries.losses - losses, N),
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
    listed = entries.points[labels.positives], labels.group[labels.positives]
    rows = np.concatenate([positives, listed[0], positives])
    columns = np.concatenate([label, listed[1], L + label])
    more = (labels.wins - labels.unlisted_wins[listed[1]]) / labels.n_negative[listed[1]]
    values = np.concatenate([(labels.unlisted_wins / labels.n_negative)[label], more, np.ones(len(label))])

    # What a point adds as an unlisted negative of each label, less where it is a positive or a listed negative.
    unlisted = (labels.unlisted_losses / labels.n_positive - labels.areas) / labels.n_negative
    group = labels.group[labels.negatives]
    more = (labels.losses - labels.unlisted_losses[group]) / labels.n_positive[group] / labels.n_negative[group]
    linear = unlisted.sum() - np.bincount(positives, unlisted[label], N)
    linear += np.bincount(entries.points[labels.negatives], more, N)
    by_label = csr_array((values, (rows, columns)), shape=(N, 2 * L))
    return Statistic(csr_array(hstack([by_label, csr_array(linear[:, None] / L)], format="csr")), _mean_area, most=1.0)


def _mean_area(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    L = sums.shape[1] // 2
    wins = sums[:, :L]
    positives = sums[:, L : 2 * L]
    areas = np.divide(wins, positives, out=np.zeros_like(wins), where=positives > 0)
    mean: NDArray[np.float64] = areas.sum(axis=1) / np.count_nonzero(positives, axis=1) + sums[:, 2 * L]
    return mean
