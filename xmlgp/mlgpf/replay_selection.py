"""What a batch replays of the points that a model has learned before."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from xmlgp.data.features import Features
from xmlgp.gp.weight_space import LatentMap
from xmlgp.label_weights.pairs import shortlist_negatives
from xmlgp.label_weights.posterior import LabelWeights
from xmlgp.label_weights.utilities import UtilityMoments
from xmlgp.runtime.random_streams import Stream, random_stream

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from xmlgp.data.features import Features
    from xmlgp.mlgpf.method import Parameters, Problem
    from xmlgp.mlgpf.replay import ReplayBuffer

__all__ = ["REPLAYED_LEAST", "Replayed", "replays_all", "select_replayed"]

#: A batch that has a point for so many of the replay buffer, beside the least number, replays all of it.
REPLAYED_EACH = 20

#: A smaller batch replays so many points, beside those that matter to its labels.
REPLAYED_LEAST = 500

#: Labels that the model suggests first for a point that lacks them, and that are in the sweep for it.
SUGGESTED = 3


class Replayed(NamedTuple):
    """The points that a batch replays, with their weighted features, and the labels that the sweep is over.

    `drawn` are the rows of those that are drawn from the `population`, where not `all` points are replayed. `shortlist`
    has the shortlists of the batch over all labels, or is None where the sweep finds them.
    """

    points: ReplayBuffer
    features: Features
    all: bool
    swept: NDArray[np.int64]
    drawn: NDArray[np.int64] | None = None
    population: int | None = None
    shortlist: NDArray[np.int32] | None = None


def replays_all(buffer: ReplayBuffer, n: int) -> bool:
    """Return whether a batch of n points replays all earlier points.

    Only a buffer that has never been thinned is replayed as a whole: with a sample, steps that move the parameters of
    all labels made them worse.
    """
    return bool(REPLAYED_LEAST + REPLAYED_EACH * n >= buffer.size and (buffer.weights == 1).all())


def select_replayed(buffer: ReplayBuffer, parameters: Parameters, problem: Problem, N: int) -> Replayed | None:
    """Return what the batch of a `Problem` replays, which comes after N points; None for nothing.

    A batch that is large beside the buffer replays all of it, and sweeps over all labels. Otherwise the labels are
    those of the batch, and those that the model, with rows for the batch, suggests first for points that lack them; the
    points are those that have these labels or list them as negatives, and a random sample.
    """
    n, K = problem.labels.shape
    if replays_all(buffer, n):
        return Replayed(buffer, _weighted(buffer, problem), True, np.arange(K))
    if buffer.shortlist is None:
        # No sweep would use them.
        return None
    shortlist = _shortlists(parameters, problem, buffer.shortlist.shape[1])
    swept = np.union1d(problem.labels.indices, shortlist[:, :SUGGESTED])
    swept = swept[swept >= 0]
    is_swept = np.zeros(K + 1, bool)  # the last one is for −1
    is_swept[swept] = True
    matters = np.zeros(buffer.size, bool)
    matters |= is_swept[buffer.shortlist].any(axis=1)
    points = np.repeat(np.arange(buffer.size), np.diff(buffer.labels.indptr))
    matters[points[is_swept[buffer.labels.indices]]] = True
    random = random_stream(problem.settings.seed, Stream.REPLAYED, N)
    sample = np.sort(random.choice(buffer.size, min(REPLAYED_LEAST, buffer.size), replace=False))
    matters[sample] = True
    rows = np.flatnonzero(matters)
    replayed = buffer.rows(rows)
    features = _weighted(replayed, problem)
    return Replayed(replayed, features, False, swept, np.searchsorted(rows, sample), buffer.size + n, shortlist)


def _weighted(points: ReplayBuffer, problem: Problem) -> Features:
    return problem.preprocessed.weigh(points.features).astype(problem.settings.dtype)


def _shortlists(parameters: Parameters, problem: Problem, length: int) -> NDArray[np.int32]:
    """Return the shortlists of the points of a batch over all labels, by a model."""
    features = problem.coordinates.weighted(slice(None))
    utilities = UtilityMoments(parameters["loadings"], parameters["bias"], LabelWeights.of(parameters))
    latent = LatentMap.of(parameters).means(features)
    return shortlist_negatives(utilities, latent, features.sparse, problem.labels, length)
