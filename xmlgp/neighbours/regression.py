"""Exact GP regression on the labels of the nearest training points of each point.

The prediction of label k at a point x, whose nearest training points are R, is

    g_k = π_k + k(x, R) (K_RR + σ² I)⁻¹ (Y_Rk − π_k),    k(x, x′) = exp(−(1 − x·x′)/ℓ² − γ‖e − e′‖²/2)

where π are the frequencies of the labels. Words x have unit length; points with dense features e have the second
factor, and points without words only that. Labels are real numbers with Gaussian noise: least-squares classification.
All labels share one system, of the size of R.

Source: C. E. Rasmussen, C. K. I. Williams, Gaussian Processes for Machine Learning, MIT Press 2006, section 6.5;
E. Snelson, Z. Ghahramani, Local and global sparse Gaussian process approximations, AISTATS 2007, for one system per
point.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.linear_algebra.compiled import compiled, compiled_part
from xmlgp.linear_algebra.elementary import exponential
from xmlgp.linear_algebra.sparse import arrays_of
from xmlgp.neighbours.search import read_only

__all__ = [
    "BEST",
    "CHOICES",
    "RECALL",
    "Choices",
    "Kernel",
    "NearestPoints",
    "Recall",
    "Regressed",
    "in_words",
    "regress",
    "solve",
]

#: The names of these numbers in a model.
CHOICES = "neighbours.choices"
RECALL = "neighbours.recall"

#: The best labels of a point whose recall is measured.
BEST = 5


class Kernel(NamedTuple):
    """ℓ² of words, γ of dense features, and the variance σ² of the noise; that of the kernel is one."""

    squared_lengthscale: float
    dense_relevance: float
    noise: float


class Choices(NamedTuple):
    """What held-out points choose: the kernel, w and r of the pool."""

    kernel: Kernel
    weight: float
    rarity: float

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> Choices:
        """Return the choices of `values`."""
        *kernel, weight, rarity = values.tolist()
        return cls(Kernel(*kernel), weight, rarity)

    def weights_of(self, counts: NDArray[np.integer]) -> NDArray[np.float32]:
        """Return w_k of labels, given how many training points have each, K."""
        weights = self.weight * counts / np.maximum(counts + self.rarity, 1)
        return np.asarray(weights, np.float32)

    def values(self) -> NDArray[np.float64]:
        """Return the numbers, ℓ², γ, σ², w and r."""
        return np.array([*self.kernel, self.weight, self.rarity])


class Recall(NamedTuple):
    """The share of the nearest points that the search finds, and of the best labels that they or frequent labels are.

    Of the labels, it is that of the `BEST` labels of highest score; 0 if that is not measured.
    """

    points: float
    labels: float


def in_words(choices: NDArray[np.float64], recall: NDArray[np.float64]) -> str:
    """Return the choices and the recall of a model in words."""
    kernel, weight, rarity = Choices.of(choices)
    text = f"weight {weight:g} in the pool with utilities"
    if rarity:
        text += f" (of labels with n points, n/(n + {rarity:g}) of it)"
    text += f"; ℓ² {kernel.squared_lengthscale:g}, σ² {kernel.noise:g}"
    labels = Recall(*recall.tolist()).labels
    return f"{text}; the labels scored have {100 * labels:.1f}% of the {BEST} best ones" if labels else text


class NearestPoints(NamedTuple):
    """The n nearest training points of each of B points.

    `nearest` has their rows, nearest first, or −1 where there are fewer, and `products` the inner products of the word
    features of unit length, both B×n. `half_distances` has ½‖e − e′‖² of the dense features, B×n, and `has_words` is
    true for points with words, B; both are None without dense features.
    """

    nearest: NDArray[np.int32]
    products: NDArray[np.float32]
    half_distances: NDArray[np.float32] | None = None
    has_words: NDArray[np.bool_] | None = None

    def exponents(self, kernel: Kernel) -> NDArray[np.float32]:
        """Return the logarithms of the covariances with the nearest points, B×n.

        They are [x has words] (xᵀx′ − 1)/ℓ² − r ½‖e − e′‖², with the squared lengthscale ℓ² of the words and the
        relevance r of the dense features.
        """
        exponents: NDArray[np.float32] = (self.products - np.float32(1)) / np.float32(kernel.squared_lengthscale)
        if self.half_distances is not None and self.has_words is not None:
            exponents *= self.has_words[:, None]
            exponents -= np.float32(kernel.dense_relevance) * self.half_distances
        return exponents


class Regressed(NamedTuple):
    """The regressions of B points on their nearest n: R, B×n, and the weights (K_RR + σ² I)⁻¹ k(R, x), B×n.

    After the last of fewer than n points, R is −1. `rest`, B, is one less the sum of the weights, which is the weight
    of π. `variance`, B, is that of the noise-free function, 1 − k(x, R) (K_RR + σ² I)⁻¹ k(R, x).
    """

    nearest: NDArray[np.int32]
    weights: NDArray[np.float32]
    rest: NDArray[np.float32]
    variance: NDArray[np.float32]


def regress(
    rows: csr_array, found: NearestPoints, kernel: Kernel, dense: NDArray[np.float32] | None = None
) -> Regressed:
    """Return the regressions of points on their nearest training points.

    `rows` are the words of all training points, N×D, of unit length or empty; the `dense` features of these, N×E, are
    divided by their lengthscales.
    """
    nearest, _, _, has_words = found
    B, n = nearest.shape
    result = Regressed(nearest, np.zeros((B, n), np.float32), np.empty(B, np.float32), np.empty(B, np.float32))
    if dense is None:
        between = np.zeros((1, n, n), np.float32)
    else:
        chosen = dense[np.maximum(nearest, 0)]
        squares = np.einsum("bne,bne->bn", chosen, chosen)
        between = chosen @ chosen.transpose(0, 2, 1)
        between -= 0.5 * (squares[:, :, None] + squares[:, None, :])
        between *= np.float32(kernel.dense_relevance)
    word_factor = np.full(B, 1 / kernel.squared_lengthscale, np.float32)
    if has_words is not None:
        word_factor *= has_words
    # The place of each word among those of the nearest rows, from 1 on.
    places = np.zeros(rows.shape[1], np.int32)
    solve(
        read_only(arrays_of(rows)),
        between,
        found.exponents(kernel),
        word_factor,
        np.float32(kernel.noise),
        places,
        result,
    )
    return result


@compiled
def solve(
    rows: tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.float32]],
    between: NDArray[np.float32],
    exponents: NDArray[np.float32],
    word_factor: NDArray[np.float32],
    noise: float,
    places: NDArray[np.int32],
    result: Regressed,
) -> None:
    """Write the weights of points; `between` has the dense part of the exponents of K_RR, B×n×n, or one of zeros."""
    nearest, weights, rest, variance = result
    size = nearest.shape[1]
    system = np.empty((size, size), np.float32)
    one = np.float32(1)
    for b in range(len(nearest)):
        n = 0
        while n < size and nearest[b, n] >= 0:
            n += 1
        _fill_products(rows, nearest[b, :n], places, system)
        dense = between[min(b, len(between) - 1)]
        factor = word_factor[b]
        for i in range(n):
            row = system[i]
            for j in range(i):
                row[j] = exponential(min(row[j] - one, np.float32(0)) * factor + min(dense[i, j], np.float32(0)))
            row[i] = one + noise
        _factorise(system, n)
        y = weights[b]
        for i in range(n):
            total = np.float32(0)
            for c in range(i):
                total += system[i, c] * y[c]
            y[i] = (exponential(exponents[b, i]) - total) * system[i, i]
        explained = np.float32(0)
        for i in range(n):
            explained += y[i] * y[i]
        variance[b] = max(one - explained, np.float32(0))
        total = np.float32(0)
        for i in range(n - 1, -1, -1):
            y[i] *= system[i, i]
            for c in range(i):
                y[c] -= system[i, c] * y[i]
            total += y[i]
        rest[b] = one - total


@compiled_part
def _fill_products(
    rows: tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.float32]],
    chosen: NDArray[np.int32],
    places: NDArray[np.int32],
    products: NDArray[np.float32],
) -> None:
    """Write the inner products of n rows into the lower triangle; `places` is zero before and after."""
    indptr, indices, values = rows
    # A list of the rows so far for each word, one list after the other.
    ends = _list_starts(indptr, indices, chosen, places)
    starts = ends.copy()
    listed = np.empty(ends[-1], np.int32)
    listed_values = np.empty(ends[-1], np.float32)
    for i in range(len(chosen)):
        row = products[i]
        row[:i] = 0
        for e in range(indptr[chosen[i]], indptr[chosen[i] + 1]):
            word = places[indices[e]] - 1
            end = ends[word]
            for c in range(starts[word], end):
                row[listed[c]] += values[e] * listed_values[c]
            listed[end] = i
            listed_values[end] = values[e]
            ends[word] = end + 1
    for n in chosen:
        for e in range(indptr[n], indptr[n + 1]):
            places[indices[e]] = 0


@compiled_part
def _list_starts(
    indptr: NDArray[np.integer], indices: NDArray[np.integer], chosen: NDArray[np.int32], places: NDArray[np.int32]
) -> NDArray[np.int32]:
    """Return where the list of rows of each word starts; number the words in `places`, from 1 on.

    The last element is the length of all lists.
    """
    count = 0
    for n in chosen:
        count += indptr[n + 1] - indptr[n]
    starts = np.zeros(count + 1, np.int32)
    words = 0
    for n in chosen:
        for e in range(indptr[n], indptr[n + 1]):
            if places[indices[e]] == 0:
                words += 1
                places[indices[e]] = words
            starts[places[indices[e]]] += 1
    for word in range(words):
        starts[word + 1] += starts[word]
    return starts[: words + 1]


@compiled_part
def _factorise(system: NDArray[np.float32], n: int) -> None:
    """Replace the lower triangle of a matrix, n×n, by its Cholesky factor, with 1/L_ii on the diagonal.

    The noise keeps the smallest eigenvalue far above the rounding errors of single precision.
    """
    for i in range(n):
        row = system[i]
        for j in range(i):
            other = system[j]
            total = np.float32(0)
            for c in range(j):
                total += row[c] * other[c]
            row[j] = (row[j] - total) * other[j]
        total = np.float32(0)
        for c in range(i):
            total += row[c] * row[c]
        row[i] = np.float32(1) / np.sqrt(row[i] - total)
