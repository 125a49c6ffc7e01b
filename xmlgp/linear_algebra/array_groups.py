"""Groups of arrays that describe themselves: the names, shapes, types and values of what a part of a model stores.

Model folders are untrusted, and compiled loops check neither shapes nor indices. So a part of a model declares its
arrays once, as an `ArrayGroup`, and `arrays_fit` checks those of a folder. Shapes are in letters, those of
docs/model-folder.md: "K P" is a matrix, "1+E" a vector, "" a number. A letter has the same size in all groups of a
model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "FLOAT",
    "REAL",
    "Array",
    "ArrayGroup",
    "arrays_fit",
    "at_least",
    "between",
    "csr_pattern",
    "is_not_empty",
    "is_positive",
    "numbers",
]

#: The size of each letter.
Sizes: TypeAlias = dict[str, int]

#: Whether the values of an array are allowed, given the sizes of letters.
Check: TypeAlias = Callable[[NDArray[Any], Sizes], bool]

#: The type of an array of float32 or float64, and of arrays that are all of the same of these types.
FLOAT = "float"
REAL = "real"


class Array(NamedTuple):
    """What an array must be: its shape in letters; its type, `FLOAT` or `REAL`; a check of values."""

    shape: str
    dtype: type | str = FLOAT
    check: Check | None = None

    def has_shape(self, array: NDArray[Any], sizes: Sizes) -> bool:
        """Return whether an array has this shape and type; letters without a size get theirs."""
        if self.dtype in (FLOAT, REAL):
            fits = array.dtype.type in (np.float32, np.float64)
        else:
            fits = np.issubdtype(array.dtype, self.dtype)
        if not fits:
            return False
        terms = self.shape.split()
        return len(terms) == array.ndim and all(map(_has_size, terms, array.shape, [sizes] * array.ndim))


def _has_size(term: str, size: int, sizes: Sizes) -> bool:
    """Return whether a size is that of "5", "K" or "1+K"."""
    if term.isdigit():
        return size == int(term)
    more = int(term.startswith("1+"))
    return sizes.setdefault(term[-1], size - more) == size - more


class ArrayGroup:
    """Arrays that a model has all of, or none. Names are those in a model; they begin with the prefix."""

    def __init__(self, prefix: str = "", /, **arrays: Array) -> None:
        self._prefix = prefix
        self.arrays = {prefix + name: array for name, array in arrays.items()}

    def is_in(self, parameters: Mapping[str, object]) -> bool:
        """Return whether a model has any of the arrays."""
        return not self.arrays.keys().isdisjoint(parameters)

    def read(self, parameters: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return those of the arrays that a model has, by their names without the prefix."""
        return {name.removeprefix(self._prefix): parameters[name] for name in self.arrays if name in parameters}

    def named(self, arrays: Mapping[str, NDArray[Any] | None]) -> dict[str, NDArray[Any]]:
        """Return arrays by their names in a model; None stands for none."""
        return {self._prefix + name: array for name, array in arrays.items() if array is not None}


def arrays_fit(parameters: Mapping[str, NDArray[Any]], groups: Mapping[ArrayGroup, bool | None], sizes: Sizes) -> bool:
    """Return whether the untrusted arrays of a model are those of some groups, and finite; sizes get more letters.

    A model must have a group of True, must not have one of False, and may have one of None.
    """
    present = {group: group.is_in(parameters) for group in groups}
    declared = {name: array for group in groups if present[group] for name, array in group.arrays.items()}
    real = {parameters[name].dtype for name in declared.keys() & parameters.keys() if declared[name].dtype == REAL}
    return (
        all(needed in (None, present[group]) for group, needed in groups.items())
        and parameters.keys() == declared.keys()
        and len(real) <= 1
        and all(array.has_shape(parameters[name], sizes) for name, array in declared.items())
        # Values last: an array of another shape may be a hole in a file.
        and all(array.check is None or array.check(parameters[name], sizes) for name, array in declared.items())
        and all(np.isfinite(array).all() for array in parameters.values())
    )


def is_positive(values: NDArray[Any], sizes: Sizes) -> bool:
    """Return whether all values are above zero."""
    return bool((values > 0).all())


def is_not_empty(values: NDArray[Any], sizes: Sizes) -> bool:
    """Return whether there are values. A file can claim any number of rows without elements."""
    return values.size > 0


def at_least(least: float) -> Check:
    """Return a check for values from `least` on."""
    return lambda values, sizes: bool((values >= least).all())


def between(low: float, high: float) -> Check:
    """Return a check for values from one number to another."""
    return lambda values, sizes: bool(((values >= low) & (values <= high)).all())


def numbers(letter: str, least: int = 0) -> Check:
    """Return a check for integers from `least` up to the size of a letter less one."""
    return lambda values, sizes: bool(((values >= least) & (values < sizes[letter])).all())


def csr_pattern(shape: str, count: str, indptr: str = "indptr", indices: str = "indices") -> dict[str, Array]:
    """Return the declarations of the index arrays of a csr_array, given its shape and the number of its elements."""
    rows, columns = shape.split()

    def are_starts(values: NDArray[Any], sizes: Sizes) -> bool:
        # Differences could overflow.
        return bool(values[0] == 0 and values[-1] == sizes[count] and (values[:-1] <= values[1:]).all())

    return {indptr: Array(f"1+{rows}", np.int64, are_starts), indices: Array(count, np.int32, numbers(columns))}
