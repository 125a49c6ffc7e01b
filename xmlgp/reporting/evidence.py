"""Gather what a report needs from probabilities and true labels, a block of points at a time.

Of each point only the first labels, the assigned labels and the true labels are kept, and of a sample of points the
whole list with their features and texts. All else is sums over labels or bins, so memory does not depend on the length
of the lists, and never on N·K.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, vstack

from xmlgp.data.dataset import widened
from xmlgp.errors import SettingsError
from xmlgp.metrics.probabilities import ReliabilityCurve, reliability_by_rank, reliability_curve
from xmlgp.metrics.ranking import are_true
from xmlgp.prediction.assignment import AssignmentRule
from xmlgp.prediction.scores_file import Scores

__all__ = ["LISTED", "Evidence", "SampledPoint"]

#: Labels to list of each point, by default.
LISTED = 50

#: Labels of each point that are kept, for measures up to P@5.
FIRST = 5

#: Ranks whose probabilities are compared with how often they come true.
RANKS = 10

#: Predicted labels that are shown of a point in the sample, at most.
MOST_SHOWN = 10

#: Listed labels that are processed at a time.
PAIRS = 1 << 20


@dataclass(frozen=True, eq=False)
class SampledPoint:
    """A point that a report shows; of more points, those of the lowest random keys are in the sample.

    `number` is its position in the data, from 0, `right` whether its first label is true, `listed` has all labels that
    were listed, best first, `assigned` says how many of these are assigned, and `labels` are the true ones.
    """

    key: float
    number: int
    right: bool
    listed: Scores
    assigned: int
    labels: list
    features: csr_array | None
    text: str | None
    id: str | None

    @property
    def shown(self):
        """The labels that are shown (`Scores`): the first five, or all assigned labels up to ten."""
        return self.listed.first(np.minimum(np.diff(self.listed.indptr), np.clip(self.assigned, FIRST, MOST_SHOWN)))


class Evidence:
    """Probabilities of the best of K labels beside the true labels.

    `rule` (`AssignmentRule`) says which of the listed labels count as given; default: those of the highest expected F1.
    Of the points in the sample, half have a true first label and half a wrong one, if there are enough of both; points
    without a true label are left out. The sample depends neither on the division into blocks nor on what is not listed.

    Attributes are `point_count`, of the points added so far, `longest`, the labels listed of a point, at most, and two
    `ReliabilityCurve`s: `reliability`, of all listed labels, and `reliability_by_rank`, up to the tenth.
    """

    def __init__(self, label_count, rule=None, sampled=20, seed=0):
        self.label_count = label_count
        self.point_count = self.longest = 0
        self.reliability = self.reliability_by_rank = ReliabilityCurve.empty()
        self._rule = rule or AssignmentRule(expected_f1=True)
        self._sampled = sampled
        self._random = np.random.default_rng(seed)
        self._labels = [csr_array((0, label_count), dtype=bool)]
        self._top = []
        self._assigned = []
        self._candidates = {True: [], False: []}

    def add(self, scores, labels, features=None, texts=None, ids=None):
        """Add a block of points: `Scores` of their best labels, and the true labels, a csr_array of bool, B×K.

        Of features, B×D, texts and identifiers only those of the sample are kept. Labels that the model does not know
        may follow the K.
        """
        if labels.shape[0] != scores.N or labels.shape[1] < scores.K or self.label_count != scores.K:
            raise SettingsError(
                f"there are scores of {scores.N} points and {scores.K} labels, "
                f"but {labels.shape[0]} points with {labels.shape[1]} true labels"
            )
        self.longest = max(self.longest, int(np.diff(scores.indptr).max(initial=0)))
        for rows in scores.slices(PAIRS):
            about = [None if part is None else part[rows] for part in (features, texts, ids)]
            self._add(scores.rows(rows.start, rows.stop), labels[rows], *about)

    def _add(self, scores, labels, *about):
        matrix = widened(scores.matrix, labels.shape[1])
        lengths = np.diff(scores.indptr)
        sizes = self._rule.sizes(scores)
        if len(scores.labels):
            self.reliability += reliability_curve(matrix, labels)
            self.reliability_by_rank += reliability_by_rank(matrix, labels, RANKS)
        self._labels.append(labels)
        self._top.append(scores.first(np.minimum(lengths, FIRST)))
        self._assigned.append(scores.first(sizes))

        # A point without scores starts where the next one does, or at the end.
        right = np.append(are_true(matrix, labels), False)[scores.indptr[:-1]] & (lengths > 0)
        keys = self._random.random(scores.N)
        labelled = np.diff(labels.indptr) > 0
        for side, kept in self._candidates.items():
            found = np.flatnonzero(labelled & (right == side))
            for i in found[np.argsort(keys[found], kind="stable")[: self._sampled]].tolist():
                features, text, identifier = (part if part is None else part[i : i + 1] for part in about)
                kept.append(
                    SampledPoint(
                        key=keys[i],
                        number=self.point_count + i,
                        right=side,
                        listed=scores.rows(i, i + 1),
                        assigned=int(sizes[i]),
                        labels=labels[i : i + 1].indices.tolist(),
                        features=features,
                        text=text and text[0],
                        id=identifier and identifier[0],
                    )
                )
            kept.sort(key=lambda point: point.key)
            del kept[self._sampled :]
        self.point_count += scores.N

    @property
    def labels(self):
        """The true labels of all points, a csr_array, N×K or more: unknown labels follow the K of the model."""
        # Later blocks may have more unknown labels.
        width = self._labels[-1].shape[1]
        return csr_array(vstack([widened(block, width) for block in self._labels], format="csr"))

    @property
    def top(self):
        """The first five labels of all points (`Scores`)."""
        return Scores.stack(self._top, self.label_count)

    @property
    def assigned(self):
        """The labels that count as given (`Scores`)."""
        return Scores.stack(self._assigned, self.label_count)

    @property
    def sample(self):
        """The points that the report shows, in the order of the data (list of `SampledPoint`)."""
        right = self._candidates[True]
        wrong = self._candidates[False]
        n_right = min(len(right), max(self._sampled // 2, self._sampled - len(wrong)))
        kept = right[:n_right] + wrong[: self._sampled - n_right]
        return sorted(kept, key=lambda point: point.number)
