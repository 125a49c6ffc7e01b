"""What the sweeps of a run share: the latent functions at the points, label weights and shortlists."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from xmlgp.data.dataset import consecutive_rows
from xmlgp.gp.weight_space import MEAN
from xmlgp.linear_algebra import sparse
from xmlgp.models.mlgpf.label_weights.pairs import shortlist_length
from xmlgp.models.mlgpf.predictor import word_scales
from xmlgp.neighbours.predictions import scaled_words
from xmlgp.neighbours.search import build_index

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from xmlgp.models.mlgpf.label_weights.posterior import LabelWeights
    from xmlgp.models.mlgpf.method import Parameters
    from xmlgp.neighbours.search import PointIndex
    from xmlgp.runtime.work import Work

__all__ = ["Factors", "SweepData"]

#: Points whose latent functions are a block of work.
LATENT_BLOCK = 1 << 15


#: Most pairs of points and labels of which all are scored for shortlists. With 4.8e9, that takes 31 s of processor
#: time, and the search of the nearest points 18 s.
MOST_SCORED = 12 * 10**8


class Factors(NamedTuple):
    """X, sparse, the means of the latent functions, N×P, Φ and b, which sweeps do not change."""

    features: csr_array
    latent: NDArray[np.floating]
    loadings: NDArray[np.floating]
    bias: NDArray[np.floating]


@dataclass(eq=False)
class SweepData:
    """What the sweeps of a run share.

    The features, N×D, are weighted; the labels are Y, N×K. `stepped` returns the parameters after stochastic steps,
    with Φ and b of the K labels. Sweeps change the label weights in place.
    """

    work: Work
    seed: int
    features: csr_array
    labels: csr_array
    stepped: Callable[[], Parameters]
    weights: LabelWeights

    @functools.cached_property
    def shortlist(self) -> NDArray[np.int32]:
        """Negatives of each point, N×S; −1 after the last of a point that has fewer."""
        return np.full((self.labels.shape[0], shortlist_length(*self.labels.shape)), -1, np.int32)

    @functools.cached_property
    def factors(self) -> Factors:
        """The latent functions at the points, Φ and b, once the stages before have ended."""
        parameters = self.stepped()
        weights = parameters[MEAN]
        N = self.features.shape[0]
        latent = self.work.empty((N, weights.shape[1]), weights.dtype)
        blocks = [slice(start, min(start + LATENT_BLOCK, N)) for start in range(0, N, LATENT_BLOCK)]
        means = self.work.map(_latent_means, ((rows,) for rows in blocks), (self.features, weights))
        for rows, block_means in zip(blocks, means, strict=True):
            latent[rows] = block_means
        return Factors(self.features, latent, parameters["loadings"], parameters["bias"])

    @functools.cached_property
    def index(self) -> PointIndex | None:
        """The index of the points by their scaled words where labels are many; None otherwise.

        The labels of the points nearest to a point are then those among which its shortlist is.
        """
        if np.prod(self.labels.shape) <= MOST_SCORED:
            return None
        return build_index(scaled_words(self.features, word_scales(self.stepped(), self.features.shape[1])))


def _latent_means(shared: tuple[csr_array, NDArray[np.floating]], rows: slice) -> NDArray[np.floating]:
    features, weights = shared
    return sparse.product(consecutive_rows(features, rows), weights)
