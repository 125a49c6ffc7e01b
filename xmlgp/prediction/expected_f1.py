"""The set of labels of a point with the highest expected F1, for labels that are independent given the point."""

import numpy as np

from xmlgp.errors import SettingsError
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.runtime.threads import parallel_for

__all__ = ["highest_expected_f1"]

#: Nodes of Gauss–Legendre quadrature. It is exact for polynomials of degree 127, and t^d has a relative error of 2·10⁻⁸
#: for d = 800.
_NODES = 64


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
    nodes, weights = (nodes + 1) / 2, weights / 2
    sizes, values = np.zeros(N, np.int64), np.empty(N)

    def part(start, stop):
        rows = slice(start, stop)
        _find_sizes(probabilities[rows], nodes, weights, largest, sizes[rows], values[rows])

    parallel_for(part, N, 1)
    return sizes, values


@compiled
def _find_sizes(probabilities, nodes, weights, largest, sizes, values):
    """Write the best size of each point and its expected F1."""
    count = len(nodes)
    factors, sums = np.empty(count), np.empty(count)
    for i in range(len(probabilities)):
        factors[:] = 2 * weights
        expected = 0.0
        for p in probabilities[i]:
            p = np.float64(p)
            expected += p
            for node in range(count):
                factors[node] *= 1 - p * (1 - nodes[node])
        sizes[i], values[i] = 0, 0
        sums[:] = 0
        for k in range(1, largest + 1):
            p = np.float64(probabilities[i, k - 1])
            value = 0.0
            for node in range(count):
                sums[node] += p / (1 - p * (1 - nodes[node]))
                factors[node] *= nodes[node]
                value += factors[node] * sums[node]
            if value > values[i]:
                sizes[i], values[i] = k, value
            # F1 is at most 2Y / (k + Y), which is concave in Y: no larger set is better.
            if 2 * expected <= values[i] * (k + expected):
                break
