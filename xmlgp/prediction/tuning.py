"""Choose the threshold and the limit of assignments by F1 on points whose labels are known."""

from __future__ import annotations

import sys
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.data.features import Features
from xmlgp.errors import SettingsError
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.metrics.assignment import evaluate_assignment
from xmlgp.metrics.ranking import are_true
from xmlgp.prediction.assignment import AssignmentRule
from xmlgp.prediction.predictor import OUTPUTS, Predictor
from xmlgp.prediction.scores_file import Scores
from xmlgp.prediction.selection import MAX_STREAMED
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.progress import Progress, silent
from xmlgp.runtime.threads import parallel_for

__all__ = ["LONGEST", "METRICS", "Tuned", "best_rule", "tune"]

#: What is maximised: the name of each option, and the measure of `evaluate_assignment`.
METRICS = {"f1-micro": "F1_micro", "f1-macro": "F1_macro", "f1-point": "F1_point"}

#: The largest limit that is tried.
LONGEST = MAX_STREAMED


class Tuned(NamedTuple):
    """A tuned threshold and limit, as a model folder has them.

    `metric` is one of `METRICS`, `output` says what scores the threshold is one of, "utility" or "probability", `value`
    is what the metric reached on the points of tuning, and `points` is their number.
    """

    metric: str
    output: str
    threshold: float
    limit: int
    value: float
    points: int

    @property
    def rule(self) -> AssignmentRule:
        """The rule by which labels are assigned."""
        return AssignmentRule(self.threshold, self.limit)

    def __str__(self) -> str:
        return f"{self.output} at least {self.threshold:.6g}, at most {counted(self.limit, 'label')}"

    @classmethod
    def from_untrusted(cls, entry: object) -> Tuned | None:
        """Return what a model folder says, an object of JSON, or None if it is damaged."""
        if not isinstance(entry, dict) or entry.keys() != set(cls._fields):
            return None
        tuned = cls(**entry)
        numbers = tuned.threshold, tuned.value
        valid = (
            isinstance(tuned.metric, str)
            and tuned.metric in METRICS
            and tuned.output in OUTPUTS
            # True is an int. NumPy has no isfinite of integers beyond 64 bits.
            and all(type(number) in (int, float) and abs(number) <= sys.float_info.max for number in numbers)
            and (tuned.output != "probability" or 0 <= tuned.threshold <= 1)
            and all(type(number) is int and number > 0 for number in (tuned.limit, tuned.points))
        )
        return tuned if valid else None


def tune(
    predictor: Predictor,
    features: Features,
    labels: csr_array,
    metric: str = "f1-micro",
    output: str | None = None,
    progress: Progress = silent,
    before: Tuned | None = None,
    unknown: int = 0,
) -> tuple[Tuned, float | None]:
    """Choose the threshold and the limit of highest F1 for a model of two labels or more.

    Also return what the rule `before` reaches on these points, or None if it is for other scores.

    The points, with features as read, N×D, and true labels, a csr_array of bool, N×K, are some that the model was not
    trained on; the last `unknown` labels are none of the model's K, and count as missed. `metric` is one of `METRICS`,
    and `output` the scores that get a threshold, by default those of the model. SettingsError is raised for another
    metric, for points that do not have the model's numbers of features and labels, or if the model has one label or no
    point has a true one; NumericalError if a score is not finite.
    """
    N = features.N
    K = predictor.label_count
    if metric not in METRICS:
        raise SettingsError(f"metric must be one of {', '.join(METRICS)}, not {metric!r}")
    if K == 1:
        raise SettingsError("the model has one label, so there is no number of labels to tune")
    predictor.check(features.D)
    if labels.shape[1] != K + unknown:
        raise SettingsError(f"the points have {labels.shape[1]} labels, but the model was trained on {K}")
    if not np.any(labels.indices < K):
        reason = " that the model knows" if labels.nnz else ""
        raise SettingsError(f"no point has a true label{reason}, so there is nothing to tune for")
    output = output or predictor.default_output
    blocks = []
    with progress("tune", N, " points") as bar:
        for block in predictor.top(features, min(LONGEST, K), output):
            blocks.append(block)
            bar.update(block.N)
    scores = Scores.stack(blocks, K + unknown)
    threshold, limit, value = best_rule(scores, labels, metric)
    value_before = _f1(scores, labels, before.rule, metric) if before and before.output == output else None
    return Tuned(metric, output, threshold, limit, value, N), value_before


