"""Compare scores with the true labels, with messages about what the measures are over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from xmlgp.data.dataset import Dataset
from xmlgp.data.label_pairs import pairs_beside
from xmlgp.data.locate import locate
from xmlgp.errors import ScoresFormatError, SettingsError, UsageError, memory_errors_reported
from xmlgp.metrics.assignment import evaluate_assignment
from xmlgp.metrics.auc import multilabel_roc_auc
from xmlgp.metrics.binary import are_probabilities, evaluate_binary
from xmlgp.metrics.probabilities import (
    Bin,
    log_loss,
    reliability_by_frequency,
    reliability_by_rank,
    reliability_curve,
    top_calibration_errors,
)
from xmlgp.metrics.propensity import estimate_propensities
from xmlgp.metrics.ranking import evaluate_ranking
from xmlgp.prediction.scores_file import Scores
from xmlgp.runs.given import FilePath, Labels, Matrix, is_path, label_of, note_unknown
from xmlgp.runs.matching import matched
from xmlgp.runs.predict import Predictions
from xmlgp.runs.trained_model import TrainedModel
from xmlgp.runtime.progress import ignore, silent
from xmlgp.text.documents import NO_OPTIONS, CorpusOptions
from xmlgp.text.points import TrainingData

__all__ = ["Evaluation", "check_probabilities", "describe_coverage", "evaluate"]


@dataclass(frozen=True)
class Evaluation:
    """Measures of scores against the true labels.

    Attributes
    ----------
    kind : str
        What was evaluated: "ranking", "binary", for data of one label, or "assignment".
    measures : dict of str to float
        By their names. Of a ranking those of `evaluate_ranking`, `multilabel_roc_auc` and, of probabilities,
        `log_loss`, `ECE` and `ECE@k`; of binary data those of `evaluate_binary` and `ECE`; of assigned labels those of
        `evaluate_assignment`.
    reliability : dict of str to list of Bin
        Probabilities beside how often they come true, by "rank" and by "training points" of the label, of labels up to
        the greatest k; empty unless it is asked for.
    unknown : dict of str to int
        True labels that the model or the training points do not know, the most frequent first, with their points. They
        count as missed.
    """

    kind: str
    measures: dict[str, float]
    reliability: dict[str, list[Bin]] = field(default_factory=dict)
    unknown: dict[str, int] = field(default_factory=dict)


@memory_errors_reported()
def evaluate(
    scores: FilePath | Matrix | Scores | Predictions | Sequence,
    labels: FilePath | Labels | Dataset | TrainingData,
    *,
    train: FilePath | Dataset | TrainingData | TrainedModel | None = None,
    ks: Sequence[int] = (1, 3, 5),
    propensity_a: float | None = None,
    propensity_b: float | None = None,
    auc: bool = False,
    calibration: bool = False,
    reliability: bool = False,
    assigned: bool | None = None,
    filter_labels: FilePath | None = None,
    corpus: CorpusOptions = NO_OPTIONS,
    cache: bool = True,
    progress: Callable = silent,
    note: Callable[[str], object] = ignore,
) -> Evaluation:
    """Compare scores with the true labels.

    Parameters
    ----------
    scores : path, matrix N×K, Scores, Predictions or list
        A scores file or JSON Lines, what `predict` returns or yields, or a list of the names of the labels of each
        point, which are assigned, or of pairs of name and score.
    labels : path, matrix N×K, list of lists of names, or Dataset
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
    assigned : bool, optional
        Whether all labels in `scores` are assigned: precision, recall and F1. Default: as the scores say.
    filter_labels : path, optional
        Lines `point label` of numbers from 0: these pairs count neither as scores nor as true labels.
    corpus, cache, progress, note
        As for `train`.

    Raises
    ------
    SettingsError
        If the points or the shapes disagree, true labels and others have no name in common, or a measure is undefined.
    """
    if train is None and (propensity_a or propensity_b):
        raise UsageError("A propensity model needs training points.")
    name = label_of(scores, "the table of scores")
    (found,) = matched([scores], labels, train, corpus, cache, progress, note)
    if filter_labels is not None:
        found = found.without(filter_labels, note)
    elif is_path(labels):
        for file in pairs_beside(locate(labels, "test"), "test"):
            note(f"{file} is not used; `filter_labels=FILE` leaves out such pairs of a point and a label")
    listed, true, K, unknown = found[:4]
    note_unknown(label_of(labels, "the data"), unknown, true, note)
    longest = int(np.diff(listed.indptr).max(initial=0))
    if not longest:
        note(f"{name} lists no labels")
    elif assigned and not listed.assigned:
        note(f"{name} is a ranking: its labels of each point, at most {longest}, count as assigned")
    if assigned is None:
        assigned = listed.assigned
        if longest and (listed.K > 1 or assigned):
            note(f"{name} {'has the assigned' if assigned else 'ranks the'} labels of each point")
    if (calibration or reliability) and not assigned:
        check_probabilities(listed, name)
    unused = {
        "training data": train is not None and not found.named,
        "`reliability=True`": reliability,
        "k": tuple(ks) != (1, 3, 5),
    }
    if assigned:
        _note_unused(unused | {"`auc=True`": auc, "`calibration=True`": calibration}, "on assigned labels", note)
        return Evaluation("assignment", evaluate_assignment(listed.matrix, true), unknown=unknown)
    if listed.K == 1:
        _note_unused(unused, "on binary data", note)
        return _evaluate_binary(listed, true, name, calibration, note)
    if ks[-1] > longest > 0:
        note(f"{name} lists at most {longest} labels per point; for larger k the others count as wrong")
    propensities = counts = None
    if train is not None:
        (N, D, _), counts = found.with_counts(train, name)[1:3]
        estimated = estimate_propensities(counts, N, D, propensity_a, propensity_b)
        note(f"Propensity model: A={estimated.A:g}, B={estimated.B:g} ({estimated.origin})")
        propensities = estimated.values
    else:
        note("Without training data there are no propensity-scored measures")
    if auc and len(listed.labels) < listed.N * K:
        text = "AUC treats the labels that are not listed as tied in the last place"
        # The note about log loss says which labels are listed.
        listing = f"; {name} lists at most {longest} of {K} per point, `xmlgp predict -k all` lists all"
        note(text if calibration else text + listing)
    if calibration:
        note(f"Log loss and ECE are over {describe_coverage(listed, K)}")
    pair = (listed.matrix, true)
    curves = {}
    measures = evaluate_ranking(*pair, ks, propensities)
    if auc:
        measures |= multilabel_roc_auc(*pair)
    if calibration:
        measures |= {"log_loss": log_loss(*pair), "ECE": reliability_curve(*pair).error}
        measures |= top_calibration_errors(*pair, ks)
    if reliability:
        curves["rank"] = reliability_by_rank(*pair, ks[-1]).filled
        if counts is not None:
            curves["training points"] = reliability_by_frequency(*pair, ks[-1], counts).filled
    return Evaluation("ranking", measures, curves, unknown)


def check_probabilities(scores, name):
    """Raise SettingsError if scores are not probabilities, or if there are none."""
    if not len(scores.scores):
        raise SettingsError(f"{name} contains no scores, so there are no probabilities to evaluate")
    if scores.scores.min() < 0 or scores.scores.max() > 1:
        raise SettingsError(f"{name} contains scores outside [0, 1]; predict probabilities with `output=probability`")


def describe_coverage(scores, K):
    """Return which of the K labels scores list, as the end of a sentence."""
    if len(scores.labels) == scores.N * K:
        return f"all {K} labels of each point"
    longest = np.diff(scores.indptr).max(initial=0)
    kind = "assigned" if scores.assigned else "listed"
    return (
        f"the {len(scores.labels)} {kind} labels only, at most {longest} of {K} per point; "
        "`xmlgp predict -k all` lists all labels"
    )


def _note_unused(options, reason, note):
    for name, given in options.items():
        if given:
            note(f"{name} has no effect {reason}")


def _evaluate_binary(scores, true, name, calibration, note):
    missing = np.flatnonzero(np.diff(scores.indptr) == 0)
    if len(missing):
        # The first point is in the second line.
        raise ScoresFormatError(name, int(missing[0]) + 2, "the point has no score, but accuracy needs one per point")
    if are_probabilities(scores.matrix):
        note(f"All scores in {name} are in [0, 1], so they are taken as probabilities")
    else:
        note(f"Some scores in {name} are outside [0, 1], so they are taken as utilities, without log loss")
    measures = evaluate_binary(scores.matrix, true)
    if calibration:
        measures["ECE"] = reliability_curve(scores.matrix, true).error
    if "AUC" not in measures:
        note("AUC is undefined, as all points have the label or none has it")
    return Evaluation("binary", measures)
