"""Compare scores with the true labels, with messages about what the measures are over."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.data.dataset import Dataset
from xmlgp.data.label_pairs import pairs_beside
from xmlgp.data.locate import locate
from xmlgp.data.streams import check_outputs
from xmlgp.errors import ScoresFormatError, SettingsError, UsageError, memory_errors_reported
from xmlgp.inputs.kinds import FilePath, Matrix, is_path, title_of
from xmlgp.inputs.source import Labels, Source
from xmlgp.inputs.training_data import TrainingData
from xmlgp.inputs.unknown_labels import note_unknown
from xmlgp.metrics.assignment import assignment_statistics
from xmlgp.metrics.auc import auc_statistics
from xmlgp.metrics.binary import are_probabilities, binary_statistics
from xmlgp.metrics.deciles import Decile, decile_statistics
from xmlgp.metrics.intervals import Interval, intervals
from xmlgp.metrics.macro import macro_statistics
from xmlgp.metrics.probabilities import (
    Bin,
    calibration_statistics,
    reliability_by_frequency,
    reliability_by_rank,
    top_calibration_statistics,
)
from xmlgp.metrics.propensity import estimate_propensities
from xmlgp.metrics.ranking import ranking_statistics
from xmlgp.metrics.statistics import Statistic
from xmlgp.prediction.scores_file import Scores
from xmlgp.runs.by_label import table_format, write_by_label
from xmlgp.runs.matching import Matched, matched
from xmlgp.runs.predict import Predictions
from xmlgp.runs.trained_model import TrainedModel
from xmlgp.runtime.progress import Progress, Reporter

__all__ = ["Evaluation", "Measured", "check_probabilities", "describe_coverage", "evaluate"]


class Measured(NamedTuple):
    """The values of measures, and their 95 % intervals."""

    measures: dict[str, float]
    intervals: dict[str, Interval]


@dataclass(frozen=True)
class Evaluation:
    """Measures of scores against the true labels.

    Attributes
    ----------
    kind : str
        What was evaluated: "ranking", "binary", for data of one label, or "assignment".
    measures : dict of str to float
        By their names. Of a ranking those of `evaluate_ranking`, `macro_statistics`, `multilabel_roc_auc` and, of
        probabilities, `log_loss`, `ECE` and `ECE@k`; of binary data those of `evaluate_binary` and `ECE`; of assigned
        labels those of `evaluate_assignment`.
    statistics : dict of str to Statistic
        The measures as functions of sums over points, from which intervals and differences are computed.
    points : int
        The number of points that count: all points of binary data, otherwise those with a true label.
    deciles : list of Decile
        Measures by how frequent labels are in training; empty unless it is asked for.
    reliability : dict of str to list of Bin
        Probabilities beside how often they come true, by "rank" and by "training points" of the label, of labels up to
        the greatest k; empty unless it is asked for.
    unknown : dict of str to int
        True labels that the model or the training points do not know, the most frequent first, with their points. They
        count as missed.
    """

    kind: str
    measures: dict[str, float] = field(init=False)
    statistics: dict[str, Statistic] = field(repr=False, compare=False)
    points: int
    deciles: list[Decile] = field(default_factory=list)
    reliability: dict[str, list[Bin]] = field(default_factory=dict)
    unknown: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        measures = {name: statistic.value for name, statistic in self.statistics.items()}
        object.__setattr__(self, "measures", measures)

    @cached_property
    def intervals(self) -> dict[str, Interval]:
        """The 95 % interval of each measure, over test sets of as many points from the same source."""
        return intervals(self.statistics)

    @cached_property
    def decile_measures(self) -> list[Measured]:
        """The measures of each of the `deciles`."""
        # All intervals at once, for which points are drawn once.
        ends = intervals(
            {f"{row.decile} {name}": row.statistics[name] for row in self.deciles for name in row.statistics}
        )
        return [
            Measured(
                {name: statistic.value for name, statistic in row.statistics.items()},
                {name: ends[f"{row.decile} {name}"] for name in row.statistics},
            )
            for row in self.deciles
        ]


@memory_errors_reported()
def evaluate(  # noqa: PLR0913, which are the options of the command
    scores: FilePath | Matrix | Scores | Predictions | Matched | Sequence[Any],
    labels: FilePath | Labels | Dataset | TrainingData | Source,
    *,
    train: FilePath | Dataset | TrainingData | Source | TrainedModel | None = None,
    ks: Sequence[int] = (1, 3, 5),
    propensity_a: float | None = None,
    propensity_b: float | None = None,
    auc: bool = False,
    calibration: bool = False,
    reliability: bool = False,
    macro: bool = False,
    deciles: bool = False,
    by_label: FilePath | None = None,
    assigned: bool | None = None,
    filter_labels: FilePath | None = None,
    progress: Progress | None = None,
    note: Callable[[str], object] | None = None,
) -> Evaluation:
    """Compare scores with the true labels.

    Parameters
    ----------
    scores : path, matrix N×K, Scores, Predictions or list
        A file as for `xmlgp evaluate`, what `predict` returns or yields, or a list of the names of the labels of each
        point, which are assigned, or of pairs of name and score.
    labels : path, matrix N×K, list of lists of names, Dataset or Source
        The true labels; a path as for `xmlgp evaluate`. Names, also those of the columns of a DataFrame, are matched
        with those in `scores`, or with those that `train` has for numbers.
    train : path, Dataset or TrainedModel, optional
        The training points or the model, for the names of labels, propensity-scored measures and reliability by
        frequency. True labels that it does not know count as missed.
    ks : sequence of int
        Values of k of the measures @k, in ascending order.
    propensity_a, propensity_b : float, optional
        Of the propensity model. Default: those of the catalogue for data of the same shape, or 0.55 and 1.5.
    auc, calibration, reliability : bool
        Whether to compute the area under the ROC curve; log loss and calibration error; how often labels of each rank
        are true. The last two need probabilities.
    macro, deciles : bool
        Whether to compute recall, coverage and macro measures, see `xmlgp.metrics.macro`; P@k and recall@k by deciles
        of labels, the most frequent in training first, which need `train`.
    by_label : path, optional
        A table to write, with a row for each label: .csv, .tsv, .xlsx or .parquet.
    assigned : bool, optional
        Whether all labels in `scores` are assigned: precision, recall and F1. Default: as the scores say.
    filter_labels : path, optional
        Lines `point label` of numbers from 0: these pairs count neither as scores nor as true labels.
    progress, note
        As for `train`.

    Raises
    ------
    SettingsError
        If the points or the shapes disagree, true labels and others have no name in common, or a measure is undefined.
    """
    if train is None and (propensity_a or propensity_b):
        raise UsageError("A propensity model needs training points.")
    if train is None and deciles:
        raise UsageError("Measures by deciles of labels need training points or a model: `train=DATA`.")
    reporter = Reporter.of(progress, note)
    source = Source.of(labels)
    if by_label is not None:
        table_format(by_label)
        check_outputs([by_label], [scores, train, filter_labels, *source.inputs])
    matching = _matching(scores, source, train, filter_labels, reporter)
    name = matching.name
    assigned = _are_assigned(matching.scores, assigned, name, reporter.note)
    if (calibration or reliability) and not assigned:
        check_probabilities(matching.scores, name)
    unused = {
        "training data": train is not None and not matching.named and by_label is None,
        "`reliability=True`": reliability,
        "`macro=True`": macro,
        "`deciles=True`": deciles,
        "k": tuple(ks) != (1, 3, 5),
    }
    if not assigned and matching.scores.K == 1:
        unused |= {"`by_label=FILE`": by_label is not None}
        _note_unused(unused, "on binary data", reporter.note)
        return _evaluate_binary(matching.scores, matching.labels, name, calibration, reporter.note)
    labelled = int(np.count_nonzero(np.diff(matching.labels.indptr)))
    if assigned:
        unused |= {"`auc=True`": auc, "`calibration=True`": calibration}
        _note_unused(unused, "on assigned labels", reporter.note)
        statistics = assignment_statistics(matching.scores.matrix, matching.labels)
        result = Evaluation("assignment", statistics, labelled, unknown=matching.unknown)
    else:
        ranking = _Ranking(matching, name, ks, reporter.note)
        if train is not None:
            ranking.learn(train, propensity_a, propensity_b)
        else:
            reporter.note("Without training data there are no propensity-scored measures")
        statistics = ranking.statistics(macro, auc, calibration)
        tenths = ranking.deciles() if deciles else []
        curves = ranking.reliability() if reliability else {}
        result = Evaluation("ranking", statistics, labelled, tenths, curves, matching.unknown)
    if by_label is not None:
        write_by_label(by_label, matching, None if assigned else ks[-1], train)
    return result


def _matching(scores: Any, source: Source, train: Any, filter_labels: FilePath | None, reporter: Reporter) -> Matched:
    """Return scores and true labels that match, without the pairs of a file, and note what is unknown or not used."""
    if isinstance(scores, Matched):
        matching = scores
    else:
        (matching,) = matched([scores], source, train, reporter)
        _note_pairs(source, filter_labels, reporter.note)
    if filter_labels is not None:
        matching = matching.without(filter_labels, reporter.note)
    note_unknown(title_of(source.data, "the data"), matching.unknown, matching.labels, reporter.note)
    return matching


def _note_pairs(source: Source, filter_labels: FilePath | None, note: Callable[[str], object]) -> None:
    """Note the files of pairs beside the true labels, which are not used without `filter_labels`."""
    if is_path(source.data) and filter_labels is None:
        for file in pairs_beside(locate(source.data, "test"), "test"):
            note(f"{file} is not used; `filter_labels=FILE` leaves out such pairs of a point and a label")


def _are_assigned(scores: Scores, assigned: bool | None, name: str, note: Callable[[str], object]) -> bool:
    """Return whether the labels in scores are assigned, as asked or as the scores say, and note what they are."""
    longest = int(np.diff(scores.indptr).max(initial=0))
    if not longest:
        note(f"{name} lists no labels")
    elif assigned and not scores.assigned:
        note(f"{name} is a ranking: its labels of each point, at most {longest}, count as assigned")
    if assigned is not None:
        return assigned
    if longest and (scores.K > 1 or scores.assigned):
        note(f"{name} {'has the assigned' if scores.assigned else 'ranks the'} labels of each point")
    return scores.assigned


class _Ranking:
    """The measures of a ranking, of which some are asked for, with notes about what they are over."""

    def __init__(self, matching: Matched, name: str, ks: Sequence[int], note: Callable[[str], object]) -> None:
        self._matching = matching
        self._scores = matching.scores
        self._pair = matching.scores.matrix, matching.labels
        self._K = matching.K
        self._name = name
        self._ks = ks
        self._note = note
        self._longest = int(np.diff(self._scores.indptr).max(initial=0))
        if ks[-1] > self._longest > 0:
            note(f"{name} lists at most {self._longest} labels per point; for larger k the others count as wrong")
        self._counts: NDArray[np.int64] | None = None
        self._propensities: NDArray[np.floating] | None = None

    def learn(self, train: Any, propensity_a: float | None, propensity_b: float | None) -> None:
        """Take the training points of labels, and their propensities, from training data or a model."""
        facts = self._matching.with_counts(train, self._name)
        self._counts = np.asarray(facts.counts)
        N, D, _ = facts.shape or (0, 0, 0)
        estimated = estimate_propensities(self._counts, N, D, propensity_a, propensity_b)
        self._propensities = estimated.values
        self._note(f"Propensity model: A={estimated.A:g}, B={estimated.B:g} ({estimated.origin})")

    def statistics(self, macro: bool, auc: bool, calibration: bool) -> dict[str, Statistic]:
        """Return the measures of a ranking with those that are asked for."""
        statistics = ranking_statistics(*self._pair, self._ks, self._propensities)
        if macro:
            statistics |= macro_statistics(*self._pair, self._ks)
        if auc:
            statistics |= self._auc(with_listing=not calibration)
        if calibration:
            statistics |= self._calibration()
        return statistics

    def _auc(self, with_listing: bool) -> dict[str, Statistic]:
        """Return the areas under the ROC curve; the note about log loss says which labels are listed."""
        if len(self._scores.labels) < self._scores.N * self._K:
            text = "AUC treats the labels that are not listed as tied in the last place"
            if with_listing:
                text += f"; {self._name} lists {_listed(self._scores, self._K)}"
            self._note(text)
        return auc_statistics(*self._pair)

    def _calibration(self) -> dict[str, Statistic]:
        """Return log loss and calibration errors."""
        self._note(f"Log loss and ECE are over {describe_coverage(self._scores, self._K)}")
        return calibration_statistics(*self._pair) | top_calibration_statistics(*self._pair, self._ks)

    def deciles(self) -> list[Decile]:
        """Return the measures by tenths of labels, for the greatest k."""
        return [] if self._counts is None else decile_statistics(*self._pair, self._ks[-1], self._counts)

    def reliability(self) -> dict[str, list[Bin]]:
        """Return how often labels come true, by rank, and by the number of training points if that is known."""
        most = self._ks[-1]
        curves = {"rank": reliability_by_rank(*self._pair, most).filled}
        if self._counts is not None:
            curves["training points"] = reliability_by_frequency(*self._pair, most, self._counts).filled
        return curves


def check_probabilities(scores: Scores, name: str) -> None:
    """Raise SettingsError if scores are not probabilities, or if there are none."""
    if not len(scores.scores):
        raise SettingsError(f"{name} contains no scores, so there are no probabilities to evaluate")
    if scores.scores.min() < 0 or scores.scores.max() > 1:
        raise SettingsError(f"{name} contains scores outside [0, 1]; predict probabilities with `output=probability`")


def describe_coverage(scores: Scores, K: int) -> str:
    """Return which of the K labels scores list, as the end of a sentence."""
    if len(scores.labels) == scores.N * K:
        return f"all {K} labels of each point"
    if _lists_same_labels(scores):
        return _listed(scores, K)
    kind = "assigned" if scores.assigned else "listed"
    return f"the {len(scores.labels)} {kind} labels only, {_listed(scores, K)}"


def _listed(scores: Scores, K: int) -> str:
    """Return how many of the K labels a point has, and what lists all where some are left out."""
    longest = np.diff(scores.indptr).max(initial=0)
    if _lists_same_labels(scores):
        return f"the same {longest} of {K} labels of each point"
    return f"at most {longest} of {K} per point; `xmlgp predict -k all` lists all labels"


def _lists_same_labels(scores: Scores) -> bool:
    """Return whether several points list the same labels, as `-k all` writes those of a model that has no others."""
    count = len(np.unique(scores.labels))
    return scores.N > 1 and not scores.assigned and len(scores.labels) == scores.N * count


def _note_unused(options: Mapping[str, bool], reason: str, note: Callable[[str], object]) -> None:
    for name, is_set in options.items():
        if is_set:
            note(f"{name} has no effect {reason}")


def _evaluate_binary(
    scores: Scores, true: csr_array, name: str, calibration: bool, note: Callable[[str], object]
) -> Evaluation:
    """Return the measures of data of one label, and note what scores are; ScoresFormatError if a point has none."""
    missing = np.flatnonzero(np.diff(scores.indptr) == 0)
    if len(missing):
        # The first point is in the second line, if the first one has the sizes.
        raise ScoresFormatError(
            name, int(missing[0]) + 2 - scores.open, "the point has no score, but accuracy needs one per point"
        )
    if are_probabilities(scores.matrix):
        note(f"All scores in {name} are in [0, 1], so they are taken as probabilities")
    else:
        note(f"Some scores in {name} are outside [0, 1], so they are taken as utilities, without log loss")
    statistics = binary_statistics(scores.matrix, true)
    if calibration:
        statistics["ECE"] = calibration_statistics(scores.matrix, true)["ECE"]
    if "AUC" not in statistics:
        note("AUC is undefined, as all points have the label or none has it")
    return Evaluation("binary", statistics, scores.N)
