"""Declarations of the arrays that a model stores: their names, shapes, types and allowed values.

Model folders are untrusted, and compiled loops check neither shapes nor indices. Each component of a model therefore
declares its arrays as an `ArrayGroup`, and `arrays_fit` checks the arrays of a folder against the declarations. A shape
is written with the letters of docs/model-folder.md: "K P" is a matrix, "1+E" a vector of E + 1 elements, "" a scalar.
A letter has the same size in all groups of a model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ANY_FLOAT",
    "COMMON_FLOAT",
    "Array",
    "ArrayGroup",
    "arrays_fit",
    "at_least",
    "csr_pattern",
    "is_not_empty",
    "is_positive",
    "indices_below",
]

#: The size that each letter of a shape stands for.
Sizes: TypeAlias = dict[str, int]

#: A function that returns whether the values of an array are allowed, given the sizes of letters.
Check: TypeAlias = Callable[[NDArray[Any], Sizes], bool]

#: The declared type of an array that is float32 or float64.
ANY_FLOAT = "float"

#: The declared type of arrays that are all float32 or all float64.
COMMON_FLOAT = "real"


class Array(NamedTuple):
    """The declaration of an array: its shape in letters, its type, and a check of its values, if any.

    The type is `ANY_FLOAT`, `COMMON_FLOAT` or one of NumPy, which includes its subtypes.
    """

    shape: str
    dtype: type | str = ANY_FLOAT
    check: Check | None = None

    def matches(self, array: NDArray[Any], sizes: Sizes) -> bool:
        """Return whether an array has this shape and type; write the sizes of letters that have none yet to `sizes`."""
        if self.dtype in (ANY_FLOAT, COMMON_FLOAT):
            fits = array.dtype.type in (np.float32, np.float64)
        else:
            fits = np.issubdtype(array.dtype, self.dtype)
        if not fits:
            return False
        terms = self.shape.split()
        return len(terms) == array.ndim and all(
            _has_size(term, size, sizes) for term, size in zip(terms, array.shape, strict=True)
        )


def _has_size(term: str, size: int, sizes: Sizes) -> bool:
    """Return whether a dimension has the size of its term, such as "5", "K" or "1+K"; a new letter gets its size."""
    if term.isdigit():
        return size == int(term)
    offset = int(term.startswith("1+"))
    return sizes.setdefault(term[-1], size - offset) == size - offset


class ArrayGroup:
    """Declarations of arrays that a model has either all or none of.

    `arrays` maps the names in the model, the prefix followed by the name of the argument, to the declarations.
    """

    def __init__(self, prefix: str = "", /, **arrays: Array) -> None:
        self._prefix = prefix
        self.arrays = {prefix + name: array for name, array in arrays.items()}

    def is_in(self, parameters: Mapping[str, object]) -> bool:
        """Return whether a model has any of the arrays; `arrays_fit` refuses a model that has only some of them."""
        return not self.arrays.keys().isdisjoint(parameters)

    def read(self, parameters: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return the arrays of the group that a model has, by their names without the prefix."""
        return {name.removeprefix(self._prefix): parameters[name] for name in self.arrays if name in parameters}

    def named(self, arrays: Mapping[str, NDArray[Any] | None]) -> dict[str, NDArray[Any]]:
        """Return arrays by their names in a model, without those that are None."""
        return {self._prefix + name: array for name, array in arrays.items() if array is not None}


def arrays_fit(parameters: Mapping[str, NDArray[Any]], groups: Mapping[ArrayGroup, bool | None], sizes: Sizes) -> bool:
    """Return whether the untrusted arrays of a model match the declarations of groups and are finite.

    `groups` maps each group to True if a model must have it, False if it must not, and None if it may. No other arrays
    are allowed. The sizes of letters that have none yet are written to `sizes`.
    """
    present = {group: group.is_in(parameters) for group in groups}
    declared = {name: array for group in groups if present[group] for name, array in group.arrays.items()}
    common_types = {
        parameters[name].dtype for name in declared.keys() & parameters.keys() if declared[name].dtype == COMMON_FLOAT
    }
    return (
        all(needed in (None, present[group]) for group, needed in groups.items())
        and parameters.keys() == declared.keys()
        and len(common_types) <= 1
        and all(array.matches(parameters[name], sizes) for name, array in declared.items())
        # Values are checked last: reading an array of a wrong shape, whose file may be sparse, could exhaust memory.
        and all(array.check is None or array.check(parameters[name], sizes) for name, array in declared.items())
        and all(np.isfinite(array).all() for array in parameters.values())
    )


def is_positive(values: NDArray[Any], sizes: Sizes) -> bool:
    """Return whether all values are above zero."""
    return bool((values > 0).all())


def is_not_empty(values: NDArray[Any], sizes: Sizes) -> bool:
    """Return whether there are values: without this check, an array without elements can claim any number of rows."""
    return values.size > 0


def at_least(least: float, most: float = np.inf) -> Check:
    """Return a check for values from `least` to `most`, both included."""
    return lambda values, sizes: bool(((values >= least) & (values <= most)).all())


def indices_below(letter: str, least: int = 0) -> Check:
    """Return a check for integers from `least` to the size of a letter minus one."""
    return lambda values, sizes: bool(((values >= least) & (values < sizes[letter])).all())


def csr_pattern(shape: str, count: str, indptr: str = "indptr", indices: str = "indices") -> dict[str, Array]:
    """Return the declarations of the index arrays of a csr_array.

    `shape` has two letters, such as "N D", `count` is the letter of the number of stored elements, and `indptr` and
    `indices` are the names of the arrays.
    """
    rows, columns = shape.split()

    def are_starts(values: NDArray[Any], sizes: Sizes) -> bool:
        # Neighbouring values are compared, because their differences could overflow.
        return bool(values[0] == 0 and values[-1] == sizes[count] and (values[:-1] <= values[1:]).all())

    return {indptr: Array(f"1+{rows}", np.int64, are_starts), indices: Array(count, np.int32, indices_below(columns))}
