"""The replay buffer of a model: a random sample, of bounded size, of the points that it has learned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from xmlgp.data.features import Dense, Features, stack_rows
from xmlgp.linear_algebra.array_groups import Array, ArrayGroup, between, csr_pattern, numbers
from xmlgp.prediction.calibration import RANKS
from xmlgp.runtime.random_streams import Stream, random_stream

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from xmlgp.mlgpf.method import Parameters
    from xmlgp.mlgpf.settings import MLGPFSettings

__all__ = ["NOT_LISTED", "Ranked", "ReplayBuffer", "bounded", "scarcity", "systematic_draw"]

#: In place of the first label on the shortlist of a point that no sweep over all labels has listed.
NOT_LISTED = -1

#: The arrays of a `ReplayBuffer`: always, with label weights, and with dense features.
REPLAY = ArrayGroup(
    "replay.",
    **csr_pattern("B D", "u"),
    values=Array("u", np.float32),
    **csr_pattern("B K", "v", "label_indptr", "labels"),
    weights=Array("B", np.float32, lambda values, sizes: values.size > 0 and values.min() >= 1),
)
LISTED = ArrayGroup(
    "replay.",
    shortlist=Array(
        "B S", np.int32, lambda values, sizes: values.size > 0 and numbers("K", least=NOT_LISTED)(values, sizes)
    ),
)
REPLAYED_DENSE = ArrayGroup("replay.", dense=Array("B E", np.floating))

#: The arrays of `Ranked`.
RANKED = ArrayGroup(
    "replay.",
    probabilities=Array("H R", np.float32, lambda values, sizes: 0 < sizes["R"] <= RANKS),
    correct=Array("H R", np.uint8, between(0, 1)),
)

#: Halvings of the interval in which the factor of the probabilities to be kept is searched.
HALVINGS = 60


class ReplayBuffer(NamedTuple):
    """M points that stand for all that were learned.

    X, M×D, is as read, perhaps with dense features , and Y is M×K; `weights` are the numbers of points that
    each stands for, M, 1 if all are kept; `shortlist` has their shortlists, M×S, from the last sweep over all labels
    (`xmlgp.mlgpf.sweep`), or is None without label weights.
    """

    features: Features
    labels: csr_array
    weights: NDArray[np.float32]
    shortlist: NDArray[np.int32] | None

    @classmethod
    def of(cls, parameters: Mapping[str, NDArray[Any]], D: int, K: int) -> ReplayBuffer | None:
        """Return the replay buffer of a model, given its parameters by name; None if it has none."""
        if not REPLAY.is_in(parameters):
            return None
        arrays = REPLAY.read(parameters) | LISTED.read(parameters) | REPLAYED_DENSE.read(parameters)
        M = len(arrays["weights"])
        X = csr_array((arrays["values"], arrays["indices"], arrays["indptr"]), shape=(M, D))
        features = Features(X, Dense((arrays["dense"],)) if "dense" in arrays else None)
        stored = np.ones(len(arrays["labels"]), bool), arrays["labels"], arrays["label_indptr"]
        return cls(features, csr_array(stored, shape=(M, K)), arrays["weights"], arrays.get("shortlist"))

    @classmethod
    def of_points(
        cls, features: Features, labels: csr_array, shortlist: NDArray[np.int32] | None = None
    ) -> ReplayBuffer:
        """Return a buffer of all of some points, given X as read and Y."""
        return cls(features, labels, np.ones(labels.shape[0], np.float32), shortlist)

    @property
    def size(self) -> int:
        """M."""
        return len(self.weights)

    def parameters(self) -> Parameters:
        """Return the arrays by parameter name."""
        X = self.features.sparse
        dense = self.features.dense
        arrays = {
            "indptr": X.indptr.astype(np.int64, copy=False),
            "indices": X.indices.astype(np.int32, copy=False),
            "values": X.data.astype(np.float32, copy=False),
            "label_indptr": self.labels.indptr.astype(np.int64, copy=False),
            "labels": self.labels.indices.astype(np.int32, copy=False),
            "weights": self.weights,
            "shortlist": self.shortlist,
            "dense": None if dense is None else dense.joined().arrays[0],
        }
        return REPLAY.named(arrays)

    def rows(self, rows: NDArray[np.int64]) -> ReplayBuffer:
        """Return the buffer of some of the points."""
        shortlist = None if self.shortlist is None else self.shortlist[rows]
        return ReplayBuffer(self.features[rows], self.labels[rows], self.weights[rows], shortlist)

    def extended(
        self, features: Features, labels: csr_array, shortlist: NDArray[np.int32] | None = None
    ) -> ReplayBuffer:
        """Return the buffer with all of some new points, which may have more features and labels.

        The `shortlist` is that of all points, in this order; by default new points have none.
        """
        n, K = labels.shape
        resized = _resized(self.features.sparse, features.D)
        X = Features.stack([self.features.with_sparse(resized), features])
        Y = stack_rows([_resized(self.labels, K), labels])
        if shortlist is None and self.shortlist is not None:
            new = np.full((n, self.shortlist.shape[1]), NOT_LISTED, np.int32)
            shortlist = np.concatenate([self.shortlist, new])
        return ReplayBuffer(X, Y, np.concatenate([self.weights, np.ones(n, np.float32)]), shortlist)

    def thinned(self, scarce: NDArray[np.float64], size: int, random: np.random.Generator) -> ReplayBuffer:
        """Return about `size` of the points, drawn so that those with scarce labels stay, in their order.

        A point that stands for w points stays with the probability min(1, w p), where p = min(1, c s) is that of each
        of these, s is how `scarce` its labels are, and c makes the expected number `size`. It then stands for
        w / min(1, w p) points, so sums over all points keep their expectation. The draw is systematic: the number of
        points is the expected one, but for rounding.
        """
        if size >= self.size:
            return self
        low = 0.0
        high = 1 / scarce.min()
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            if self._probabilities(middle * scarce).sum() > size:
                high = middle
            else:
                low = middle
        probabilities = self._probabilities(low * scarce)
        rows = systematic_draw(probabilities, random)
        weights = self.weights[rows] / probabilities[rows]
        return self.rows(rows)._replace(weights=weights.astype(np.float32))

    def _probabilities(self, each: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probabilities that points stay, M, given those of each point that they stand for."""
        return np.minimum(1, self.weights * np.minimum(1, each))


