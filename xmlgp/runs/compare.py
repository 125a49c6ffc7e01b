"""Compare two methods on the same points: paired differences of measures, and where they come from."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from xmlgp.data.dataset import Dataset
from xmlgp.errors import SettingsError, memory_errors_reported
from xmlgp.inputs.kinds import FilePath, Matrix
from xmlgp.inputs.source import Labels, Source
from xmlgp.inputs.training_data import TrainingData
from xmlgp.metrics.intervals import Difference, differences
from xmlgp.metrics.macro import macro_statistics
from xmlgp.metrics.probabilities import frequency_groups
from xmlgp.metrics.ranking import top_entries
from xmlgp.metrics.statistics import ratio
from xmlgp.prediction.scores_file import Scores
from xmlgp.runs.evaluate import evaluate
from xmlgp.runs.identifiers import IdentifiedPoints
from xmlgp.runs.matching import Matched, matched
from xmlgp.runs.predict import Predictions
from xmlgp.runs.trained_model import TrainedModel
from xmlgp.runtime.progress import Progress, Reporter

__all__ = ["POINTS", "Comparison", "FrequencyGroup", "PointDifference", "compare"]

#: Points that a comparison keeps.
POINTS = 100


class FrequencyGroup(NamedTuple):
    """How well two methods find the labels that have so many training points.

    They are in `true` pairs of a point and a label. `recall` is the difference in the share of these pairs that is
    among the first k labels, in percent, and `precision` is what the labels add to the difference in P@k.
    """

    training_points: str
    true: int
    recall: Difference
    precision: float


class PointDifference(NamedTuple):
    """A point, by its identifier or its number from 1, with its true labels and the first ones of two methods.

    Labels are names, or numbers if they have none. `hits` are the numbers of true labels among those of each method.
    """

    point: Any
    labels: list[Any]
    a: list[Any]
    b: list[Any]
    hits: tuple[int, int]


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
        Those that differ most in F1 of these labels, at most 100.
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
        As by `evaluate`, and if one method ranks labels and the other assigns them, or with a single point.
    """
    reporter = Reporter.of(progress, note)
    # Both methods have some notes in common.
    tell = functools.cache(reporter.note)
    source = Source.of(labels)
    pair = list(matched([a, b], source, train, reporter._replace(note=tell)))
    if filter_labels is not None:
        pair = [matching.without(filter_labels, tell) for matching in pair]
    first, second = (evaluate(matching, source, train=train, ks=ks, note=tell) for matching in pair)
    if first.kind != second.kind:
        names = f"{pair[0].name} and {pair[1].name}"
        raise SettingsError(f"one of {names} ranks labels, and the other assigns them, so no measure is common to both")
    if first.points < 2:
        raise SettingsError("there is only one point with a true label, which shows no difference beyond chance")
    k = 0 if first.kind == "assignment" else ks[-1]
    groups: list[FrequencyGroup] = []
    statistics = [first.statistics, second.statistics]
    if first.kind == "ranking":
        more = [macro_statistics(matching.scores.matrix, matching.labels, ks) for matching in pair]
        statistics = [measures | others for measures, others in zip(statistics, more, strict=True)]
        groups = [] if train is None else _by_frequency(pair, train, k)
    measures = differences(statistics[0], statistics[1])
    return Comparison(first.kind, measures, k, groups, _differing_points(pair, k), first.unknown)


def _first(matching: Matched, k: int) -> tuple[csr_array, csr_array]:
    """Return the first k labels of each point, or all if k is 0, best first, and the true ones of them, N×K each."""
    top = top_entries(matching.scores.matrix, k or matching.scores.K)
    top.data = np.ones(top.nnz)
    return top, top.multiply(matching.labels).tocsr()


def _by_frequency(pair: Sequence[Matched], train: object, k: int) -> list[FrequencyGroup]:
    """Return the differences for labels of similar numbers of training points."""
    hits = []
    for matching in pair:
        names, groups = frequency_groups(np.asarray(matching.with_counts(train, matching.name).counts))
        K = len(groups)
        in_group = csr_array((np.ones(K), groups, np.arange(K + 1)), shape=(K, len(names)))
        hits.append((_first(matching, k)[1] @ in_group).toarray())
        true = (matching.labels @ in_group).toarray()
    present = {names[group]: group for group in np.flatnonzero(true.any(axis=0)).tolist()}
    recalls = [{name: ratio(sums[:, group], true[:, group]) for name, group in present.items()} for sums in hits]
    shares = 100 * (hits[0] - hits[1]).sum(axis=0) / (k * np.count_nonzero(true.any(axis=1)))
    return [
        FrequencyGroup(name, int(true[:, present[name]].sum()), recall, float(shares[present[name]]))
        for name, recall in differences(recalls[0], recalls[1]).items()
    ]


def _differing_points(pair: Sequence[Matched], k: int) -> list[PointDifference]:
    """Return the points that differ most, by F1 of their first k labels, or of all if k is 0."""
    labels = pair[0].labels
    ids = IdentifiedPoints("", pair[0].ids, labels.shape[0]).texts() or range(1, labels.shape[0] + 1)
    (top_of_a, hits_of_a), (top_of_b, hits_of_b) = (_first(matching, k) for matching in pair)
    sizes = [np.diff(matrix.indptr) for matrix in (hits_of_a, hits_of_b, top_of_a, top_of_b, labels)]
    f1 = [2 * sizes[method] / np.maximum(sizes[2 + method] + sizes[4], 1) for method in (0, 1)]
    gaps = np.abs(f1[0] - f1[1])
    return [
        PointDifference(
            ids[row],
            _names(pair[0], labels, row),
            _names(pair[0], top_of_a, row),
            _names(pair[1], top_of_b, row),
            (int(sizes[0][row]), int(sizes[1][row])),
        )
        for row in np.argsort(-gaps, kind="stable")[: min(POINTS, np.count_nonzero(gaps))].tolist()
    ]


def _names(matching: Matched, matrix: csr_array, row: int) -> list[Any]:
    """Return the names of the labels in a row of a matrix, or their numbers if they have no names."""
    numbers: list[int] = matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]].tolist()
    return numbers if matching.names is None else [matching.names[number] for number in numbers]
