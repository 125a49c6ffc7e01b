"""Choose the test points of a data set: at random, stratified by labels, by group, or the last ones.

Stratified points are chosen by iterative stratification (Sechidis et al., 2011): the undecided points of a label are
divided after those of all rarer labels. Here the number of them for testing is rounded at random, so that labels of few
points are nearly as frequent in both parts in expectation, and the parts have exactly the size that is asked for. As
the labels of a point overlap, the smaller part has a little more of them: 13 % of the points of labels with four to
seven, and 12 % of those with eight to 31, where 10 % of 5,000 points were asked for.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import bmat, csr_array, hstack
from scipy.sparse.csgraph import connected_components

from xmlgp.errors import SettingsError, UsageError
from xmlgp.runtime.plurals import counted

__all__ = ["METHODS", "choose_test_points"]

#: How test points are chosen.
METHODS = ("random", "stratified", "in-order")


def choose_test_points(
    labels: csr_array, groups: Sequence[Sequence[Hashable]], test: float, method: str, seed: int
) -> NDArray[np.bool_]:
    """Return whether each of N points is a test point.

    Parameters
    ----------
    labels : csr_array of bool, N×K
    groups : sequence of sequence, each of N values
        Points of the same value are all in one part; None and an empty text are no value.
    test : float
        The share of test points, below 1, or their number.
    method : str
        One of `METHODS`.
    seed : int
    """
    N = labels.shape[0]
    share = test if test < 1 else test / N
    if not 0 < share < 1 or (test > 1 and test % 1):
        number = f"a whole number of points below {N}"
        raise UsageError(f"The test part is a share between 0 and 1, such as 0.25, or {number}, not {test:g}.")
    test_size = min(max(1, round(share * N)), N - 1)
    first_points, unit_of = _units(groups, N)
    sizes = np.bincount(unit_of)
    random = np.random.default_rng(seed)
    order = np.argsort(-first_points) if method == "in-order" else random.permutation(len(sizes))
    units: list[NDArray[np.int64]] = []
    if method == "stratified":
        pairs = labels.tocoo()
        places = np.argsort(order)[unit_of[pairs.row]]
        by_label = csr_array((pairs.data, (pairs.col, places)), shape=(labels.shape[1], len(order)))
        by_label.sum_duplicates()
        # In one random order for all labels, which leaves them closer to their shares than an order for each.
        units = [order[some] for some in np.split(by_label.indices, by_label.indptr[1:-1])]
    # Nothing can be done for a label whose points are all in one unit.
    rarest_first = sorted((some for some in units if len(some) > 1), key=len)
    part = np.full(len(sizes), -1)
    left = [N - test_size, test_size]
    for some in [*rarest_first, order]:
        count = np.inf if some is order else share * len(some) + random.random() - np.count_nonzero(part[some] == 1)
        for unit in some[part[some] < 0].tolist():
            side = int(count >= 1)
            if 2 * left[side] < sizes[unit]:
                side = 1 - side
            left[side] -= sizes[unit]
            count -= side
            part[unit] = side
    is_test: NDArray[np.bool_] = part[unit_of] == 1
    if is_test.all() or not is_test.any():
        raise SettingsError(f"{counted(N, 'point')} in {counted(len(sizes), 'group')} cannot be divided like this")
    return is_test


def _units(groups: Sequence[Sequence[Hashable]], N: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first point of each unit, which no group leads out of, and the unit of each point."""
    members = [csr_array((N, 0))]
    for values in groups:
        numbers: dict[Hashable, int] = {}
        if len(values) != N:
            raise UsageError(f"There are groups of {counted(len(values), 'point')}, but {counted(N, 'point')}.")
        # A point without a value is a group of its own.
        keys = [(point,) if value in (None, "") else value for point, value in enumerate(values)]
        columns = [numbers.setdefault(key, len(numbers)) for key in keys]
        members.append(csr_array((np.ones(N), columns, np.arange(N + 1)), shape=(N, len(numbers))))
    membership = hstack(members)
    _, component = connected_components(bmat([[None, membership], [membership.T, None]]), directed=False)
    _, first, unit_of = np.unique(component[:N], return_index=True, return_inverse=True)
    return first, unit_of
