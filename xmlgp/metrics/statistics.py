"""A measure as a function of sums over points, from which both its value and its interval are computed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

__all__ = ["Columns", "Statistic", "by_group", "group_sums", "ratio", "values"]

#: What each of N points adds to each of c sums, N×c.
Columns: TypeAlias = "NDArray[np.float64] | csr_array"


@dataclass(frozen=True, eq=False)
class Statistic:
    """A measure as a function of sums over points.

    Attributes
    ----------
    columns : ndarray of float64 or csr_array, N×c
        What each point adds to each of c sums. Points with zeros only do not count. Measures that share the object are
        resampled in less time.
    function : callable
        Returns S values, given the sums of each of S sets of points, an ndarray of float64, S×c.
    most : float
        The highest value; the lowest is 0.
    is_mean : bool
        Whether the value is a mean over points or labels, weighted or not, of numbers from 0 to `most`.
    limit : float
        The highest value that the labels of these points allow; intervals end there.
    """

    columns: Columns
    function: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    most: float = math.inf
    is_mean: bool = True
    limit: float = math.inf

    @property
    def is_bounded_mean(self) -> bool:
        """Whether the value is a mean of bounded numbers."""
        return self.is_mean and math.isfinite(self.most)

    @property
    def value(self) -> float:
        """The measure of all points; NaN if it is undefined."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(self.function(np.asarray(self.columns.sum(axis=0), dtype=np.float64)[None])[0])


def values(statistics: Mapping[str, Statistic]) -> dict[str, float]:
    """Return the values of measures by their names."""
    return {name: statistic.value for name, statistic in statistics.items()}


def by_group(statistics: Mapping[str, Statistic], groups: NDArray[np.integer]) -> dict[str, Statistic]:
    """Return the same measures with the sums of groups in place of points, which are then what is resampled.

    `groups`, N, has the number of the group of each point, from 0.
    """
    sums = group_sums(groups)
    return {name: replace(statistic, columns=sums @ statistic.columns) for name, statistic in statistics.items()}


def group_sums(groups: NDArray[np.integer]) -> csr_array:
    """Return the matrix that sums N points in groups, G×N, given the number of the group of each point, from 0."""
    N = len(groups)
    return csr_array((np.ones(N), (groups, np.arange(N))))


def ratio(above: ArrayLike, below: ArrayLike, factor: float = 100.0, most: float = 100.0) -> Statistic:
    """Return the statistic factor · Σ_i a_i / Σ_i b_i of N points, given a and b, N each; `most` as for `Statistic`."""
    columns = np.column_stack([np.asarray(above, dtype=np.float64), np.asarray(below, dtype=np.float64)])
    return Statistic(columns, partial(_ratio, factor), most)


def _ratio(factor: float, sums: NDArray[np.float64]) -> NDArray[np.float64]:
    return factor * sums[:, 0] / sums[:, 1]
