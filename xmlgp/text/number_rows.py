"""Rows of numbers, of words or labels, and the sparse matrix of how often each occurs."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.data.dataset import as_csr

__all__ = ["NumberRows"]


class NumberRows:
    """Rows that each have some numbers: those of the words of a text, or of the labels of a point."""

    def __init__(self) -> None:
        self._numbers = array("i")
        self._ends = array("q", [0])

    def add(self, numbers: Iterable[int]) -> None:
        """Append a row."""
        self._numbers.extend(numbers)
        self._ends.append(len(self._numbers))

    def occurrences(self, count: int) -> NDArray[np.int64]:
        """Return how often each of the numbers below a count occurs."""
        return np.bincount(np.frombuffer(self._numbers, np.int32), minlength=count)

    def counts(self, columns: int, positions: NDArray[np.int32] | None = None) -> csr_array:
        """Return how often each number occurs in each row, N×`columns` in float32; negative numbers do not count.

        `positions` are the columns of the numbers, by default the numbers themselves.
        """
        numbers = np.frombuffer(self._numbers, np.int32)
        if positions is not None:
            numbers = positions[numbers]
        counted = numbers >= 0
        indptr = np.concatenate([[0], np.cumsum(counted)])[np.frombuffer(self._ends, np.int64)]
        indices = numbers[counted]
        matrix = as_csr(np.ones(len(indices), np.float32), indices, indptr, columns)
        matrix.sum_duplicates()
        return matrix
