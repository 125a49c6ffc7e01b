"""The memory of points that a model has learned, a random sample of bounded size, which learning on replays."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from xmlgp.data.blocks import Blocks, Dense, dense_of, sparse_of, stacked, with_sparse
from xmlgp.gp.weight_space import DENSE, names_of
from xmlgp.linear_algebra import sparse
from xmlgp.prediction.calibration import RANKS

__all__ = ["NOT_LISTED", "Ranked", "Replay", "are_valid", "bounded", "scarcity", "systematic_draw"]

#: What the names of the parameters begin with.
PREFIX = "replay."

#: In place of the first label on the shortlist of a point that no sweep over all labels has listed.
NOT_LISTED = -1

#: Halvings of the interval in which the factor of the probabilities to be kept is searched.
HALVINGS = 60


class Replay(NamedTuple):
    """M points that stand for all that were learned.

    X, M×D, as read, perhaps with dense features (`Blocks`), and Y, M×K; how many points each stands for, M, 1 if all
    are kept; their shortlists, M×S, from the last sweep over all labels (`xmlgp.mlgpf.sweep`), or None without label
    weights.
    """

    features: sp.csr_array
    labels: sp.csr_array
    weights: np.ndarray
    shortlist: np.ndarray | None

    @classmethod
    def of(cls, parameters, D, K):
        """Return the memory of a model, given its parameters by name; None if it has none."""
        arrays = _arrays_of(parameters)
        if not arrays:
            return None
        M = len(arrays["weights"])
        features = sp.csr_array((arrays["values"], arrays["indices"], arrays["indptr"]), shape=(M, D))
        if "dense" in arrays:
            features = Blocks(features, Dense((arrays["dense"],)))
        stored = np.ones(len(arrays["labels"]), bool), arrays["labels"], arrays["label_indptr"]
        return cls(features, sp.csr_array(stored, shape=(M, K)), arrays["weights"], arrays.get("shortlist"))

    @classmethod
    def of_points(cls, features, labels, shortlist=None):
        """Return a memory of all of some points, given X as read and Y."""
        return cls(features, labels, np.ones(labels.shape[0], np.float32), shortlist)

    @property
    def size(self):
        """M."""
        return len(self.weights)

    def parameters(self):
        """Return the arrays by parameter name."""
        arrays = {} if self.shortlist is None else {"shortlist": self.shortlist}
        arrays |= {
            "indptr": self.features.indptr.astype(np.int64, copy=False),
            "indices": self.features.indices.astype(np.int32, copy=False),
            "values": self.features.data.astype(np.float32, copy=False),
            "label_indptr": self.labels.indptr.astype(np.int64, copy=False),
            "labels": self.labels.indices.astype(np.int32, copy=False),
            "weights": self.weights,
        }
        if dense_of(self.features) is not None:
            arrays["dense"] = self.features.dense.joined().arrays[0]
        return {PREFIX + name: value for name, value in arrays.items()}

    def rows(self, rows):
        """Return the memory of some of the points."""
        shortlist = None if self.shortlist is None else self.shortlist[rows]
        return Replay(self.features[rows], self.labels[rows], self.weights[rows], shortlist)

    def followed_by(self, features, labels, shortlist=None):
        """Return the memory with all of some new points, which may have more features and labels.

        The `shortlist` is that of all points, in this order; by default new points have none.
        """
        n = labels.shape[0]
        (M, D, K) = (self.size, features.shape[1], labels.shape[1])
        old = with_sparse(self.features, _resized(sparse_of(self.features), (M, D)))
        X = stacked([old, features])
        Y = stacked([_resized(self.labels, (M, K)), labels])
        if shortlist is None and self.shortlist is not None:
            new = np.full((n, self.shortlist.shape[1]), NOT_LISTED, np.int32)
            shortlist = np.concatenate([self.shortlist, new])
        return Replay(X, Y, np.concatenate([self.weights, np.ones(n, np.float32)]), shortlist)

    def thinned(self, scarce, size, random):
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
        return self._drawn(self._probabilities(low * scarce), random)

    def _probabilities(self, each):
        """Return the probabilities that points stay, M, given those of each point that they stand for."""
        return np.minimum(1, self.weights * np.minimum(1, each))

    def _drawn(self, probabilities, random):
        kept = systematic_draw(probabilities, random)
        found = self.rows(kept)
        return found._replace(weights=(found.weights / probabilities[kept]).astype(np.float32))


class Ranked(NamedTuple):
    """The R highest probabilities of held-out points, before calibration, n×R, and 1 where the points have the labels.

    A model with a memory keeps them, so that the calibration goes on as it learns on.
    """

    probabilities: np.ndarray
    correct: np.ndarray

    @classmethod
    def of(cls, parameters):
        """Return what a model keeps, given its parameters by name; None if it keeps nothing."""
        arrays = [parameters.get(PREFIX + name) for name in cls._fields]
        return None if arrays[0] is None else cls(*arrays)

    def parameters(self):
        """Return the arrays by parameter name."""
        return {PREFIX + name: array for name, array in self._asdict().items()}

    def joined(self, other, share, most, random):
        """Return points of both, at most `most`, of which a share is of the `other` ones."""
        counts = len(self.correct), len(other.correct)
        share = share if counts[1] else 0.0
        size = min(sum(counts), most)
        wanted = [part * size / max(1, count) for part, count in zip((1 - share, share), counts, strict=True)]
        # Rounding does not lose a point that is certain.
        kept = systematic_draw(np.minimum(1, np.repeat(wanted, counts) * (1 + 1e-9)), random)
        width = min(self.correct.shape[1], other.correct.shape[1])
        return Ranked(*(np.concatenate([a[:, :width], b[:, :width]])[kept] for a, b in zip(self, other, strict=True)))


def systematic_draw(probabilities, random):
    """Return numbers in ascending order, each drawn with its probability; their count is expected but for rounding."""
    steps = np.floor(np.cumsum(probabilities, dtype=np.float64) + random.random())
    return np.flatnonzero(np.diff(steps, prepend=0) > 0)


def bounded(memory, counts, N, settings):
    """Return a memory of all of N points, or that before with more points, thinned to the size that settings want.

    `counts`, K, are how many of the N points have each label.
    """
    if memory.size <= settings.replay:
        return memory
    scarce = scarcity(memory.labels, np.append(counts, N))
    return memory.thinned(scarce, settings.replay, np.random.default_rng([settings.seed, 9, N]))


def scarcity(labels, counts):
    """Return how scarce the labels of points are, n: the largest 1/n_k of their labels, and 1/N without labels.

    Y is n×K; `counts` has for each label, K, how many of the N points have it, and N in its last place, K+1.
    """
    inverse = 1 / np.maximum(counts, 1)
    found = np.full(labels.shape[0], inverse[-1])
    lengths = np.diff(labels.indptr)
    if labels.nnz:
        found[lengths > 0] = np.maximum.reduceat(inverse[labels.indices], labels.indptr[:-1][lengths > 0])
    return found


def _resized(matrix, shape):
    """Return a csr_array with more columns, without copying its elements."""
    return sp.csr_array((matrix.data, matrix.indices, matrix.indptr), shape=shape)


def _arrays_of(parameters):
    return {name.removeprefix(PREFIX): value for name, value in parameters.items() if name.startswith(PREFIX)}


def are_valid(parameters, D, K):
    """Return whether the memory among the parameters of an untrusted file fits itself and the model, if it has one.

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


def _are_shortlists(shortlist, M, K):
    return (
        shortlist.dtype == np.int32
        and shortlist.ndim == 2
        and len(shortlist) == M
        and shortlist.shape[1] > 0
        and ((shortlist >= -1) & (shortlist < K)).all()
    )


def _are_ranked(probabilities, correct):
    return (
        probabilities is not None
        and correct is not None
        and probabilities.dtype == np.float32
        and correct.dtype == np.uint8
        and (correct <= 1).all()
        and probabilities.ndim == 2
        and probabilities.shape == correct.shape
        and 0 < probabilities.shape[1] <= RANKS
    )
