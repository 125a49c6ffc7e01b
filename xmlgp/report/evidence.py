"""Gather what a report needs from probabilities and true labels, a block of points at a time.

Of each point only the first labels, the assigned labels and the true labels are kept, and of a sample of points the
whole list with their features and texts. All else is sums over labels or bins, so memory does not depend on the length
of the lists, and never on N·K.
"""

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array, vstack

from xmlgp.errors import SettingsError
from xmlgp.metrics.calibration import ReliabilityCurve, reliability_by_rank, reliability_curve
from xmlgp.metrics.ranking import ranks_of, true_entries
from xmlgp.prediction.assignment import AssignmentRule
from xmlgp.prediction.expected_f1 import highest_expected_f1
from xmlgp.prediction.scores_file import Scores

__all__ = ["FIRST", "LISTED", "Evidence", "Sample"]

#: Labels to list of each point, by default.
LISTED = 50

#: Labels of each point that are kept, for measures up to P@5.
FIRST = 5

#: Ranks whose probabilities are compared with how often they come true.
RANKS = 10

#: Bins of the reliability curve, as of `xmlgp evaluate --calibration`.
BINS = 15

#: Predicted labels that are shown of a point in the sample, at most.
MOST_SHOWN = 10

#: Listed labels that are processed at a time.
PAIRS = 1 << 20


class Sample(NamedTuple):
    """Points that a report shows, in the order of the data.

    Attributes
    ----------
    points : ndarray of int, n
        Their positions in the data, from 0.
    right : ndarray of bool, n
        Whether the first label is true.
    listed : Scores, n points
        All labels that were listed, best first.
    scores : Scores, n points
        Those of them that are shown: the first five, or all assigned labels up to ten. Explanations are for these.
    assigned : ndarray of int, n
        How many of the first labels are assigned.
    labels : csr_array of bool, n×K
        The true labels.
    features : csr_array, n×D, or None
    texts, ids : list of str, or None
    """

    points: np.ndarray
    right: np.ndarray
    listed: Scores
    scores: Scores
    assigned: np.ndarray
    labels: csr_array
    features: csr_array | None
    texts: list | None
    ids: list | None


class _Shown(NamedTuple):
    """A point that may be in the sample; those of the lowest keys are."""

    key: float
    point: int
    listed: Scores
    assigned: int
    labels: csr_array
    features: csr_array | None
    text: str | None
    id: str | None


