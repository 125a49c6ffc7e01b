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

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.linear_algebra.compiled import compiled, compiled_part
from xmlgp.linear_algebra.elementary import exponential
from xmlgp.linear_algebra.sparse import arrays_of
from xmlgp.neighbours.search import FREQUENT, Rows, read_only
from xmlgp.runtime.interrupts import raise_pending_signal
from xmlgp.runtime.threads import run_parallel

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

#: Numbers that are added up by vector instructions without a rest.
LANES = 32

#: The largest ‖k − (K_RR + σ² I) α‖²/‖k‖² of the weights α: the square of the rounding error of single precision.
#: Log odds then agree with those by a Cholesky factor to 1e-5; more steps add rounding errors where rows are equal.
LARGEST_RESIDUAL = 1.4e-14

#: Points that one core regresses at a time: with dense features, for about a second.
PART = 32


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
    features of unit length, both B×n. `half_distances` has ½‖e − e′‖² of the dense features, B×n, or is None without
    these. `has_words`, B, is false for points that have only dense features.
    """

    nearest: NDArray[np.int32]
    products: NDArray[np.float32]
    has_words: NDArray[np.bool_]
    half_distances: NDArray[np.float32] | None = None

    def exponents(self, kernel: Kernel) -> NDArray[np.float32]:
        """Return the logarithms of the covariances with the nearest points, B×n.

        They are [x has words] (xᵀx′ − 1)/ℓ² − r ½‖e − e′‖², with the squared lengthscale ℓ² of the words and the
        relevance r of the dense features.
        """
        exponents: NDArray[np.float32] = (self.products - 1) / kernel.squared_lengthscale
        if self.half_distances is not None:
            exponents *= self.has_words[:, None]
            exponents -= kernel.dense_relevance * self.half_distances
        return exponents


class Regressed(NamedTuple):
    """The regressions of B points on their nearest n: the weights (K_RR + σ² I)⁻¹ k(R, x), B×n.

    `rest`, B, is one less the sum of the weights, which is the weight of π. `variance`, B, is that of the noise-free
    function, 1 − k(x, R) (K_RR + σ² I)⁻¹ k(R, x).
    """

    weights: NDArray[np.float32]
    rest: NDArray[np.float32]
    variance: NDArray[np.float32]


def regress(
    rows: csr_array, found: NearestPoints, kernels: Sequence[Kernel], dense: NDArray[np.float32] | None = None
) -> list[Regressed]:
    """Return the regressions of points on their nearest training points, with each kernel.

    `rows` are the words of all training points, N×D, of unit length or empty; the `dense` features of these, N×E, are
    divided by their lengthscales. Raises Interrupted if a signal waits.
    """
    nearest = found.nearest
    B, n = nearest.shape
    covariances = np.exp([found.exponents(kernel) for kernel in kernels])
    weights = np.zeros_like(covariances)

    def solve_part(start: int) -> None:
        stop = min(start + PART, B)
        raise_pending_signal()
        if dense is None:
            between = np.zeros((1, n, n), np.float32)
        else:
            chosen = dense[np.maximum(nearest[start:stop], 0)]
            squares = np.einsum("bne,bne->bn", chosen, chosen)
            between = chosen @ chosen.transpose(0, 2, 1)
            between -= 0.5 * (squares[:, :, None] + squares[:, None, :])
        solve(
            read_only(arrays_of(rows)),
            rows.shape[1],
            (nearest, (nearest >= 0).sum(axis=1), found.has_words, covariances),
            between,
            np.array(kernels, np.float32),
            start,
            stop,
            weights,
        )

    run_parallel(partial(solve_part, start) for start in range(0, B, PART))
    rest = 1 - weights.sum(axis=2)
    variance = np.maximum(1 - (weights * covariances).sum(axis=2), 0)
    return [Regressed(*result) for result in zip(weights, rest, variance, strict=True)]


@compiled
def solve(
    rows: Rows,
    D: int,
    points: tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.bool_], NDArray[np.float32]],
    between: NDArray[np.float32],
    kernels: NDArray[np.float32],
    start: int,
    stop: int,
    weights: NDArray[np.float32],
) -> None:
    """Write the weights of points, given the nearest ones, how many, whether points have words, and covariances.

    `between` has the dense part of the exponents of K_RR for γ = 1, one n×n for each of these points, or zeros for all.
    """
    nearest, counts, has_words, covariances = points
    size = nearest.shape[1]
    products = np.empty((size, (size // LANES + 1) * LANES), np.float32)
    system = np.empty((size, size), np.float32)
    of_words = np.zeros((2, D), np.int32)
    zero, one = np.float32(0), np.float32(1)
    for b in range(start, stop):
        n = counts[b]
        _fill_products(rows, nearest[b, :n], of_words, products)
        dense = between[(b - start) % len(between)]
        for q in range(len(kernels)):
            squared_lengthscale, relevance, noise = kernels[q]
            factor = has_words[b] / squared_lengthscale
            for i in range(n):
                row = system[i]
                for j in range(i):
                    row[j] = exponential(min((products[i, j] - one) * factor + dense[i, j] * relevance, zero))
                for j in range(i):
                    system[j, i] = row[j]
                row[i] = one + noise
            _conjugate_gradients(system, covariances[q, b, :n], weights[q, b, :n])


@compiled_part
def _conjugate_gradients(system: NDArray[np.float32], right: NDArray[np.float32], y: NDArray[np.float32]) -> None:
    """Add to y, n zeros, the solution of a positive definite system for the right-hand side, n."""
    residual, direction, image = right.copy(), right.copy(), y.copy()
    square = _dot(residual, residual)
    enough = LARGEST_RESIDUAL * square
    # Without rounding errors, n steps are enough.
    for _ in range(2 * len(y)):
        if square <= enough:
            break
        for i in range(len(y)):
            image[i] = _dot(system[i], direction)
        step = square / _dot(image, direction)
        y += step * direction
        residual -= step * image
        last = square
        square = _dot(residual, residual)
        direction *= square / last
        direction += residual


@compiled_part
def _dot(left: NDArray[np.float32], right: NDArray[np.float32]) -> np.float32:
    total: np.float32 = np.float32(0)
    for i in range(len(right)):
        total += left[i] * right[i]
    return total


@compiled_part
def _fill_products(
    rows: Rows, chosen: NDArray[np.int32], of_words: NDArray[np.int32], products: NDArray[np.float32]
) -> None:
    """Write the inner products of n rows into the lower triangle."""
    starts, listed, values = _lists_of_words(rows, chosen, of_words)
    products[:] = 0
    column = np.empty(products.shape[1], np.float32)
    for word in range(len(starts) - 1):
        start, stop = np.uint32(starts[word]), np.uint32(starts[word + 1])
        if FREQUENT * (stop - start) > len(chosen):
            column[:] = 0
            for e in range(start, stop):
                column[listed[e]] = values[e]
            for e in range(start, stop):
                # Whole vectors; what is above the diagonal does not count.
                row = products[listed[e], : (listed[e] // LANES + 1) * LANES]
                for j in range(len(row)):
                    row[j] += values[e] * column[j]
        else:
            for e in range(start, stop):
                row = products[listed[e]]
                for c in range(start, e):
                    row[listed[c]] += values[e] * values[c]


@compiled_part
def _lists_of_words(
    rows: Rows, chosen: NDArray[np.int32], of_words: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.uint32], NDArray[np.float32]]:
    """Return where the list of each word of n rows starts, and of all lists the rows, 0 to n − 1, and the values.

    Rows are ascending. The last of the starts is the length of all lists. `of_words` are 2×D numbers, of which the
    first row is zero before and after.
    """
    indptr, indices, data = rows
    lengths, ends = of_words
    total = 0
    for n in chosen:
        total += indptr[n + 1] - indptr[n]
    starts = np.empty(total + 1, np.int32)
    listed, values = np.empty(total, np.uint32), np.empty(total, np.float32)
    for n in chosen:
        for e in range(indptr[n], indptr[n + 1]):
            lengths[indices[e]] += 1
    words, total = 0, 0
    for i, n in enumerate(chosen):
        for e in range(indptr[n], indptr[n + 1]):
            word = indices[e]
            if lengths[word]:
                starts[words] = ends[word] = total
                words += 1
                total += lengths[word]
                lengths[word] = 0
            # Unsigned integers, for which Numba does not check whether they count from the end.
            end = np.uint32(ends[word])
            listed[end], values[end] = i, data[e]
            ends[word] += 1
    starts[words] = total
    return starts[: words + 1], listed, values
