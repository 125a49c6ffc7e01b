"""Labels in which targets stand for unknown pairs: the regression leaves these out, but all labels share K_XX.

The squared error without the unknown pairs is least where the solution for all pairs fits the targets of these exactly.
Expectation maximisation finds that point: the fitted means become the targets, and the system is solved again. The
targets change by `RELAXATION` times the difference and `MOMENTUM` times their last change, which decides how fast they
converge and not where to: Polyak's heavy-ball method, B. T. Polyak, Some methods of speeding up the convergence of
iteration methods, USSR Computational Mathematics and Mathematical Physics 4, 1964.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.gp.likelihood import pairwise_products
from xmlgp.linear_algebra import sparse

__all__ = ["ImputedLabels"]

#: The fastest where the unknown pairs have up to nine tenths of the weight in their own predictions. The iterations
#: converge for any relaxation below 2 (1 + momentum).
RELAXATION = 2.3
MOMENTUM = 0.27


class ImputedLabels:
    """Y as numbers, N×K, with targets at the unknown pairs, N×K, first the mean π of each label.

    π is the frequency of the label among the points that were judged, so that it is also the mean of all targets.
    """

    def __init__(self, labels: csr_array, unknown: csr_array) -> None:
        N, K = labels.shape
        judged = N - sparse.column_sums(unknown.indices, K)
        self.mean = (sparse.column_sums(labels.indices, K) / np.maximum(judged, 1)).astype(np.float32)
        # 1 for a positive and 2 for an unknown pair.
        self.targets = csr_array(labels.astype(np.float32) + 2 * unknown.astype(np.float32))
        self.targets.sort_indices()
        self._is_unknown = self.targets.data == 2
        columns = self.targets.indices[self._is_unknown]
        self.targets.data[self._is_unknown] = self.mean[columns]
        counts = np.concatenate([[0], np.cumsum(self._is_unknown)])
        self._indptr = counts[self.targets.indptr]
        self._columns = columns
        #: The last change of the targets of unknown pairs.
        self._change = np.zeros(len(columns), np.float32)

    def update(self, latent: NDArray[np.floating], loadings: NDArray[np.floating]) -> None:
        """Move the targets of the first n points towards their fitted means π + latent Vᵀ, with latent n×P, V K×P."""
        last = self._indptr[len(latent)]
        columns = self._columns[:last]
        fitted = pairwise_products(latent, loadings, self._indptr[: len(latent) + 1], columns)
        fitted += self.mean[columns]
        positions = np.flatnonzero(self._is_unknown[: self.targets.indptr[len(latent)]])
        change = self._change[:last]
        change *= np.float32(MOMENTUM)
        change += np.float32(RELAXATION) * (fitted - self.targets.data[positions])
        self.targets.data[positions] += change
