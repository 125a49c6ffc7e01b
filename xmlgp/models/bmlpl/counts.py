"""The positive labels, and their latent counts m_nkt: how often topic t explains label k of point n.

BMLPL never uses negative labels explicitly: only positive labels have counts, and those of negative ones are zero.
"""

import functools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.linear_algebra import sparse
from xmlgp.models.bmlpl.blocks import map_blocks

__all__ = ["Counts", "Positives", "expected_counts", "rates_of", "reveal_labels"]

#: Least rate λ of a positive label, so that labels that no topic explains are divided among topics too.
LEAST_RATE = 1e-30

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

    def by_point(self, values: NDArray[np.floating]) -> csr_array:
        """Return values, one for each positive in the order of `indices`, as a csr_array, N×K."""
        return csr_array((values, self.indices, self.indptr), shape=self.shape)

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
    rates = np.maximum(rates_of(positives, topics, activations), LEAST_RATE)
    nonzero = -np.expm1(-rates)
    by_point = sparse.product(positives.by_point(1 / nonzero), topics, out)
    by_point *= activations
    by_label = sparse.product(positives.by_label(1 / nonzero), activations)
    by_label *= topics
    log_likelihood = np.sum(np.log(nonzero) + rates, dtype=np.float64) - activations.sum(dtype=np.float64)
    return Counts(by_point, by_label, float(log_likelihood))


def rates_of(
    positives: Positives, topics: NDArray[np.floating], activations: NDArray[np.floating]
) -> NDArray[np.floating]:
    """Return the rates λ_nk = Σ_t v_kt u_nt of positive labels, in the order of `indices`."""
    N, T = activations.shape

    def rates_of_rows(rows: slice) -> NDArray[np.floating]:
        ends = positives.indptr[rows.start : rows.stop + 1]
        of_points = np.repeat(activations[rows], np.diff(ends), axis=0)
        of_labels = topics[positives.indices[ends[0] : ends[-1]]]
        rates: NDArray[np.floating] = np.einsum("et,et->e", of_points, of_labels)
        return rates

    return np.concatenate(map_blocks(rates_of_rows, N, N * GRAIN // max(1, len(positives) * T)))
