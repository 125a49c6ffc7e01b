"""Labels in which targets stand for unknown pairs: the regression leaves these out, but all labels share K_XX.

The squared error without the unknown pairs is least where the solution for all pairs fits the targets of these exactly.
Expectation maximisation finds that point: the fitted means become the targets, and the system is solved again. Steps
from one target to the next are `RELAXATION` times longer, which changes how fast the targets converge and not where to.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.gp.likelihood import pairwise_products
from xmlgp.linear_algebra import sparse

__all__ = ["ImputedLabels"]

#: Of the way to the fitted mean of a target, this multiple is gone. The iterations converge for any factor below 2. A
#: training point has 0.2 to 0.7 of the weight in its own prediction, and for these 1.6 is about the fastest.
RELAXATION = 1.6


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

    def update(self, latent: NDArray[np.floating], loadings: NDArray[np.floating]) -> None:
        """Move the targets of the first n points towards their fitted means π + latent Vᵀ, with latent n×P, V K×P."""
        last = self._indptr[len(latent)]
        columns = self._columns[:last]
        fitted = pairwise_products(latent, loadings, self._indptr[: len(latent) + 1], columns)
        fitted += self.mean[columns]
        positions = np.flatnonzero(self._is_unknown[: self.targets.indptr[len(latent)]])
        self.targets.data[positions] += np.float32(RELAXATION) * (fitted - self.targets.data[positions])
