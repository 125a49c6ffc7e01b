"""Dense features from a .npy file or an array, whose rows follow the points of other data."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmlgp.data.dataset import Dataset, Features, array_blocks
from xmlgp.runtime.errors import SettingsError
from xmlgp.runtime.npy import map_array
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.untrusted_text import excerpt

__all__ = ["DenseRows", "read_dense"]

#: The types of numbers that are kept; others become single precision.
TYPES = [np.dtype(name) for name in ("float16", "float32", "float64")]


@dataclass(frozen=True, eq=False)
class DenseRows:
    """Dense features, N×E, whose rows follow the points of other data. Messages call them `name`, and those `data`."""

    array: NDArray[Any]
    name: str
    data: str

    def check(self, N: int, more: bool = False) -> None:
        """Raise SettingsError unless there are N rows, or at least N if the data may have `more` than N points."""
        rows = len(self.array)
        if rows < N or not (more or rows == N):
            points = f"{counted(N, 'point')}{' or more' if more else ''}"
            raise SettingsError(f"{self.name} has {counted(rows, 'row')}, but {self.data} has {points}")

    def beside(self, dataset: Dataset, start: int = 0) -> Dataset:
        """Return the points of a `Dataset` with their dense features, the rows from `start` on."""
        rows = self.array[start : start + dataset.N]
        return replace(dataset, features=Features(dataset.features.sparse, rows))


def read_dense(dense: Any, data: str) -> DenseRows:
    """Return the `DenseRows` of a path or an array N×E; messages call the other data `data`.

    A file is mapped into memory. SettingsError is raised unless it has numbers in two dimensions that are finite in
    single precision.
    """
    is_path = isinstance(dense, str | os.PathLike)
    name = os.fspath(dense) if is_path else "`dense`"
    try:
        array = np.asarray(map_array(name) if is_path else dense)
    except ValueError:
        raise SettingsError(f"{name}: this is not a complete .npy file of numbers") from None
    if array.ndim != 2 or not array.shape[1] or array.dtype.kind not in "biuf":
        found = f"{array.shape} of {excerpt(str(array.dtype))}"
        raise SettingsError(f"{name}: dense features are numbers, an array N×E with a row for each point, not {found}")
    if array.dtype not in TYPES:
        array = array.astype(np.float32)
    for rows in array_blocks(array):
        with np.errstate(over="ignore"):
            finite = np.isfinite(array[rows].astype(np.float32)).all(axis=1)
        if not finite.all():
            row = rows.start + int(finite.argmin())
            raise SettingsError(f"{name}: row {row}, counted from 0, has a number that single precision has not")
    return DenseRows(array, name, data)
