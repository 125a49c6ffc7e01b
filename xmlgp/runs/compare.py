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
from xmlgp.metrics.deciles import Decile
from xmlgp.metrics.intervals import Difference, about_intervals, differences
from xmlgp.metrics.ranking import top_entries
from xmlgp.prediction.scores_file import Scores
from xmlgp.runs.evaluate import Evaluation, evaluate
from xmlgp.runs.identifiers import IdentifiedPoints
from xmlgp.runs.matching import Matched, matched
from xmlgp.runs.predict import Predictions
from xmlgp.runs.trained_model import TrainedModel
from xmlgp.runtime.progress import Progress, Reporter

__all__ = ["POINTS", "Comparison", "DecileDifference", "PointDifference", "compare"]

#: Points that a comparison keeps.
POINTS = 100


class DecileDifference(NamedTuple):
    """The differences of two methods for a tenth of labels, which `Decile` describes: P@k and recall@k by name."""

    decile: int
    labels: int
    training_points: str
    true: int
    measures: dict[str, Difference]


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
        Labels of each point that `deciles` and `points` are about; of assigned labels all, which is 0.
    deciles : list of DecileDifference
        By how frequent labels are in training, of rankings, if training points or a model are given.
    points : list of PointDifference
        Those that differ most in F1 of these labels, at most 100.
    unknown : dict of str to int
        As for `Evaluation`.
    """

    kind: str
    measures: dict[str, Difference]
    k: int = 0
    deciles: list[DecileDifference] = field(default_factory=list)
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
        As for `evaluate`. `train` also gives the differences by deciles of labels.

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
    first, second = (_evaluated(matching, source, train, ks, tell) for matching in pair)
    if first.kind != second.kind:
        names = f"{pair[0].name} and {pair[1].name}"
        raise SettingsError(f"one of {names} ranks labels, and the other assigns them, so no measure is common to both")
    if first.points < 2:
        raise SettingsError("there is only one point with a true label, which shows no difference beyond chance")
    tell(about_intervals(first.points))
    k = 0 if first.kind == "assignment" else ks[-1]
    return Comparison(
        first.kind,
        differences(first.statistics, second.statistics),
        k,
        _decile_differences(first.deciles, second.deciles),
        _differing_points(pair, k),
        first.unknown,
    )


def _evaluated(
    matching: Matched, source: Source, train: Any, ks: Sequence[int], note: Callable[[str], object]
) -> Evaluation:
    """Return the measures of a method, of a ranking all of them."""
    are_ranked = matching.scores.K > 1 and not matching.scores.assigned
    by_decile = are_ranked and train is not None
    return evaluate(matching, source, train=train, ks=ks, macro=are_ranked, deciles=by_decile, note=note)


def _decile_differences(a: Sequence[Decile], b: Sequence[Decile]) -> list[DecileDifference]:
    """Return the differences of the tenths of labels that both methods have, those without true labels left out."""
    statistics = [
        {f"{row.decile} {name}": row.statistics[name] for row in rows for name in row.statistics} for rows in (a, b)
    ]
    compared = differences(statistics[0], statistics[1])
    return [
        DecileDifference(*row[:4], {name: compared[f"{row.decile} {name}"] for name in row.statistics})
        for row in a
        if row.true
    ]


def _first(matching: Matched, k: int) -> tuple[csr_array, csr_array]:
    """Return the first k labels of each point, or all if k is 0, best first, and the true ones of them, N×K each."""
    top = top_entries(matching.scores.matrix, k or matching.scores.K)
    top.data = np.ones(top.nnz)
    return top, top.multiply(matching.labels).tocsr()


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