def best_rule(scores: Scores, labels: csr_array, metric: str) -> tuple[float, int, float]:
    """Return the threshold and limit of highest F1 for the best labels of each point, best first, and this F1.

    All pairs of a limit up to the longest list and a threshold between two scores are compared. Of equally good
    pairs, the one with the largest limit and then the highest threshold is chosen. The time is that of sorting the n
    listed scores, and n for each limit. `labels`, a csr_array of bool, N×K, has at least one true label. NumericalError
    is raised if a score is not finite.
    """
    scores.check_finite()
    K = labels.shape[1]
    points = scores.points.astype(np.int32)
    ranks = np.arange(len(points), dtype=np.int32) - scores.indptr[points].astype(np.int32)
    longest = int(ranks.max()) + 1
    order = np.argsort(-scores.scores, kind="stable")
    hits = are_true(scores.matrix, labels)
    if metric == "f1-micro":
        groups = np.zeros(len(order), np.int32)
        true = np.array([labels.nnz])
    elif metric == "f1-macro":
        groups = scores.labels
        true = np.bincount(labels.indices, minlength=K)
    else:
        groups = points
        true = np.diff(labels.indptr)
    pairs = (scores.scores[order], ranks[order], groups[order], hits[order])
    thresholds, values = np.empty((2, longest))

    def write(start: int, stop: int) -> None:
        for limit in range(start, stop):
            thresholds[limit], values[limit] = _best_threshold(*pairs, limit + 1, true, metric == "f1-macro")

    parallel_for(write, longest, 1)
    best = longest - 1 - int(np.argmax(values[::-1]))
    threshold = float(thresholds[best])
    limit = best + 1
    # The sums of differences in `values` have rounding errors.
    return threshold, limit, _f1(scores, labels, AssignmentRule(threshold, limit), metric)


def _f1(scores: Scores, labels: csr_array, rule: AssignmentRule, metric: str) -> float:
    """Return the F1 of the labels that a rule assigns."""
    return evaluate_assignment(scores.first(rule.sizes(scores)).matrix, labels)[METRICS[metric]]


@compiled
def _best_threshold(
    scores: NDArray[np.floating],
    ranks: NDArray[np.int32],
    groups: NDArray[np.int32],
    hits: NDArray[np.bool_],
    limit: int,
    true: NDArray[np.int64],
    joining: bool,
) -> tuple[float, float]:
    """Return the threshold of highest mean F1 over groups of pairs of a point and a label, and this mean.

    Scores, ranks from 0, groups and hits are those of the n pairs, in descending order of the scores. Pairs of the rank
    `limit` and beyond are not assigned. `true` has the number of true pairs of each group. If `joining`, a group
    without true pairs counts in the mean once one of its pairs is assigned; otherwise it never does.
    """
    assigned = np.zeros(len(true), np.int64)
    correct = np.zeros(len(true), np.int64)
    total = 0.0
    count = np.count_nonzero(true)
    threshold = np.inf
    best = -1.0
    last = np.inf
    for i in range(len(scores)):
        if ranks[i] >= limit:
            continue
        # Labels with equal scores are assigned together.
        if scores[i] < last and last < np.inf and total / count > best:
            # Halfway between two scores: rounding errors on another machine make no difference.
            threshold = (np.float64(last) + scores[i]) / 2
            best = total / count
        last = scores[i]
        group = groups[i]
        below = assigned[group] + true[group]
        if below > 0:
            total -= 2 * correct[group] / below
        else:
            count += joining
        assigned[group] += 1
        correct[group] += hits[i]
        total += 2 * correct[group] / (below + 1)
    if total / count > best:
        threshold = last
        best = total / count
    return threshold, best