class Evidence:
    """Probabilities of the best labels beside the true labels.

    Parameters
    ----------
    label_count : int
        K.
    rule : AssignmentRule, optional
        The labels that count as given: those that a threshold and a limit choose among the listed ones, or those of the
        highest expected F1 if no label beyond the listed ones were true. Default: the latter.
    sampled : int
        Points in the sample: half of them with a true first label and half with a wrong one, if there are enough of
        both. Points without a true label are left out.
    seed : int
        Of the sample. The sample depends neither on the division into blocks nor on what is not listed.

    Attributes
    ----------
    label_count, rule
        As passed to the constructor, and the default.
    point_count : int
        The points added so far.
    longest : int
        The labels listed of a point, at most.
    """

    def __init__(self, label_count, rule=None, sampled=20, seed=0):
        self.label_count = label_count
        self.rule = rule or AssignmentRule(expected_f1=True)
        self.point_count = self.longest = 0
        self._sampled = sampled
        self._random = np.random.default_rng(seed)
        self._kept = {"labels": [], "top": [], "assigned": []}
        self._by_probability = np.zeros((3, BINS))
        self._by_rank = np.zeros((3, RANKS))
        self._shown = {True: [], False: []}

    def add(self, scores, labels, features=None, texts=None, ids=None):
        """Add a block of points.

        Parameters
        ----------
        scores : Scores, B points
            The probabilities of some labels of each point, best first, as `Predictor.top` yields them.
        labels : csr_array of bool, B×K
            The true labels.
        features : csr_array, B×D, optional
        texts, ids : sequence of str, B, optional
            Only those of the sample are kept.

        Raises
        ------
        SettingsError
            If the shapes disagree or a score is not in [0, 1].
        """
        if labels.shape != (scores.N, self.label_count) or self.label_count != scores.K:
            raise SettingsError(
                f"there are scores of {scores.N} points and {scores.K} labels, "
                f"but {labels.shape[0]} points with {labels.shape[1]} true labels"
            )
        self.longest = max(self.longest, int(np.diff(scores.indptr).max(initial=0)))
        step = max(1, PAIRS // max(self.longest, 1))
        for start in range(0, scores.N, step):
            rows = slice(start, min(start + step, scores.N))
            about = [None if part is None else part[rows] for part in (features, texts, ids)]
            self._add(scores.rows(rows.start, rows.stop), labels[rows], *about)

    def _add(self, scores, labels, features, texts, ids):
        matrix, lengths = scores.matrix, np.diff(scores.indptr)
        sizes = self._sizes(scores, lengths)
        if len(scores.labels):
            _increase(self._by_probability, reliability_curve(matrix, labels, BINS))
            _increase(self._by_rank, reliability_by_rank(matrix, labels, RANKS))
        self._kept["labels"].append(labels)
        self._kept["top"].append(scores.first(np.minimum(lengths, FIRST)))
        self._kept["assigned"].append(scores.first(sizes))

        true = np.zeros(len(scores.labels) + 1, bool)
        true[true_entries(matrix, labels)] = True
        # A point without scores starts where the next one does.
        right = true[scores.indptr[:-1]] & (lengths > 0)
        keys = self._random.random(scores.N)
        labelled = np.diff(labels.indptr) > 0
        for side, shown in self._shown.items():
            found = np.flatnonzero(labelled & (right == side))
            for i in found[np.argsort(keys[found], kind="stable")[: self._sampled]].tolist():
                if len(shown) == self._sampled and keys[i] >= shown[-1].key:
                    break
                row = slice(i, i + 1)
                about = [None if part is None else part[i] for part in (texts, ids)]
                point = self.point_count + i
                listed = scores.rows(i, i + 1)
                feature_row = None if features is None else features[row]
                shown.append(_Shown(keys[i], point, listed, int(sizes[i]), labels[row], feature_row, *about))
                shown.sort(key=lambda kept: kept.key)
                del shown[self._sampled :]
        self.point_count += scores.N

    def _sizes(self, scores, lengths):
        """Return how many of the first labels of each point are assigned."""
        points = np.repeat(np.arange(scores.N), lengths)
        ranks = ranks_of(scores.matrix)
        if self.rule.expected_f1:
            table = np.zeros((scores.N, int(lengths.max(initial=0))))
            table[points, ranks] = scores.scores
            return np.minimum(highest_expected_f1(table, self.rule.limit)[0], lengths)
        chosen = np.ones(len(points), bool)
        if self.rule.threshold is not None:
            # In double precision, as the threshold.
            chosen &= scores.scores >= np.float64(self.rule.threshold)
        if self.rule.limit is not None:
            chosen &= ranks < self.rule.limit
        return np.bincount(points[chosen], minlength=scores.N)

    @property
    def labels(self):
        """The true labels of all points, a csr_array of N×K."""
        blocks = self._kept["labels"]
        return csr_array(vstack(blocks, format="csr")) if blocks else csr_array((0, self.label_count), dtype=bool)

    @property
    def top(self):
        """The first five labels of all points (`Scores`)."""
        return self._stacked("top")

    @property
    def assigned(self):
        """The labels that count as given (`Scores`)."""
        return self._stacked("assigned")

    def _stacked(self, name):
        nothing = Scores(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0), self.label_count)
        return Scores.stack(self._kept[name] or [nothing])

    @property
    def reliability(self):
        """Probabilities of all listed labels, in bins of equal width (`ReliabilityCurve`)."""
        return _curve(self._by_probability)

    @property
    def reliability_by_rank(self):
        """Probabilities of the labels of each rank, up to the tenth (`ReliabilityCurve`)."""
        return _curve(self._by_rank)

    @property
    def sample(self):
        """The points that the report shows (`Sample`)."""
        right, wrong = self._shown[True], self._shown[False]
        half = self._sampled // 2
        n_right = min(len(right), max(half, self._sampled - len(wrong)))
        kept = [(True, shown) for shown in right[:n_right]]
        kept += [(False, shown) for shown in wrong[: self._sampled - n_right]]
        kept.sort(key=lambda pair: pair[1].point)
        shown = [pair[1] for pair in kept]
        if not shown:
            nothing = Scores(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0), self.label_count)
            none = np.empty(0, np.int64)
            return Sample(none, none > 0, nothing, nothing, none, self.labels[:0], None, None, None)
        listed = Scores.stack([point.listed for point in shown])
        assigned = np.array([point.assigned for point in shown])
        lengths = np.diff(listed.indptr)
        return Sample(
            np.array([point.point for point in shown]),
            np.array([side for side, _ in kept]),
            listed,
            listed.first(np.minimum(lengths, np.clip(assigned, FIRST, MOST_SHOWN))),
            assigned,
            csr_array(vstack([point.labels for point in shown], format="csr")),
            None if shown[0].features is None else csr_array(vstack([point.features for point in shown], format="csr")),
            None if shown[0].text is None else [point.text for point in shown],
            None if shown[0].id is None else [point.id for point in shown],
        )


def _increase(sums, curve):
    """Add the entries of a block's `ReliabilityCurve` to sums of entries, probabilities and true entries."""
    bins = len(curve.count)
    for total, mean in zip(sums, (np.ones(bins), curve.confidence, curve.frequency), strict=True):
        total[:bins] += curve.count * np.nan_to_num(mean)


def _curve(sums):
    count, confidence, frequency = sums
    filled = np.where(count > 0, count, np.nan)
    return ReliabilityCurve(count.astype(np.int64), confidence / filled, frequency / filled)
