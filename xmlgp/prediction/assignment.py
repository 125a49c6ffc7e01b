"""Assign labels to points: those at or above a threshold, at most so many, or those of the highest expected F1."""

from typing import NamedTuple

import numpy as np

from xmlgp.prediction.expected_f1 import highest_expected_f1
from xmlgp.prediction.predictor import MAX_STREAMED, MEMORY

__all__ = ["AssignmentRule", "assign"]

#: Labels that are listed of a point to find those above a threshold: the second number if all of the first are, all
#: labels if all of the second are.
_LISTED = (16, MAX_STREAMED)


class AssignmentRule(NamedTuple):
    """How many of its best labels are assigned to a point.

    Attributes
    ----------
    threshold : float, optional
        Labels with at least this score are assigned.
    limit : int, optional
        At most so many labels are assigned to a point.
    expected_f1 : bool
        Whether the labels with the highest expected F1 of the point are assigned, see `highest_expected_f1`. This needs
        probabilities, and no threshold.
    """

    threshold: float | None = None
    limit: int | None = None
    expected_f1: bool = False


def assign(predictor, features, rule, output=None, with_std=False, memory=MEMORY):
    """Yield the assigned labels of points with their scores (`Scores`), a chunk of points at a time.

    Parameters
    ----------
    predictor : Predictor
    features : csr_array, N×D
        As read, without weighting.
    rule : AssignmentRule
    output : str, optional
        The scores, see `Predictor.top`; probabilities if the rule is about the expected F1.
    with_std : bool
    memory : int
        Megabytes that a chunk may take, not including the model.

    Raises
    ------
    SettingsError
        If the points do not have the model's number of features.
    NumericalError
        If a score is not finite.
    """
    if rule.expected_f1:
        yield from _with_highest_expected_f1(predictor, features, rule.limit, with_std, memory)
    elif rule.threshold is None:
        yield from predictor.top(features, rule.limit, output, with_std, memory)
    else:
        yield from _above(predictor, features, rule, output, with_std, memory, _LISTED)


def _with_highest_expected_f1(predictor, features, limit, with_std, memory):
    done = 0
    for ranked in predictor.top(features, None, "probability", False, memory):
        ranked.check_finite(done)
        sizes, _ = highest_expected_f1(ranked.scores.reshape(ranked.N, -1), limit)
        if with_std and sizes.any():
            # Those of all labels would take far longer.
            chunk = features[done : done + ranked.N]
            blocks = predictor.top(chunk, int(sizes.max()), "probability", True, memory)
            yield type(ranked).stack(list(blocks)).first(sizes)
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
        # In double precision, as the threshold.
        sizes = np.count_nonzero(ranked.scores.reshape(ranked.N, k) >= np.float64(rule.threshold), axis=1)
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
    return type(scores).stack([scores, others]).gather(starts, counts)
