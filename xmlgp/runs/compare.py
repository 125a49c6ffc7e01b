"""Compare two methods on the same points: paired differences of measures, and where they come from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.data.dataset import Dataset
from xmlgp.errors import SettingsError, memory_errors_reported
from xmlgp.inputs.kinds import FilePath, Matrix, title_of
from xmlgp.inputs.source import Labels, Source
from xmlgp.inputs.training_data import TrainingData
from xmlgp.inputs.unknown_labels import note_unknown
from xmlgp.metrics.assignment import assignment_statistics
from xmlgp.metrics.intervals import Difference, differences
from xmlgp.metrics.macro import macro_statistics
from xmlgp.metrics.probabilities import frequency_groups
from xmlgp.metrics.propensity import estimate_propensities
from xmlgp.metrics.ranking import are_true, points_of, ranking_statistics, ranks_of, top_entries
from xmlgp.metrics.statistics import Statistic, ratio
from xmlgp.prediction.scores_file import Scores
from xmlgp.runs.evaluate import binary_evaluation
from xmlgp.runs.matching import Matched, matched
from xmlgp.runs.predict import Predictions
from xmlgp.runs.trained_model import TrainedModel
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.progress import Progress, Reporter

__all__ = ["Comparison", "FrequencyGroup", "Listed", "PointDifference", "compare"]

#: Points that a comparison keeps.
POINTS = 100


class FrequencyGroup(NamedTuple):
    """How well two methods find the labels that have so many training points.

    `labels` of them are true of `true` pairs of a point and a label. `recall` is the difference in the share of these
    pairs that is among the first k labels, in percent, and `precision` is what the group adds to that in P@k.
    """

    training_points: str
    labels: int
    true: int
    recall: Difference
    precision: float


class Listed(NamedTuple):
    """The first labels that a method lists for a point, by name or number, and how many of them are true."""

    labels: list[Any]
    hits: int


class PointDifference(NamedTuple):
    """A point, by its identifier or its number from 1, with its true labels and those of two methods."""

    point: Any
    labels: list[Any]
    a: Listed
    b: Listed


@dataclass(frozen=True)
class Comparison:
    """The measures of two methods, A and B, on the same points. All differences are A − B.

    Attributes
    ----------
    kind : str
        What was compared: "ranking", "binary", for data of one label, or "assignment".
    measures : dict of str to Difference
        By their names: `a`, `b`, `difference` with its paired 95 % `interval`, and `p`.
    k : int
        Labels of each point that `groups` and `points` are about; of assigned labels all, which is 0.
    groups : list of FrequencyGroup
        By training points of the label, if training points or a model are given. Of rankings only.
    points : list of PointDifference
        Those that differ most, at most 100.
    unknown : dict of str to int
        As for `Evaluation`.
    """

    kind: str
    measures: dict[str, Difference]
    k: int = 0
    groups: list[FrequencyGroup] = field(default_factory=list)
    points: list[PointDifference] = field(default_factory=list)
    unknown: dict[str, int] = field(default_factory=dict)


@memory_errors_reported()
def compare(
    a: FilePath | Matrix | Scores | Predictions | Sequence[Any],
    b: FilePath | Matrix | Scores | Predictions | Sequence[Any],
    labels: FilePath | Labels | Dataset | TrainingData | Source,
    *,
    train: FilePath | Dataset | TrainingData | Source | TrainedModel | None = None,
    ks: Sequence[int] = (1, 3, 5),
    filter_labels: FilePath | None = None,
    progress: Progress | None = None,
    note: Callable[[str], object] | None = None,
) -> Comparison:
    """Compare the scores of two methods with the same true labels.

    Points are resampled, the same for both methods, so the intervals are of the differences, and narrower than those
    of the measures. They are about test points: not about other training points or seeds. Of many measures, one in
    twenty has p < 0.05 by chance.

    Parameters
    ----------
    a, b : path, matrix N×K, Scores, Predictions or list
        The scores of each method, as for `evaluate`: either both rank labels, or both assign them.
    labels, train, ks, filter_labels, progress, note
        As for `evaluate`. `train` also gives the differences by frequency of labels.

    Raises
    ------
    SettingsError
        As by `evaluate`, and if one method ranks labels and the other assigns them.
    """
    reporter = Reporter.of(progress, note)
    source = Source.of(labels)
    names = title_of(a, "A"), title_of(b, "B")
    pair = list(matched([a, b], source, train, reporter))
    if filter_labels is not None:
        pair = [matching.without(filter_labels, reporter.note) for matching in pair]
    if any(matching.names is not None for matching in pair):
        # Labels of both methods have names, perhaps their numbers, so that they can be found among the true ones.
        pair = [
            matching if matching.names else matching._replace(names=list(map(str, range(matching.scores.K))))
            for matching in pair
        ]
    first, second = pair
    note_unknown(title_of(source.data, "the data"), first.unknown, first.labels, reporter.note)
    is_assigned = [matching.scores.assigned for matching in pair]
    if is_assigned[0] != is_assigned[1]:
        ranking, assigned = names if is_assigned[1] else reversed(names)
        raise SettingsError(
            f"{assigned} has assigned labels, but {ranking} ranks them, so they have no measure in common"
        )
    if is_assigned[0]:
        measures = [assignment_statistics(matching.scores.matrix, matching.labels) for matching in pair]
        return Comparison(
            "assignment", differences(measures[0], measures[1]), 0, [], _differing_points(pair, 0), first.unknown
        )
    if first.scores.K == second.scores.K == 1:
        measures = [
            binary_evaluation(matching.scores, matching.labels, name, False, reporter.note).statistics
            for matching, name in zip(pair, names, strict=True)
        ]
        return Comparison("binary", differences(measures[0], measures[1]))
    _note_lengths(pair, names, ks, reporter.note)
    groups = []
    if train is None:
        reporter.note("Without training data there are no propensity-scored measures, and none by frequency of labels")
        measures = [_ranking(matching, ks, None) for matching in pair]
    else:
        facts = [matching.with_counts(train, name) for matching, name in zip(pair, names, strict=True)]
        counts = [np.asarray(fact.counts) for fact in facts]
        N, D, _ = facts[0].shape or (0, 0, 0)
        estimated = [estimate_propensities(count, N, D, None, None) for count in counts]
        reporter.note(f"Propensity model: A={estimated[0].A:g}, B={estimated[0].B:g} ({estimated[0].origin})")
        measures = [
            _ranking(matching, ks, propensities.values) for matching, propensities in zip(pair, estimated, strict=True)
        ]
        groups = _by_frequency(pair, counts, ks[-1])
    points = _differing_points(pair, ks[-1])
    return Comparison("ranking", differences(measures[0], measures[1]), ks[-1], groups, points, first.unknown)


def _ranking(matching: Matched, ks: Sequence[int], propensities: NDArray[np.floating] | None) -> dict[str, Statistic]:
    """Return the measures of a ranking."""
    matrices = matching.scores.matrix, matching.labels
    return ranking_statistics(*matrices, ks, propensities) | macro_statistics(*matrices, ks)


def _note_lengths(
    pair: Sequence[Matched], names: Sequence[str], ks: Sequence[int], note: Callable[[str], object]
) -> None:
    """Note the first k of which a method does not list as many labels."""
    for matching, name in zip(pair, names, strict=True):
        longest = int(np.diff(matching.scores.indptr).max(initial=0))
        if longest < ks[-1]:
            note(f"{name} lists at most {counted(longest, 'label')} per point; for larger k the others count as wrong")


class _First(NamedTuple):
    """The first labels of each point (csr_array, N×K), best first, and whether each is true."""

    top: csr_array
    true: NDArray[np.bool_]

    @classmethod
    def of(cls, matching: Matched, k: int) -> _First:
        """Return the first k labels of each point, or all if k is 0."""
        top = top_entries(matching.scores.matrix, k or matching.scores.K)
        return cls(top, are_true(top, matching.labels))

    @property
    def hits(self) -> NDArray[np.integer]:
        """The number of true labels among them, N."""
        return np.bincount(points_of(self.top)[self.true], minlength=self.top.shape[0])


def _by_frequency(pair: Sequence[Matched], counts: Sequence[NDArray[np.integer]], k: int) -> list[FrequencyGroup]:
    """Return the differences for labels of similar numbers of training points, given these for all columns."""
    names, groups = frequency_groups(counts[0])
    true_labels = pair[0].labels
    sizes = np.bincount(groups[np.unique(true_labels.indices)], minlength=len(names))
    true_pairs = _sums_by_group(points_of(true_labels), groups[true_labels.indices], true_labels.shape[0], len(names))
    recalls = []
    hit_sums = []
    for matching, count in zip(pair, counts, strict=True):
        first = _First.of(matching, k)
        # The numbers of labels that only one method lists differ.
        group_of_hit = frequency_groups(count)[1][first.top.indices[first.true]]
        hits = _sums_by_group(points_of(first.top)[first.true], group_of_hit, first.top.shape[0], len(names))
        present = [(name, group) for group, name in enumerate(names) if sizes[group]]
        recalls.append({name: ratio(hits[:, group], true_pairs[:, group]) for name, group in present})
        hit_sums.append(hits.sum(axis=0))
    shares = 100 * (hit_sums[0] - hit_sums[1]) / (k * np.count_nonzero(np.diff(true_labels.indptr)))
    compared = differences(recalls[0], recalls[1])
    return [
        FrequencyGroup(name, int(sizes[group]), int(true_pairs[:, group].sum()), compared[name], float(shares[group]))
        for name, group in present
    ]


def _sums_by_group(points: NDArray[np.integer], groups: NDArray[np.integer], N: int, count: int) -> NDArray[np.float64]:
    """Return how many entries, given their points and groups, each of N points has in each group, N×count."""
    sums = np.bincount(points * count + groups, minlength=N * count).astype(np.float64)
    return sums.reshape(N, count)


def _differing_points(pair: Sequence[Matched], k: int) -> list[PointDifference]:
    """Return the points that differ most: in the sum of the discounted hits among the first k labels, or in F1 of all.

    The discount of the l-th label is 1/log2(l + 1), as in DCG.
    """
    firsts = [_First.of(matching, k) for matching in pair]
    worth = []
    for matching, (top, true) in zip(pair, firsts, strict=True):
        gains = 1 / np.log2(ranks_of(top)[true] + 2)
        if not k:
            sizes = np.diff(top.indptr) + np.diff(matching.labels.indptr)
            gains = 2 / sizes[points_of(top)[true]]
        worth.append(np.bincount(points_of(top)[true], gains, top.shape[0]))
    gaps = np.abs(worth[0] - worth[1])
    order = np.argsort(-gaps, kind="stable")[: min(POINTS, np.count_nonzero(gaps > 1e-12))]
    return [_point_difference(pair, firsts, row) for row in order.tolist()]


def _point_difference(pair: Sequence[Matched], firsts: Sequence[_First], row: int) -> PointDifference:
    ids = pair[0].ids
    point = row + 1 if ids is None or ids[row] is None else ids[row]
    listed = []
    for matching, (top, true) in zip(pair, firsts, strict=True):
        entries = slice(top.indptr[row], top.indptr[row + 1])
        listed.append(Listed(_names(matching, top.indices[entries]), int(np.count_nonzero(true[entries]))))
    labels = pair[0].labels
    return PointDifference(point, _names(pair[0], labels.indices[labels.indptr[row] : labels.indptr[row + 1]]), *listed)


def _names(matching: Matched, labels: NDArray[np.integer]) -> list[Any]:
    """Return the names of labels, or their numbers if they have no names."""
    numbers: list[int] = labels.tolist()
    return numbers if matching.names is None else [matching.names[number] for number in numbers]
