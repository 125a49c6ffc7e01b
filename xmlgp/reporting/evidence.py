"""Gather what a report needs from probabilities and true labels, a block of points at a time.

Of each point only the first labels, the assigned labels and the true labels are kept, and of a sample of points the
whole list with their features and texts. All else is sums over labels or bins, so memory does not depend on the length
of the lists, and never on N·K.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array, vstack

from xmlgp.data.dataset import widened
from xmlgp.data.features import Features
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

    `number` is its position in the data, from 0, `right` whether its first label is true, `scores` has all labels that
    were listed, best first, `assigned` says how many of these are assigned, and `labels` are the true ones.
    """

    key: float
    number: int
    right: bool
    scores: Scores
    assigned: int
    labels: list[int]
    features: Features | None
    text: str | None
    id: str | int | None

    @property
    def shown(self) -> Scores:
        """The labels that are shown: the first five, or all assigned labels up to ten."""
        return self.scores.first(np.minimum(np.diff(self.scores.indptr), np.clip(self.assigned, FIRST, MOST_SHOWN)))


class _Block(NamedTuple):
    """What is kept of some points if they are in the sample."""

    features: Features | None
    texts: Sequence[str] | None
    ids: Sequence[str | int | None] | None


class Evidence:
    """Probabilities of the best of K labels beside the true labels.

    `rule` says which of the listed labels are assigned; default: those of the highest expected F1.
    Of the points in the sample, half have a true first label and half a wrong one, if there are enough of both; points
    without a true label are left out. The sample depends neither on the division into blocks nor on what is not listed.

    Attributes are `point_count`, of the points added so far, `longest`, the labels listed of a point, at most, and two
    `ReliabilityCurve`s: `reliability`, of all listed labels, and `reliability_by_rank`, up to the tenth.
    """

    def __init__(self, label_count: int, rule: AssignmentRule | None = None, sampled: int = 20, seed: int = 0) -> None:
        self.label_count = label_count
        self.point_count = 0
        self.longest = 0
        self.reliability = ReliabilityCurve.empty()
        self.reliability_by_rank = ReliabilityCurve.empty()
        self._rule = rule or AssignmentRule(expected_f1=True)
        self._sampled = sampled
        self._random = np.random.default_rng(seed)
        self._labels = [csr_array((0, label_count), dtype=bool)]
        self._top: list[Scores] = []
        self._assigned: list[Scores] = []
        #: By whether the first label is true.
        self._candidates: dict[bool, list[SampledPoint]] = {True: [], False: []}

    def add(
        self,
        scores: Scores,
        labels: csr_array,
        features: Features | None = None,
        texts: Sequence[str] | None = None,
        ids: Sequence[str | int | None] | None = None,
    ) -> None:
        """Add a block of points: the scores of their best labels, and the true labels, a csr_array of bool, B×K.

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
            about = _Block(features and features[rows], texts and texts[rows], ids and ids[rows])
            self._add(scores.rows(rows.start, rows.stop), labels[rows], about)

    def _add(self, scores: Scores, labels: csr_array, about: _Block) -> None:
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
        for side, candidates in self._candidates.items():
            points = np.flatnonzero(labelled & (right == side))
            for i in points[np.argsort(keys[points], kind="stable")[: self._sampled]].tolist():
                candidates.append(
                    SampledPoint(
                        key=keys[i],
                        number=self.point_count + i,
                        right=side,
                        scores=scores.rows(i, i + 1),
                        assigned=int(sizes[i]),
                        labels=labels[i : i + 1].indices.tolist(),
                        features=None if about.features is None else about.features[i : i + 1],
                        text=None if about.texts is None else about.texts[i],
                        id=None if about.ids is None else about.ids[i],
                    )
                )
            candidates.sort(key=lambda point: point.key)
            del candidates[self._sampled :]
        self.point_count += scores.N

    @property
    def labels(self) -> csr_array:
        """The true labels of all points, a csr_array, N×K or more: unknown labels follow the K of the model."""
        # Later blocks may have more unknown labels.
        width = self._labels[-1].shape[1]
        return csr_array(vstack([widened(block, width) for block in self._labels], format="csr"))

    @property
    def top(self) -> Scores:
        """The first five labels of all points."""
        return Scores.stack(self._top, self.label_count)

    @property
    def assigned(self) -> Scores:
        """The assigned labels of all points."""
        return Scores.stack(self._assigned, self.label_count)

    @property
    def sample(self) -> list[SampledPoint]:
        """The points that the report shows, in the order of the data."""
        right = self._candidates[True]
        wrong = self._candidates[False]
        n_right = min(len(right), max(self._sampled // 2, self._sampled - len(wrong)))
        points = right[:n_right] + wrong[: self._sampled - n_right]
        return sorted(points, key=lambda point: point.number)
