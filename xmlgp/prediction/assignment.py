"""Assign labels to points: those at or above a threshold, at most so many, or those of the highest expected F1.

The expected F1 is that of labels which are independent given the point.
"""

from typing import NamedTuple

import numpy as np

from xmlgp.errors import SettingsError
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.prediction.predictor import MEMORY
from xmlgp.prediction.scores_file import Scores
from xmlgp.prediction.selection import MAX_STREAMED
from xmlgp.runtime.threads import parallel_for

__all__ = ["ABOVE_HALF", "AssignmentRule", "RestrictedPredictor", "assign", "highest_expected_f1"]

#: Labels that are listed of a point to find those above a threshold: the second number if all of the first are, all
#: labels if all of the second are.
_LISTED = (16, MAX_STREAMED)

#: Nodes of Gauss–Legendre quadrature. It is exact for polynomials of degree 127, and t^d has a relative error of 2·10⁻⁸
#: for d = 800.
_NODES = 64


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
        self._predictor = predictor
        self._allowed = allowed
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
    starts = scores.indptr[:-1].copy()
    counts = np.diff(scores.indptr)
    starts[points] = len(scores.labels) + others.indptr[:-1]
    counts[points] = np.diff(others.indptr)
    return Scores.stack([scores, others]).gather(starts, counts)


def highest_expected_f1(probabilities, limit=None):
    """Find the number of labels to assign to each point for the highest expected F1.

    F1 is 2 TP / (k + Y) for k assigned labels, of which TP are true, and Y true labels. It is 0 if no label is true, as
    such points are left out of the mean F1 (`metrics.assignment`), so at least one label is assigned. If labels are
    independent, the best k labels are those of highest probability [1]. Since 1/a = ∫ t^(a−1) dt over [0, 1] [2], their
    expected F1 is the integral of a polynomial:

        E F1 = 2 ∫ t^k Π_j q_j(t) Σ_{l≤k} p_l / q_l(t) dt,    q_j(t) = 1 − p_j + p_j t,

    with j over all labels. Quadrature with 64 nodes is exact for the outcomes with k + Y ≤ 128. Those with more labels
    count too little, with k + Y ≤ 800 by less than 2·10⁻⁸ of their F1. The time is linear in K, while the sums over
    outcomes of [3] take quadratic time.

    The probabilities, N×K, are those of all labels, in descending order for each point; at most `limit` labels are
    assigned. Returned are the number of labels of each point, N, of equally good ones the smallest (0 only if all
    probabilities are 0), and their expected F1, N. SettingsError is raised if a probability is not in [0, 1].

    [1] Lewis: Evaluating and optimizing autonomous text classification systems, SIGIR 1995.
    [2] Chao, Strawderman: Negative moments of positive random variables, JASA 67, 1972.
    [3] Ye, Chai, Lee, Chieu: Optimizing F-measure: a tale of two approaches, ICML 2012.
    """
    if not ((probabilities >= 0) & (probabilities <= 1)).all():
        raise SettingsError("a probability is not in [0, 1]")
    N, K = probabilities.shape
    largest = K if limit is None else min(limit, K)
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    nodes = (nodes + 1) / 2
    weights = weights / 2
    sizes = np.zeros(N, np.int64)
    values = np.empty(N)

    def part(start, stop):
        rows = slice(start, stop)
        _find_sizes(probabilities[rows], nodes, weights, largest, sizes[rows], values[rows])

    parallel_for(part, N, 1)
    return sizes, values


@compiled
def _find_sizes(probabilities, nodes, weights, largest, sizes, values):
    """Write the best size of each point and its expected F1."""
    count = len(nodes)
    factors = np.empty(count)
    sums = np.empty(count)
    for i in range(len(probabilities)):
        factors[:] = 2 * weights
        expected = 0.0
        for p in probabilities[i]:
            p = np.float64(p)
            expected += p
            for node in range(count):
                factors[node] *= 1 - p * (1 - nodes[node])
        sizes[i] = 0
        values[i] = 0
        sums[:] = 0
        for k in range(1, largest + 1):
            p = np.float64(probabilities[i, k - 1])
            value = 0.0
            for node in range(count):
                sums[node] += p / (1 - p * (1 - nodes[node]))
                factors[node] *= nodes[node]
                value += factors[node] * sums[node]
            if value > values[i]:
                sizes[i] = k
                values[i] = value
            # F1 is at most 2Y / (k + Y), which is concave in Y: no larger set is better.
            if 2 * expected <= values[i] * (k + expected):
                break
