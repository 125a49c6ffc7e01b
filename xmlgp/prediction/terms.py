"""Terms of utilities: what each adds for a block of labels, for some labels of each point, and in an explanation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.linear_algebra.compiled import compiled
from xmlgp.linear_algebra.sparse import arrays_of, first_not_below
from xmlgp.prediction.contributions import Contributions

__all__ = ["Pairs", "Prepared", "Term", "Utilities"]


class Pairs(NamedTuple):
    """Some labels of each of B points, n in all: those of point i are `labels[indptr[i]:indptr[i + 1]]`."""

    indptr: NDArray[np.integer]
    labels: NDArray[np.integer]

    @classmethod
    def from_table(cls, labels: NDArray[np.integer]) -> Pairs:
        """Return the pairs of the same number of labels for every point, B×k."""
        return cls(np.arange(0, labels.size + 1, labels.shape[1]), labels.ravel())

    def repeat(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the value of the point of each pair, n, given those of points, B."""
        return np.repeat(values, np.diff(self.indptr))

    def elements(self, matrix: csr_array) -> NDArray[Any]:
        """Return the element of each pair, n, in a matrix with sorted indices, B×K; 0 where there is none."""
        elements = np.zeros(len(self.labels), matrix.dtype)
        _look_up(arrays_of(matrix), self.indptr, self.labels, elements)
        return elements


class Term(Protocol):
    """A term of utilities, given what was prepared of B points for it."""

    def block(
        self, points: Any, labels: slice, mean: NDArray[np.floating], variance: NDArray[np.floating] | None
    ) -> None:
        """Change the moments of the utilities of a block of labels, B×L, in place; the variance may be left out."""

    def pairs(
        self, points: Any, pairs: Pairs, mean: NDArray[np.floating], variance: NDArray[np.floating] | None
    ) -> None:
        """Change the moments of the utilities of pairs, n, in place; the variance may be left out."""

    def explain(self, points: Any, pairs: Pairs, weighted: csr_array, contributions: Contributions) -> None:
        """Change the contributions to the utilities of pairs in place, given the weighted features of each, n×D."""


class Prepared(NamedTuple):
    """What was prepared of B points for each term, in their order."""

    size: int
    of_terms: Sequence[Any]


class Utilities(NamedTuple):
    """The utilities of K labels: the bias, K, changed by one term after the other."""

    bias: NDArray[np.floating]
    terms: Sequence[Term]

    def moments(
        self, points: Prepared, labels: slice | NDArray[np.integer]
    ) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """Return mean and variance of the utilities of a block of labels, or of some labels of each point, B×L."""
        mean = self._biases(points, labels)
        variance = np.zeros_like(mean)
        self._change(points, labels, mean, variance)
        return mean, variance

    def means(self, points: Prepared, labels: slice | NDArray[np.integer]) -> NDArray[np.floating]:
        """Return the means alone, B×L."""
        mean = self._biases(points, labels)
        self._change(points, labels, mean, None)
        return mean

    def _biases(self, points: Prepared, labels: slice | NDArray[np.integer]) -> NDArray[np.floating]:
        return np.tile(self.bias[labels], (points.size, 1)) if isinstance(labels, slice) else self.bias[labels]

    def _change(
        self,
        points: Prepared,
        labels: slice | NDArray[np.integer],
        mean: NDArray[np.floating],
        variance: NDArray[np.floating] | None,
    ) -> None:
        if isinstance(labels, slice):
            for term, inputs in zip(self.terms, points.of_terms, strict=True):
                term.block(inputs, labels, mean, variance)
        else:
            pairs = Pairs.from_table(labels)
            variances = None if variance is None else variance.ravel()
            for term, inputs in zip(self.terms, points.of_terms, strict=True):
                term.pairs(inputs, pairs, mean.ravel(), variances)

    def explain(self, points: Prepared, pairs: Pairs, weighted: csr_array) -> Contributions:
        """Return the contributions of weighted features, B×D, to the mean utilities of pairs."""
        rows = weighted[pairs.repeat(np.arange(points.size))].astype(self.bias.dtype)
        values = csr_array((np.zeros_like(rows.data), rows.indices, rows.indptr), shape=rows.shape)
        contributions = Contributions(values, {"bias": self.bias[pairs.labels]})
        for term, inputs in zip(self.terms, points.of_terms, strict=True):
            term.explain(inputs, pairs, rows, contributions)
        return contributions


@compiled
def _look_up(
    matrix: tuple[NDArray[np.integer], NDArray[np.integer], NDArray[Any]],
    pair_indptr: NDArray[np.integer],
    pair_columns: NDArray[np.integer],
    values: NDArray[Any],
) -> None:
    """Write the elements of pairs, which are zero where there is none."""
    indptr, columns, data = matrix
    for i in range(len(pair_indptr) - 1):
        for p in range(pair_indptr[i], pair_indptr[i + 1]):
            e = first_not_below(columns, pair_columns[p], indptr[i], indptr[i + 1])
            if e < indptr[i + 1] and columns[e] == pair_columns[p]:
                values[p] = data[e]
