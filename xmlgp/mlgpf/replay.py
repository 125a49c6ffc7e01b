"""The replay buffer of a model: a random sample, of bounded size, of the points that it has learned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from xmlgp.data.features import Dense, Features, stack_rows
from xmlgp.gp.weight_space import DENSE, names_of
from xmlgp.linear_algebra import sparse
from xmlgp.prediction.calibration import RANKS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from xmlgp.mlgpf.method import Parameters
    from xmlgp.mlgpf.settings import MLGPFSettings

__all__ = ["NOT_LISTED", "Ranked", "ReplayBuffer", "are_valid", "bounded", "scarcity", "systematic_draw"]

#: What the names of the parameters begin with.
PREFIX = "replay."

#: In place of the first label on the shortlist of a point that no sweep over all labels has listed.
NOT_LISTED = -1

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
        arrays = _arrays_of(parameters)
        if not arrays:
            return None
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
        arrays = {} if self.shortlist is None else {"shortlist": self.shortlist}
        arrays |= {
            "indptr": self.features.sparse.indptr.astype(np.int64, copy=False),
            "indices": self.features.sparse.indices.astype(np.int32, copy=False),
            "values": self.features.sparse.data.astype(np.float32, copy=False),
            "label_indptr": self.labels.indptr.astype(np.int64, copy=False),
            "labels": self.labels.indices.astype(np.int32, copy=False),
            "weights": self.weights,
        }
        if self.features.dense is not None:
            arrays["dense"] = self.features.dense.joined().arrays[0]
        return {PREFIX + name: value for name, value in arrays.items()}

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
        arrays = [parameters.get(PREFIX + name) for name in cls._fields]
        return None if arrays[0] is None else cls(*arrays)

    def parameters(self) -> Parameters:
        """Return the arrays by parameter name."""
        return {PREFIX + name: array for name, array in self._asdict().items()}

    def joined(self, other: Ranked, share: float, most: int, random: np.random.Generator) -> Ranked:
        """Return points of both, at most `most`, of which a share is of the `other` ones."""
        counts = len(self.correct), len(other.correct)
        share = share if counts[1] else 0.0
        size = min(sum(counts), most)
        probabilities = [rest * size / max(1, count) for rest, count in zip((1 - share, share), counts, strict=True)]
        # Rounding does not lose a point that is certain.
        kept = systematic_draw(np.minimum(1, np.repeat(probabilities, counts) * (1 + 1e-9)), random)
        width = min(self.correct.shape[1], other.correct.shape[1])
        return Ranked(*(np.concatenate([a[:, :width], b[:, :width]])[kept] for a, b in zip(self, other, strict=True)))


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
    return buffer.thinned(scarce, settings.replay, np.random.default_rng([settings.seed, 9, N]))


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


def _arrays_of(parameters: Mapping[str, NDArray[Any]]) -> Parameters:
    return {name.removeprefix(PREFIX): value for name, value in parameters.items() if name.startswith(PREFIX)}


def are_valid(parameters: Mapping[str, NDArray[Any]], D: int, K: int) -> bool:
    """Return whether the replay buffer of an untrusted file, if there is one, fits itself and the model.

    Compiled loops do not check indices.
    """
    arrays = _arrays_of(parameters)
    if not arrays:
        return True
    shortlist = arrays.pop("shortlist", None)
    ranked = [arrays.pop(name, None) for name in Ranked._fields]
    dense = arrays.pop("dense", None)
    dense_weights = parameters.get(names_of(DENSE)[0])
    names = ("indptr", "indices", "values", "label_indptr", "labels", "weights")
    if arrays.keys() != set(names):
        return False
    indptr, indices, values, label_indptr, labels, weights = (arrays[name] for name in names)
    return bool(
        values.dtype == weights.dtype == np.float32
        and weights.ndim == 1
        and len(weights) > 0
        and (weights >= 1).all()
        and sparse.is_pattern(indptr, indices, len(weights), D)
        and values.shape == indices.shape
        and sparse.is_pattern(label_indptr, labels, len(weights), K)
        # A sweep over all labels, if there is one, has listed negatives.
        and (shortlist is not None) == any(name.startswith("label_weights.") for name in parameters)
        and (dense is None) == (dense_weights is None)
        and (dense is None or (dense.dtype.kind == "f" and dense.shape == (len(weights), len(dense_weights))))
        and (shortlist is None or _are_shortlists(shortlist, len(weights), K))
        and (all(array is None for array in ranked) or _are_ranked(*ranked))
    )


def _are_shortlists(shortlist: NDArray[Any], M: int, K: int) -> bool:
    return bool(
        shortlist.dtype == np.int32
        and shortlist.ndim == 2
        and len(shortlist) == M
        and shortlist.shape[1] > 0
        and ((shortlist >= -1) & (shortlist < K)).all()
    )


def _are_ranked(probabilities: NDArray[Any] | None, correct: NDArray[Any] | None) -> bool:
    return bool(
        probabilities is not None
        and correct is not None
        and probabilities.dtype == np.float32
        and correct.dtype == np.uint8
        and (correct <= 1).all()
        and probabilities.ndim == 2
        and probabilities.shape == correct.shape
        and 0 < probabilities.shape[1] <= RANKS
    )
