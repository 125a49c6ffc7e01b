"""Assign labels to points: those at or above a threshold, at most so many, or those of the highest expected F1.

The expected F1 is that of labels which are independent given the point.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from xmlgp.data.dataset import Features
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.prediction.predictor import MAX_STREAMED, Predictor
from xmlgp.prediction.scores_file import Scores
from xmlgp.runtime.errors import SettingsError
from xmlgp.runtime.threads import parallel_for

__all__ = ["ABOVE_HALF", "AssignmentRule", "assign", "highest_expected_f1"]

#: The length of the lists in which labels above a threshold are sought; where all of a list are, all labels are ranked.
LISTED = MAX_STREAMED

#: Nodes of Gauss–Legendre quadrature. It is exact for polynomials of degree 127, and t^d has a relative error of 2·10⁻⁸
#: for d = 800.
NODES = 64


class AssignmentRule(NamedTuple):
    """How many of its best labels are assigned to a point.

    These are the labels with at least the score `threshold`, or, if `expected_f1`, those with the highest expected F1
    of the point, see `highest_expected_f1`, which needs probabilities and no threshold; in any case at most `limit`.
    """

    threshold: float | None = None
    limit: int | None = None
    expected_f1: bool = False

    def sizes(self, scores: Scores) -> NDArray[np.int64]:
        """Return how many labels are assigned to each point, N: the first ones of its list, which is best first.

        Labels that are not listed count as false. SettingsError is raised if the rule needs probabilities and a score
        is not in [0, 1].
        """
        lengths = np.diff(scores.indptr)
        if self.expected_f1:
            return np.minimum(highest_expected_f1(scores.table(), self.limit)[0], lengths)
        if self.threshold is not None:
            # In double precision, as the threshold.
            above = scores.scores >= np.float64(self.threshold)
            lengths = np.bincount(scores.points[above], minlength=scores.N)
        return lengths if self.limit is None else np.minimum(lengths, self.limit)


#: The threshold of the estimators: a probability above one half, not equal to it.
ABOVE_HALF = float(np.nextafter(0.5, 1))


def assign(
    predictor: Predictor, features: Features, rule: AssignmentRule, output: str | None = None, with_std: bool = False
) -> Iterator[Scores]:
    """Yield the assigned labels of points with their scores (`Scores`), a chunk of points at a time.

    The arguments are those of `Predictor.top`, with a rule in place of k; a rule about the expected F1 uses
    probabilities, whatever the output. NumericalError is raised if a score is not finite.
    """
    most = min(rule.limit or predictor.label_count, predictor.label_count)
    k = most
    if rule.expected_f1:
        # F1 depends on all labels.
        k, output = predictor.label_count, "probability"
    elif rule.threshold is not None:
        k = min(most, LISTED)
    done = 0
    for ranked in predictor.top(features, k, output, with_std):
        ranked.check_finite(done)
        sizes = rule.sizes(ranked)
        if k < most and (sizes == k).any():
            # More labels than are listed may be above the threshold.
            first = done
            for longer in predictor.top(features[done : done + ranked.N], most, output, with_std):
                longer.check_finite(first)
                first += longer.N
                yield longer.first(rule.sizes(longer))
        else:
            yield ranked.first(sizes)
        done += ranked.N


def highest_expected_f1(
    probabilities: NDArray[np.floating], limit: int | None = None
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
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
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    nodes = (nodes + 1) / 2
    weights = weights / 2
    sizes = np.zeros(N, np.int64)
    values = np.empty(N)

    def write(start: int, stop: int) -> None:
        rows = slice(start, stop)
        _find_sizes(probabilities[rows], nodes, weights, largest, sizes[rows], values[rows])

    parallel_for(write, N, 1)
    return sizes, values


@compiled
def _find_sizes(
    probabilities: NDArray[np.floating],
    nodes: NDArray[np.float64],
    weights: NDArray[np.float64],
    largest: int,
    sizes: NDArray[np.int64],
    values: NDArray[np.float64],
) -> None:
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
