"""Compare scores with the true labels, with messages about what the measures are over."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from xmlgp.data.dataset import Dataset
from xmlgp.errors import ScoresFormatError, SettingsError, UsageError
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
from xmlgp.model import counted
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.prediction.scores_file import Scores, read_scores
from xmlgp.runs.given import FilePath, Labels, Matrix, check_names, columns_of, is_path, label_of, labels_in_memory
from xmlgp.runs.predict import Predictions
from xmlgp.runs.trained_model import TrainedModel
from xmlgp.runtime.progress import ignore, silent
from xmlgp.text.points import read_vectorized_data

__all__ = ["Evaluation", "check_label_count", "check_probabilities", "describe_coverage", "evaluate"]


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
    """

    kind: str
    measures: dict[str, float]
    reliability: dict[str, list[Bin]] = field(default_factory=dict)


def evaluate(
    scores: FilePath | Matrix | Scores | Predictions,
    labels: FilePath | Labels | Dataset,
    *,
    train: FilePath | Dataset | TrainedModel | None = None,
    ks: Sequence[int] = (1, 3, 5),
    propensity_a: float | None = None,
    propensity_b: float | None = None,
    auc: bool = False,
    calibration: bool = False,
    reliability: bool = False,
    assigned: bool = False,
    cache: bool = True,
    progress: Callable = silent,
    note: Callable[[str], object] = ignore,
) -> Evaluation:
    """Compare scores with the true labels.

    Parameters
    ----------
    scores : path, matrix N×K, Scores or Predictions
        A scores file, or what `predict` returns.
    labels : path, matrix N×K or Dataset
        The true labels; a path as for `xmlgp evaluate`.
    train : path, Dataset or TrainedModel, optional
        The training points or the model, for propensity-scored measures and reliability by frequency.
    ks : sequence of int
        Values of k of the measures @k, in ascending order.
    propensity_a, propensity_b : float, optional
        Of the propensity model. Default: those of the catalogue for data of the same shape, or 0.55 and 1.5.
    auc, calibration, reliability : bool
        Whether to compute the area under the ROC curve; log loss and calibration error; how often labels of each rank
        are true. The last two need probabilities.
    assigned : bool
        Whether all labels in `scores` are assigned: precision, recall and F1.
    cache, progress, note
        As for `train`.

    Raises
    ------
    SettingsError
        If the shapes disagree, or a measure is undefined.
    """
    if train is None and (propensity_a or propensity_b):
        raise UsageError("A propensity model needs training points.")
    name, listed = label_of(scores, "the scores"), _scores_of(scores, progress)
    if (calibration or reliability) and not assigned:
        check_probabilities(listed, name)
    true = _true_labels(labels, cache, progress)
    if isinstance(scores, Predictions):
        check_names("label", columns_of(labels, "label"), scores._model.names.labels)
    if true.shape != (listed.N, listed.K):
        sizes = [f"{N} points and {counted(K, 'label')}" for N, K in ((listed.N, listed.K), true.shape)]
        raise SettingsError(f"{name} has {sizes[0]}, but {label_of(labels, 'the data')} has {sizes[1]}")
    unused = {"training data": train is not None, "reliability": reliability, "k": tuple(ks) != (1, 3, 5)}
    if assigned:
        _note_unused(unused | {"auc": auc, "calibration": calibration}, "on assigned labels", note)
        return Evaluation("assignment", evaluate_assignment(listed.matrix, true))
    if listed.K == 1:
        _note_unused(unused, "on binary data", note)
        return _evaluate_binary(listed, true, name, calibration, note)
    longest = int(np.diff(listed.indptr).max(initial=0))
    if ks[-1] > longest:
        note(f"{name} lists at most {longest} labels per point; for larger k the others count as wrong")
    propensities = counts = None
    if train is not None:
        (N, D, K), counts = _training_counts(train, cache, progress)
        check_label_count(label_of(train, "the model"), K, listed.K, name)
        found = estimate_propensities(counts, N, D, propensity_a, propensity_b)
        note(f"Propensity model: A={found.A:g}, B={found.B:g} ({found.origin})")
        propensities = found.values
    else:
        note("Without training data there are no propensity-scored measures")
    if auc and len(listed.labels) < listed.N * listed.K:
        note(f"AUC treats unlisted labels as tied in the last place; it is over {describe_coverage(listed)}")
    if calibration:
        note(f"Log loss and ECE are over {describe_coverage(listed)}")
    pair, curves = (listed.matrix, true), {}
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
    return Evaluation("ranking", measures, curves)


def check_probabilities(scores, name):
    """Raise SettingsError if scores are not probabilities, or if there are none."""
    if not len(scores.scores):
        raise SettingsError(f"{name} contains no scores, so there are no probabilities to evaluate")
    if scores.scores.min() < 0 or scores.scores.max() > 1:
        raise SettingsError(
            f"{name} contains scores outside [0, 1]; `xmlgp predict --output probability` writes probabilities"
        )


def check_label_count(train, K, expected, other):
    """Raise SettingsError if training data have another number of labels than what they are compared with."""
    if expected != K:
        raise SettingsError(f"{train} has {counted(K, 'label')}, but {other} has {counted(expected, 'label')}")


def describe_coverage(scores):
    """Return which labels scores list, as the end of a sentence."""
    if len(scores.labels) == scores.N * scores.K:
        return f"all {scores.K} labels of each point"
    longest = np.diff(scores.indptr).max()
    return (
        f"the {len(scores.labels)} listed labels only, at most {longest} of {scores.K} per point; "
        "`xmlgp predict -k all` lists all labels"
    )


def _scores_of(scores, progress):
    """Return `Scores` of a file, of `Predictions` or of a matrix."""
    if is_path(scores):
        return read_scores(os.fspath(scores), progress)
    if isinstance(scores, Scores):
        return scores
    matrix = sp.csr_array(scores.matrix() if isinstance(scores, Predictions) else scores)
    return Scores(matrix.indptr, matrix.indices, matrix.data, matrix.shape[1])


def _true_labels(labels, cache, progress):
    if is_path(labels):
        return read_vectorized_data(labels, "test", cache, progress).labels
    return labels.labels if isinstance(labels, Dataset) else labels_in_memory(labels, np.shape(labels)[0])


def _training_counts(train, cache, progress):
    """Return N, D and K of the training points, and how many have each label: of data, or of a model."""
    if is_path(train) and ModelFolder.exists(train):
        folder = ModelFolder(train)
        data, counts = folder.description["data"], folder.array("parameters.statistics.labels")
    elif isinstance(train, TrainedModel):
        data, counts = train.data, train.parameters.get("statistics.labels")
    else:
        points = train if isinstance(train, Dataset) else read_vectorized_data(train, "train", cache, progress)
        return points.shape, np.bincount(points.labels.indices, minlength=points.K)
    shape = tuple(data[name] for name in "NDK")
    if counts is None or counts.shape != shape[2:]:
        raise SettingsError(f"{train}: the model has no counts of its labels; give the training data instead")
    return shape, np.array(counts)


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