class Ranked(NamedTuple):
    """The R highest probabilities of held-out points, before calibration, n×R, and 1 where the points have the labels.

    A model with a replay buffer keeps them, so that the calibration goes on as it learns on.
    """

    probabilities: NDArray[np.float32]
    correct: NDArray[np.uint8]

    @classmethod
    def of(cls, parameters: Mapping[str, NDArray[Any]]) -> Ranked | None:
        """Return what a model keeps, given its parameters by name; None if it keeps nothing."""
        arrays = RANKED.read(parameters)
        return cls(**arrays) if arrays else None

    def parameters(self) -> Parameters:
        """Return the arrays by parameter name."""
        return RANKED.named(self._asdict())

    def joined(self, other: Ranked, share: float, most: int, random: np.random.Generator) -> Ranked:
        """Return points of both, at most `most`, of which a share is of the `other` ones."""
        counts = len(self.correct), len(other.correct)
        share = share if counts[1] else 0.0
        size = min(sum(counts), most)
        rates = [rest * size / max(1, count) for rest, count in zip((1 - share, share), counts, strict=True)]
        # Rounding does not lose a point that is certain.
        kept = systematic_draw(np.minimum(1, np.repeat(rates, counts) * (1 + 1e-9)), random)
        width = min(self.correct.shape[1], other.correct.shape[1])
        probabilities = np.concatenate([self.probabilities[:, :width], other.probabilities[:, :width]])
        correct = np.concatenate([self.correct[:, :width], other.correct[:, :width]])
        return Ranked(probabilities[kept], correct[kept])


def systematic_draw(probabilities: NDArray[np.float64], random: np.random.Generator) -> NDArray[np.int64]:
    """Return numbers in ascending order, each drawn with its probability; their count is expected but for rounding."""
    steps = np.floor(np.cumsum(probabilities, dtype=np.float64) + random.random())
    return np.flatnonzero(np.diff(steps, prepend=0) > 0)


def bounded(buffer: ReplayBuffer, counts: NDArray[np.int64], N: int, settings: MLGPFSettings) -> ReplayBuffer:
    """Return a buffer that stands for N points, thinned to the largest size that the settings allow.

    `counts`, K, are how many of the N points have each label.
    """
    if buffer.size <= settings.replay:
        return buffer
    scarce = scarcity(buffer.labels, np.append(counts, N))
    return buffer.thinned(scarce, settings.replay, random_stream(settings.seed, Stream.REPLAY_BUFFER, N))


def scarcity(labels: csr_array, counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return how scarce the labels of points are, n: the largest 1/n_k of their labels, and 1/N without labels.

    Y is n×K; `counts`, K+1, has how many of the N points have each label, and N as its last element.
    """
    inverse = 1 / np.maximum(counts, 1)
    scarce = np.full(labels.shape[0], inverse[-1])
    lengths = np.diff(labels.indptr)
    if labels.nnz:
        scarce[lengths > 0] = np.maximum.reduceat(inverse[labels.indices], labels.indptr[:-1][lengths > 0])
    return scarce


def _resized(matrix: csr_array, columns: int) -> csr_array:
    """Return a matrix with more columns, without copying its elements."""
    return csr_array((matrix.data, matrix.indices, matrix.indptr), shape=(matrix.shape[0], columns))
