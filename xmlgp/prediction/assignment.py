"""Assign labels to points: those at or above a threshold, at most so many, or those of the highest expected F1."""

from typing import NamedTuple

import numpy as np

from xmlgp.prediction.expected_f1 import highest_expected_f1
from xmlgp.prediction.predictor import MAX_STREAMED, MEMORY
from xmlgp.prediction.scores_file import Scores

__all__ = ["ABOVE_HALF", "AssignmentRule", "RestrictedPredictor", "assign"]

#: Labels that are listed of a point to find those above a threshold: the second number if all of the first are, all
#: labels if all of the second are.
_LISTED = (16, MAX_STREAMED)


class AssignmentRule(NamedTuple):
    """How many of its best labels are assigned to a point.

    These are the labels with at least the score `threshold`, or, if `expected_f1`, those with the highest expected F1
    of the point, see `highest_expected_f1`, which needs probabilities and no threshold; in any case at most `limit`.
    """

    threshold: float | None = None
    limit: int | None = None
    expected_f1: bool = False

    def sizes(self, scores: Scores) -> np.ndarray:
        """Return how many labels are assigned to each point, N: the first ones of its list, which is best first.

        Labels that are not listed count as false. SettingsError is raised if the rule is about the expected F1 and a
        score is not in [0, 1].
        """
        lengths = np.diff(scores.indptr)
        if self.expected_f1:
            return np.minimum(highest_expected_f1(scores.table(), self.limit)[0], lengths)
        if self.threshold is not None:
            # In double precision, as the threshold.
            above = scores.scores >= np.float64(self.threshold)
            lengths = np.bincount(scores.points[above], minlength=scores.N)
        return lengths if self.limit is None else np.minimum(lengths, self.limit)


#: The rule of a model that is not tuned: a probability above one half, not equal to it.
ABOVE_HALF = AssignmentRule(float(np.nextafter(0.5, 1)))


class RestrictedPredictor:
    """A predictor that lists allowed labels only (ndarray of bool, K); their scores are those among all labels.

    At least one label is allowed. Of a `Predictor` it has what `assign` needs.
    """

    def __init__(self, predictor, allowed):
        self._predictor, self._allowed = predictor, allowed
        self.label_count = int(np.count_nonzero(allowed))

    def top(self, features, k, output=None, with_std=False, memory=MEMORY):
        """Yield the allowed labels of highest score (`Scores`), a chunk of points at a time; see `Predictor.top`."""
        k = min(k or self.label_count, self.label_count)
        # So many labels contain the k best that are allowed.
        listed = k + len(self._allowed) - self.label_count
        for ranked in self._predictor.top(features, listed, output, with_std, memory):
            places = np.argsort(~self._allowed[ranked.labels.reshape(-1, listed)], axis=1, kind="stable")[:, :k]
            labels, scores, std = (
                None if array is None else np.take_along_axis(array.reshape(-1, listed), places, axis=1)
                for array in (ranked.labels, ranked.scores, ranked.std)
            )
            yield Scores.from_top(labels, scores, ranked.K, std)


def assign(predictor, features, rule, output=None, with_std=False, memory=MEMORY):
    """Yield the assigned labels of points with their scores (`Scores`), a chunk of points at a time.

    The arguments are those of `Predictor.top`, with an `AssignmentRule` in place of k; a rule about the expected F1 is
    one of probabilities, whatever the output. NumericalError is raised if a score is not finite.
    """
    if rule.expected_f1:
        yield from _with_highest_expected_f1(predictor, features, rule, with_std, memory)
    elif rule.threshold is None:
        yield from predictor.top(features, rule.limit, output, with_std, memory)
    else:
        yield from _above(predictor, features, rule, output, with_std, memory, _LISTED)


def _with_highest_expected_f1(predictor, features, rule, with_std, memory):
    done = 0
    for ranked in predictor.top(features, None, "probability", False, memory):
        ranked.check_finite(done)
        sizes = rule.sizes(ranked)
        if with_std and sizes.any():
            # Those of all labels would take far longer.
            chunk = features[done : done + ranked.N]
            blocks = predictor.top(chunk, int(sizes.max()), "probability", True, memory)
            yield Scores.stack(list(blocks)).first(sizes)
        else:
            yield ranked.first(sizes)
        done += ranked.N


def _above(predictor, features, rule, output, with_std, memory, listed):
    """Yield the labels at or above the threshold, from lists of as many labels as `listed` says and then from all."""
    most = min(rule.limit or predictor.label_count, predictor.label_count)
    k = min(*listed[:1], most) if listed else most
    # While points are listed again, their chunk stays in memory.
    share = memory if k == most else max(1, memory // 2)
    done = 0
    for ranked in predictor.top(features, k, output, with_std, share):
        ranked.check_finite(done)
        chunk = features[done : done + ranked.N]
        done += ranked.N
        sizes = rule.sizes(ranked)
        found = ranked.first(sizes)
        unsure = np.flatnonzero(sizes == k) if k < most else np.empty(0, int)
        first = 0
        for longer in _above(predictor, chunk[unsure], rule, output, with_std, share, listed[1:]):
            points, unsure = np.split(unsure, [longer.N])
            yield _replaced(found.rows(first, points[-1] + 1), points - first, longer)
            first = points[-1] + 1
        if first < found.N:
            yield found.rows(first, found.N)


def _replaced(scores, points, others):
    """Return scores with those of some points replaced by others."""
    starts, counts = scores.indptr[:-1].copy(), np.diff(scores.indptr)
    starts[points], counts[points] = len(scores.labels) + others.indptr[:-1], np.diff(others.indptr)
    return Scores.stack([scores, others]).gather(starts, counts)
