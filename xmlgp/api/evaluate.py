"""Compare scores with the true labels, and the scores of two methods with each other."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.api.matching import Matched, TrainingFacts, matched, training_facts
from xmlgp.api.points import FilePath, Matrix, TrainingData
from xmlgp.api.predict import Predictions, predict
from xmlgp.api.source import Labels, Source, is_path, title_of
from xmlgp.api.trained_model import TrainedModel, load
from xmlgp.data.dataset import Dataset
from xmlgp.data.files import locate
from xmlgp.metrics.assignment import assignment_statistics
from xmlgp.metrics.auc import auc_statistics
from xmlgp.metrics.binary import binary_statistics
from xmlgp.metrics.intervals import Difference, Interval, about_intervals, differences, intervals
from xmlgp.metrics.macro import macro_statistics
from xmlgp.metrics.probabilities import calibration_statistics, check_probabilities, top_calibration_statistics
from xmlgp.metrics.propensity import estimate_propensities
from xmlgp.metrics.ranking import count_reordered_ties, ranking_statistics
from xmlgp.metrics.statistics import Statistic, values
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.prediction.scores_file import MOST_LABELS, Scores
from xmlgp.runtime.errors import SettingsError, UsageError
from xmlgp.runtime.progress import QUIET, Reporter
from xmlgp.training.result import precision_limits

__all__ = ["Comparison", "Evaluation", "compare", "evaluate", "rank_labels"]

Note = Callable[[str], object]

#: Groups of measures that `evaluate` takes.
MEASURES = ("auc", "calibration", "macro", "assigned")

#: The most labels that a model lists of each point for measures of all its labels, so that memory suffices.
MOST_LISTED = 5000

#: The share of points beyond which another order of equal scores is noted; rounding leaves a few ties.
REORDERED_SHARE = 0.1


@dataclass(frozen=True)
class Evaluation:
    """Measures of scores against the true labels.

    Attributes
    ----------
    kind : str
        What was evaluated: "ranking", "binary", for data of one label, or "assignment".
    measures : dict of str to float
        By their names. Of a ranking those of `ranking_statistics`, `macro_statistics`, `auc_statistics` and, of
        probabilities, `log_loss`, `ECE` and `ECE@k`; of binary data those of `binary_statistics` and `ECE`; of assigned
        labels those of `assignment_statistics`.
    statistics : dict of str to Statistic
        The measures as functions of sums over points, from which intervals and differences are computed.
    points : int
        The number of points.
    """

    kind: str
    statistics: dict[str, Statistic] = field(repr=False, compare=False)
    points: int
    measures: dict[str, float] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "measures", values(self.statistics))

    @cached_property
    def intervals(self) -> dict[str, Interval]:
        """The 95 % interval of each measure, over test sets of as many points from the same source."""
        return intervals(self.statistics)


@dataclass(frozen=True)
class Comparison:
    """The measures of two methods, A and B, on the same points.

    Attributes
    ----------
    kind : str
        As for `Evaluation`.
    measures : dict of str to Difference
        By their names: `a`, `b`, `difference` a − b with its paired 95 % `interval`, and `p`.
    """

    kind: str
    measures: dict[str, Difference]


def evaluate(
    scores: FilePath | Matrix | Scores | Predictions | Sequence[Any],
    labels: FilePath | Labels | Dataset | TrainingData | Source,
    *,
    train: FilePath | Dataset | TrainingData | Source | TrainedModel | None = None,
    ks: Sequence[int] = (1, 3, 5),
    propensity: tuple[float, float] | None = None,
    measures: Collection[str] = (),
    reporter: Reporter = QUIET,
) -> Evaluation:
    """Compare scores with the true labels.

    Parameters
    ----------
    scores : path, matrix N×K, Scores, Predictions, TrainedModel or list
        A file as for `xmlgp evaluate`, what `predict` returns or yields, or a list of the names of the labels of each
        point, which are assigned, or of pairs of name and score. A sparse matrix lists what it stores, another one what
        is not 0, or all but −∞ if a score is negative. A model, or its folder, predicts the points of `labels`, a path.
    labels : path, matrix N×K, list of lists of names, Dataset or Source
        The true labels; a path as for `xmlgp evaluate`. Names, also those of the columns of a DataFrame, are matched
        with those in `scores`, or with those that `train` has for numbers.
    train : path, Dataset or TrainedModel, optional
        The training points or the model, for the names of labels and propensity-scored measures. Default: the first
        of the models whose scores are wanted.
    ks : sequence of int
        Values of k of the measures @k, in ascending order.
    propensity : tuple of two float, optional
        A and B of the propensity model. Default: those of the catalogue for data of the same shape, or 0.55 and 1.5.
    measures : collection of str
        Further ones: "auc", the area under the ROC curve; "calibration", log loss and calibration error, which need
        probabilities; "macro", recall, coverage and macro measures, see `xmlgp.metrics.macro`. With "assigned", all
        labels in `scores` are assigned, also if the scores do not say so: precision, recall and F1.
    reporter : Reporter
        As for `train`.

    Raises
    ------
    SettingsError
        If the points or the labels are others, or a measure is undefined.
    """
    (evaluation,) = _evaluations([scores], labels, train, _Options(ks, propensity, measures), reporter)
    return evaluation


def compare(
    a: FilePath | Matrix | Scores | Predictions | Sequence[Any],
    b: FilePath | Matrix | Scores | Predictions | Sequence[Any],
    labels: FilePath | Labels | Dataset | TrainingData | Source,
    *,
    train: FilePath | Dataset | TrainingData | Source | TrainedModel | None = None,
    ks: Sequence[int] = (1, 3, 5),
    propensity: tuple[float, float] | None = None,
    measures: Collection[str] = (),
    reporter: Reporter = QUIET,
) -> Comparison:
    """Compare the scores of two methods with the same true labels.

    Points are resampled, the same for both methods, so the intervals are of the differences, and narrower than those
    of the measures. They are about test points: not about other training points or seeds. Of many measures, one in
    twenty has p < 0.05 by chance.

    Parameters
    ----------
    a, b : path, matrix N×K, Scores, Predictions or list
        The scores of each method, as for `evaluate`: either both rank labels, or both assign them.
    labels, train, ks, propensity, measures, reporter
        As for `evaluate`.

    Raises
    ------
    SettingsError
        As by `evaluate`, and if one method ranks labels and the other assigns them.
    """
    # Both methods have some notes in common.
    reporter = reporter._replace(note=functools.cache(reporter.note))
    first, second = _evaluations([a, b], labels, train, _Options(ks, propensity, measures), reporter)
    if first.kind != second.kind:
        names = f"{title_of(a, 'A')} and {title_of(b, 'B')}"
        raise SettingsError(f"one of {names} ranks labels, and the other assigns them, so no measure is common to both")
    reporter.note(about_intervals(first.points))
    return Comparison(first.kind, differences(first.statistics, second.statistics))


def rank_labels(
    scores: csr_array,
    labels: csr_array,
    ks: Sequence[int],
    propensities: NDArray[np.floating] | None = None,
    measures: Collection[str] = (),
) -> Evaluation:
    """Return the measures of a ranking, N×K, of which some are `measures` as for `evaluate`."""
    statistics = ranking_statistics(scores, labels, ks, propensities)
    if "macro" in measures:
        statistics |= macro_statistics(scores, labels, ks)
    if "auc" in measures:
        statistics |= auc_statistics(scores, labels)
    if "calibration" in measures:
        statistics |= calibration_statistics(scores, labels) | top_calibration_statistics(scores, labels, ks)
    return Evaluation("ranking", statistics, labels.shape[0])


class _Options(NamedTuple):
    """The measures that are wanted; see `evaluate`."""

    ks: Sequence[int]
    propensity: tuple[float, float] | None
    measures: Collection[str]


def _evaluations(
    predictions: Sequence[Any], labels: Any, train: Any, options: _Options, reporter: Reporter
) -> list[Evaluation]:
    """Return the measures of each of several scores of the same points."""
    unknown = set(options.measures).difference(MEASURES)
    if unknown:
        raise UsageError(f"{min(unknown)!r} is no group of measures; there are {', '.join(MEASURES)}.")
    source = Source.of(labels)
    predictions = [_predicted(scores, source, options, reporter) for scores in predictions]
    if train is None:
        train = next((scores.model for scores in predictions if isinstance(scores, Predictions)), None)
    if train is None and options.propensity:
        raise UsageError("A propensity model needs training points.")
    facts = training_facts(train, source, reporter)
    if is_path(source.data):
        for file in Path(locate(source.data, "test")).parent.glob("filter_labels_test*"):
            reporter.note(f"{file} is not used; docs/evaluation.md leaves out such pairs of a point and a label")
    needs_all = {"auc", "calibration", "assigned"}.intersection(options.measures)
    most = MOST_LABELS if needs_all else options.ks[-1]
    found = matched(predictions, source, facts, most, reporter)
    return [_measured(matching, facts, options, reporter.note) for matching in found]


def _predicted(scores: Any, source: Source, options: _Options, reporter: Reporter) -> Any:
    """Return scores as they are, or those that a model predicts for a file, as many as the measures need."""
    if is_path(scores) and ModelFolder.exists(scores):
        scores = load(scores)
    if not isinstance(scores, TrainedModel) or not is_path(source.data):
        return scores
    if source.title == "-":
        raise UsageError("A model is evaluated on a file, which is read twice; write standard input to a file first.")
    assign = "assigned" in options.measures
    wanted = MOST_LISTED if {"auc", "calibration"}.intersection(options.measures) else options.ks[-1]
    k = None if assign else min(wanted, scores.data["K"])
    return predict(scores, source, k=k, assign=assign, reporter=reporter)


def _measured(matching: Matched, facts: TrainingFacts, options: _Options, note: Note) -> Evaluation:
    """Return the measures of scores: those of a ranking, of assigned labels, or of data of one label."""
    name, scores, labels, *_ = matching
    longest = np.diff(scores.indptr).max(initial=0)
    counts = np.diff(labels.indptr)
    unlabelled = scores.N - np.count_nonzero(counts)
    if unlabelled and scores.K > 1:
        note(f"Test points without labels: {unlabelled} of {scores.N}; they count 0 in means over points")
    if scores.assigned or "assigned" in options.measures:
        _note_unused(options, ("auc", "calibration", "macro"), "assigned labels", note)
        return Evaluation("assignment", assignment_statistics(scores.matrix, labels), scores.N)
    calibration = "calibration" in options.measures
    if scores.K == 1:
        _note_unused(options, ("auc", "macro"), "binary data", note)
        return _evaluate_binary(matching, calibration, note)
    if calibration:
        check_probabilities(scores.matrix, name, note)
    if options.ks[-1] > longest:
        note(f"{name} lists at most {longest} labels per point; for larger k the others count as wrong")
    reordered = count_reordered_ties(scores.matrix, options.ks[-1])
    if reordered > REORDERED_SHARE * scores.N:
        ranked = "here ties are ranked by the number of the label, the lower first"
        note(f"{name} lists labels of equal score in another order for {reordered} of {scores.N} points; {ranked}")
    if limits := precision_limits(counts, options.ks):
        note(limits)
    propensities = _propensities(matching, facts, options, note) if facts.shape else None
    listed, total = len(scores.labels), scores.N * scores.K
    if listed < total and {"auc", "calibration"}.intersection(options.measures):
        note(f"{name} lists {listed} of {total} pairs of point and label; `xmlgp predict -k all` lists all")
    return rank_labels(scores.matrix, labels, options.ks, propensities, options.measures)


def _note_unused(options: _Options, without_effect: Sequence[str], what: str, note: Note) -> None:
    """Note the measures that are wanted but that assigned labels, or data of one label, have not."""
    unused = [name for name in without_effect if name in options.measures]
    if unused:
        note(f"{what} have no measures of {' and '.join(unused)}")


def _propensities(matching: Matched, facts: TrainingFacts, options: _Options, note: Note) -> NDArray[np.floating]:
    """Return the propensities of the labels, and note their model; SettingsError without training points of labels."""
    if matching.counts is None or facts.shape is None:
        raise SettingsError("the model has no counts of its labels; give the training data instead")
    N, D, _ = facts.shape
    estimated = estimate_propensities(matching.counts, N, D, options.propensity)
    note(f"Propensity model: A={estimated.A:g}, B={estimated.B:g} ({estimated.origin})")
    return estimated.values


def _evaluate_binary(matching: Matched, calibration: bool, note: Note) -> Evaluation:
    """Return the measures of data of one label, and note what scores are; SettingsError if a point has none."""
    name, scores, true, *_ = matching
    missing = np.flatnonzero(np.diff(scores.indptr) == 0)
    if len(missing):
        raise SettingsError(f"{name}: point {missing[0] + 1} has no score, but accuracy needs one per point")
    statistics = binary_statistics(scores.matrix, true)
    if calibration or "log_loss" in statistics:
        check_probabilities(scores.matrix, name, note)
        note(f"All scores in {name} are in [0, 1], so they are taken as probabilities")
    else:
        note(f"Some scores in {name} are outside [0, 1], so they are taken as utilities, without log loss")
    if calibration:
        statistics["ECE"] = calibration_statistics(scores.matrix, true)["ECE"]
    if "AUC" not in statistics:
        note("AUC is undefined, as all points have the label or none has it")
    return Evaluation("binary", statistics, scores.N)
