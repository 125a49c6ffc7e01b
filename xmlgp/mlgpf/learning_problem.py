"""What the stages of learning on need: a batch, the model that learns it, and what is replayed."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from xmlgp.data.features import Features, stack_rows
from xmlgp.mlgpf.held_out import CALIBRATION_MOST
from xmlgp.mlgpf.replay import Ranked
from xmlgp.runtime.random_streams import Stream, random_stream
from xmlgp.training.minibatches import hold_out

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from xmlgp.data.features import Features, stack_rows
    from xmlgp.mlgpf.method import MLGPFMethod, Parameters, Problem
    from xmlgp.mlgpf.replay_selection import Replayed

__all__ = ["LearningProblem"]


@dataclass(eq=False)
class LearningProblem:
    """What the stages of learning on need: the `Problem` of a batch, n points, which comes after N points.

    `parameters` are those of the model, with rows for new labels and features.
    """

    method: MLGPFMethod
    batch: Problem
    parameters: Parameters
    N: int
    replayed: Replayed | None

    @property
    def n(self) -> int:
        """The number of points of the batch."""
        return int(self.batch.labels.shape[0])

    @property
    def replays_all(self) -> bool:
        """Whether all earlier points are replayed."""
        return self.replayed is not None and self.replayed.all

    @property
    def replayed_count(self) -> int:
        """The number of points that are replayed."""
        return self.replayed.points.size if self.replayed else 0

    def random(self, stream: Stream) -> np.random.Generator:
        """Return the generator of a stream of random numbers, another one than those of the earlier points."""
        return random_stream(self.batch.settings.seed, stream, self.N)

    @functools.cached_property
    def features(self) -> Features:
        """The weighted features of the batch."""
        return self.batch.coordinates.weighted(slice(None))

    @functools.cached_property
    def all_features(self) -> Features:
        """The weighted features of the points that are replayed and those of the batch."""
        return Features.stack([self.replayed.features, self.features]) if self.replayed else self.features

    @functools.cached_property
    def all_labels(self) -> csr_array:
        """Y of the points that are replayed and those of the batch."""
        return stack_rows([self.replayed.points.labels, self.batch.labels]) if self.replayed else self.batch.labels

    @functools.cached_property
    def counts(self) -> NDArray[np.int64]:
        """How many points of the batch have each label, K."""
        return np.bincount(self.batch.labels.indices, minlength=self.batch.labels.shape[1])

    @property
    def counts_before(self) -> NDArray[np.int64]:
        """How many earlier points have each label, K."""
        return self.parameters["statistics.labels"] - self.counts

    @functools.cached_property
    def present(self) -> NDArray[np.int64]:
        """The labels of the batch."""
        return np.flatnonzero(self.counts)

    @property
    def swept(self) -> NDArray[np.int64]:
        """The labels that sweeps are over."""
        return self.replayed.swept if self.replayed else self.present

    @functools.cached_property
    def ranked(self) -> Ranked | None:
        """What the model keeps of the points that were held out before."""
        return Ranked.of(self.parameters)

    @functools.cached_property
    def split(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Points of the batch that stages before the calibration train on, and those that are held out.

        As large a share as before is held out, if all earlier points are replayed; otherwise none.
        """
        share = 0.0
        if self.replays_all and self.ranked and "calibration" in self.parameters:
            share = min(len(self.ranked.correct) / self.N, CALIBRATION_MOST / (self.N + self.n))
        return hold_out(self.n, share, self.random(Stream.HELD_OUT_OF_BATCH))
