"""Evaluate scores against the true labels, with messages about what the measures are over."""

import numpy as np

from xmlgp.errors import ScoresFormatError, SettingsError
from xmlgp.metrics.evaluation import are_probabilities, evaluate
from xmlgp.metrics.propensity import estimate_propensities
from xmlgp.model import counted

__all__ = ["check_label_count", "check_probabilities", "describe_coverage", "evaluate_named"]


def evaluate_named(scores, labels, names, training, ks, propensity, auc, calibration, reliability, assigned, note):
    """Evaluate scores (`Evaluation`) and say what the measures are over, and which arguments have no effect.

    Parameters
    ----------
    scores : Scores
    labels : csr_array of bool, N×K
    names : (str, str)
        What scores and labels are called in messages.
    training : callable or None
        Returns what the training points are called, their N, D and K, and how many have each label.
    propensity : (float or None, float or None)
        A and B of the propensity model.
    ks, auc, calibration, reliability, assigned
        As for `xmlgp.metrics.evaluation.evaluate`.
    note : callable
        Receives messages.

    Raises
    ------
    SettingsError
        If the shapes disagree, or a measure is undefined.
    ScoresFormatError
        If a point of binary data has no score.
    """
    name, measure = names[0], {}
    if labels.shape != (scores.N, scores.K):
        counts = [f"{N} points and {counted(K, 'label')}" for N, K in ((scores.N, scores.K), labels.shape)]
        raise SettingsError(f"{name} has {counts[0]}, but {names[1]} has {counts[1]}")
    unused = {"training data": training, "reliability": reliability, "k": tuple(ks) != (1, 3, 5)}
    if assigned:
        _note_unused(unused | {"auc": auc, "calibration": calibration}, "on assigned labels", note)
    elif scores.K == 1:
        _note_unused(unused, "on binary data", note)
        _check_complete(scores, name)
        if are_probabilities(scores.matrix):
            note(f"All scores in {name} are in [0, 1], so they are taken as probabilities")
        else:
            note(f"Some scores in {name} are outside [0, 1], so they are taken as utilities, without log loss")
    else:
        longest = int(np.diff(scores.indptr).max(initial=0))
        if ks[-1] > longest:
            note(f"{name} lists at most {longest} labels per point; for larger k the others count as wrong")
        if training:
            trained_on, (N, D, K), counts = training()
            check_label_count(trained_on, K, scores.K, name)
            found = estimate_propensities(counts, N, D, *propensity)
            note(f"Propensity model: A={found.A:g}, B={found.B:g} ({found.origin})")
            measure |= {"propensities": found.values, "counts": counts}
        else:
            note("Without training data there are no propensity-scored measures")
        if auc and len(scores.labels) < scores.N * scores.K:
            note(f"AUC treats unlisted labels as tied in the last place; it is over {describe_coverage(scores)}")
        if calibration:
            note(f"Log loss and ECE are over {describe_coverage(scores)}")
        measure |= {"ks": ks, "auc": auc, "reliability": reliability}
    evaluation = evaluate(scores.matrix, labels, calibration=calibration, assigned=assigned, **measure)
    if evaluation.kind == "binary" and "AUC" not in evaluation.measures:
        note("AUC is undefined, as all points have the label or none has it")
    return evaluation


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


def _note_unused(options, reason, note):
    for name, given in options.items():
        if given:
            note(f"{name} has no effect {reason}")


def _check_complete(scores, name):
    """Raise the error that names the line of the first point without a score."""
    missing = np.flatnonzero(np.diff(scores.indptr) == 0)
    if len(missing):
        # The first point is in the second line.
        raise ScoresFormatError(name, int(missing[0]) + 2, "the point has no score, but accuracy needs one per point")
