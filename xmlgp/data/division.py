"""Choose the test points of a data set: at random, by group, or the last ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from xmlgp.runtime.errors import UsageError

__all__ = ["choose_test_points", "numbered_groups"]


def choose_test_points(
    groups: Sequence[int], test: float, in_order: bool = False, seed: int | np.random.Generator = 0
) -> NDArray[np.bool_]:
    """Return whether each of N points is a test point; none or all may be, where groups are large.

    Parameters
    ----------
    groups : sequence of N numbers
        Points of the same number are all in one part; 0 is no group.
    test : float
        The share of test points, below 1, or their number.
    in_order : bool
        Whether the last points are chosen; otherwise they are chosen at random.
    seed : int or Generator
        Of the random choice.
    """
    N = len(groups)
    share = test if test < 1 else test / max(N, 1)
    if not 0 < share < 1 or (test > 1 and test % 1):
        number = f"a whole number of points below {N}"
        raise UsageError(f"The test part is a share between 0 and 1, such as 0.25, or {number}, not {test:g}.")
    group_of = numbered_groups(groups)
    sizes = np.bincount(group_of)
    # Groups are numbered in the order of their first points.
    order = np.arange(len(sizes))[::-1] if in_order else np.random.default_rng(seed).permutation(len(sizes))
    missing = min(max(1, round(share * N)), N - 1)
    chosen = []
    for group in order.tolist():
        if 2 * missing >= sizes[group]:
            chosen.append(group)
            missing -= sizes[group]
    return np.isin(group_of, chosen)


def numbered_groups(groups: Sequence[int]) -> NDArray[np.int64]:
    """Return the groups of N points as numbers from 0, in the order of their first points; each 0 becomes a group."""
    numbers: dict[int, int] = {}
    return np.array([numbers.setdefault(group or -1 - point, len(numbers)) for point, group in enumerate(groups)])
