"""The positive labels, and their latent counts m_nkt: how often topic t explains label k of point n.

BMLPL never uses negative labels explicitly: only positive labels have counts, and those of negative ones are zero.
"""

import functools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.linear_algebra import sparse
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.linear_algebra.elementary import exponential, logarithm, polynomial
from xmlgp.models.bmlpl.blocks import map_blocks

__all__ = ["Counts", "Positives", "expected_counts", "reveal_labels"]

#: Least rate λ of a positive label, so that labels that no topic explains are divided among topics too.
LEAST_RATE = 1e-30

#: Rates up to which 1 − e^(−λ) is computed by its series.
SERIES_LIMIT = 0.1

#: The coefficients of the series of (1 − e^(−λ))/λ, the highest first.
EXPM1 = (-1 / 720, 1 / 120, -1 / 24, 1 / 6, -1 / 2, 1.0)

#: Least number of multiplications per thread.
GRAIN = 1 << 17


class Positives:
    """The positive labels of N points, given Y, N×K; those of point n are `indices[indptr[n]:indptr[n + 1]]`."""

    def __init__(self, labels: csr_array) -> None:
        self.shape = labels.shape
        self.indptr = labels.indptr
        self.indices = labels.indices

    def __len__(self) -> int:
        return len(self.indices)

    def by_label(self, values: NDArray[np.floating]) -> csr_array:
        """Return values, one for each positive in the order of `indices`, as a csr_array, K×N."""
        order, points, indptr = self._transposed
        return csr_array((values[order], points, indptr), shape=self.shape[::-1])

    def frequencies(self) -> NDArray[np.int64]:
        """Return the number of points of each label, K."""
        return np.bincount(self.indices, minlength=self.shape[1])

    @functools.cached_property
    def _transposed(self) -> tuple[NDArray[np.int64], NDArray[np.integer], NDArray[np.integer]]:
        positions = np.arange(len(self), dtype=np.int64)
        transposed = csr_array((positions, self.indices, self.indptr), shape=self.shape).T.tocsr()
        return transposed.data, transposed.indices, transposed.indptr


def reveal_labels(labels: csr_array, share: float, random: np.random.Generator) -> csr_array:
    """Return labels of which each positive is kept with probability `share`; the others count as negative.

    A share of 1 keeps all and draws no random number.
    """
    if share == 1:
        return labels
    revealed = labels.copy()
    revealed.data = random.random(labels.nnz) < share
    revealed.eliminate_zeros()
    return revealed


class Counts(NamedTuple):
    """Latent counts of points, m_nt = Σ_k m_nkt, N×T; of labels, m_kt = Σ_n m_nkt, K×T; and log p(Y | V, U)."""

    by_point: NDArray[np.floating]
    by_label: NDArray[np.floating]
    log_likelihood: float


def expected_counts(
    positives: Positives,
    topics: NDArray[np.floating],
    activations: NDArray[np.floating],
    out: NDArray[np.floating] | None = None,
) -> Counts:
    """Return the expected latent `Counts` given topics V and activations U: the E-step ([B] (9) to (11)).

    With λ_nk = Σ_t v_kt u_nt, a positive label has E m_nk = λ_nk / (1 − e^(−λ_nk)), the mean of a zero-truncated
    Poisson variable, of which topic t has the share v_kt u_nt / λ_nk; a negative label has none. As each topic sums to
    one, log p(Y | V, U) = Σ_positives log(e^λ − 1) − Σ_nt u_nt, whose cost is that of the positives only. The counts of
    points may be written to `out`, N×T.
    """
    factors = np.empty(len(positives), topics.dtype)
    by_point = np.empty_like(activations) if out is None else out

    def fill(rows: slice) -> float:
        return _fill_expected_counts(
            positives.indptr, positives.indices, topics, activations, factors, by_point, rows.start, rows.stop
        )

    N = len(activations)
    log_likelihoods = map_blocks(fill, N, N * GRAIN // max(1, len(positives) * topics.shape[1]))
    by_label = sparse.product(positives.by_label(factors), activations)
    by_label *= topics
    return Counts(by_point, by_label, float(np.sum(log_likelihoods)))


@compiled
def _fill_expected_counts(
    indptr: NDArray[np.integer],
    indices: NDArray[np.integer],
    topics: NDArray[np.floating],
    activations: NDArray[np.floating],
    factors: NDArray[np.floating],
    by_point: NDArray[np.floating],
    start: int,
    stop: int,
) -> float:
    """Fill in E m / λ of each positive and the counts of each point; return Σ_nk log(e^λ − 1) − Σ_nt u_nt."""
    real = factors.dtype.type
    first = indptr[start]
    last = indptr[stop]
    for n in range(start, stop):
        activation = activations[n]
        for e in range(indptr[n], indptr[n + 1]):
            topic = topics[indices[e]]
            rate = real(0)
            for t in range(len(activation)):
                rate += topic[t] * activation[t]
            factors[e] = rate
    total = 0.0
    for e in range(first, last):
        rate = max(factors[e], real(LEAST_RATE))
        # 1 − e^(−λ), by its series for small λ.
        near = rate * polynomial(rate, EXPM1)
        nonzero = near if rate < real(SERIES_LIMIT) else real(1) - exponential(-rate)
        factors[e] = real(1) / nonzero
        total += logarithm(nonzero) + rate
    for n in range(start, stop):
        activation = activations[n]
        sums = by_point[n]
        sparse.row(indices, factors, indptr[n], indptr[n + 1], topics, sums)
        activation_sum = real(0)
        for t in range(len(activation)):
            sums[t] *= activation[t]
            activation_sum += activation[t]
        total -= activation_sum
    return total
