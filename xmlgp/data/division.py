"""Choose the test points of a data set: at random, by group, or the last ones."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from xmlgp.runtime.errors import SettingsError, UsageError
from xmlgp.runtime.plurals import counted

__all__ = ["choose_test_points"]


def choose_test_points(
    groups: Sequence[Hashable], test: float, in_order: bool = False, seed: int = 0
) -> NDArray[np.bool_]:
    """Return whether each of N points is a test point.

    Parameters
    ----------
    groups : sequence of N values
        Points of the same value are all in one part; None and an empty text are no value.
    test : float
        The share of test points, below 1, or their number.
    in_order : bool
        Whether the last points are chosen; otherwise they are chosen at random.
    seed : int
        Of the random choice.
    """
    N = len(groups)
    share = test if test < 1 else test / max(N, 1)
    if not 0 < share < 1 or (test > 1 and test % 1):
        number = f"a whole number of points below {N}"
        raise UsageError(f"The test part is a share between 0 and 1, such as 0.25, or {number}, not {test:g}.")
    # A point without a value is a group of its own.
    numbers: dict[Hashable, int] = {}
    keys = [(point,) if value in (None, "") else value for point, value in enumerate(groups)]
    group_of = np.array([numbers.setdefault(key, len(numbers)) for key in keys])
    sizes = np.bincount(group_of)
    # Groups are numbered in the order of their first points.
    order = np.arange(len(sizes))[::-1] if in_order else np.random.default_rng(seed).permutation(len(sizes))
    missing = min(max(1, round(share * N)), N - 1)
    chosen = np.zeros(len(sizes), bool)
    for group in order.tolist():
        if 2 * missing >= sizes[group]:
            chosen[group] = True
            missing -= sizes[group]
    is_test: NDArray[np.bool_] = chosen[group_of]
    if is_test.all() or not is_test.any():
        raise SettingsError(f"{counted(N, 'point')} in {counted(len(sizes), 'group')} cannot be divided like this")
    return is_test
