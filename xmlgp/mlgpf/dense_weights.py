"""What dense features are worth beside words: the weights with which they join, chosen on held-out points.

Utilities f of words alone, and f_joint of words and dense features together, are pooled: (1 − v) f + v f_joint, which
is a model with the latent functions of both. Then the predictions of GP regression on the nearest points join with
weight w (`xmlgp.regression.neighbours`). With v = w = 0 the model is that of words alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from xmlgp.gp.log_parameters import LIMIT
from xmlgp.gp.weight_space import DENSE, JOINT, SPARSE, LatentMap, names_of
from xmlgp.label_index.clusters import LABEL_INDEX
from xmlgp.linear_algebra import dense
from xmlgp.metrics.intervals import Interval, differences
from xmlgp.metrics.statistics import Statistic, ratio
from xmlgp.prediction.logistic import logistic_scores
from xmlgp.prediction.parts import descending
from xmlgp.regression.neighbours import NeighbourPredictions, NeighbourRegression
from xmlgp.runtime.threads import one_blas_thread

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from xmlgp.data.features import Features
    from xmlgp.mlgpf.method import Parameters
    from xmlgp.mlgpf.predictor import MLGPFPredictor

__all__ = ["UNJUDGED", "DenseWeights", "HeldOutPoints", "Worth", "judge_dense_features", "pooled_parameters"]

#: The weights v and w to choose from.
JOINT_WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)
NEIGHBOUR_WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8)

#: Labels of each point from each ranking among which the weights are compared, and with which points are ranked.
LISTED = 50

#: What a block adds that lowers the log loss alone, such as that of one label, whose nDCG is the same in any case.
TIED = 1e-6

#: Points whose labels are ranked together.
ROWS = 256

#: Least distance of probabilities from 0 and 1 in the log loss.
LEAST = 1e-7

#: Ranks by which the weights are compared, by nDCG.
RANKS = 5


class DenseWeights(NamedTuple):
    """The weights v of the joint latent functions and w of the regression on neighbours, and blocks without effect."""

    joint: float
    neighbours: float
    dropped: tuple[int, ...] = ()

    def dropping(self, block: int) -> DenseWeights:
        """Return the weights with one more block without effect."""
        return self._replace(dropped=(*self.dropped, block))


#: The weights where no held-out points can tell: on data sets with 159, 592 and 15,052 labels, held-out points are
#: ranked better with them than by words alone.
UNJUDGED = DenseWeights(0.25, 0.3)


class Worth(NamedTuple):
    """The chosen weights, and what each dense block and what all add to nDCG@5 of held-out points, in percent.

    `intervals` are the 95 % intervals of each gain and of the total, paired by points. `ranked` has the probabilities
    of the first labels of each point with these weights, J×K, in order.
    """

    weights: DenseWeights
    gains: tuple[float, ...]
    total: float
    intervals: tuple[Interval, ...]
    ranked: csr_array


class HeldOutPoints(NamedTuple):
    """Held-out points, J: their features as read and weighted, and Y, J×K."""

    features: Features
    weighted: Features
    labels: csr_array


def pooled_parameters(
    words: Parameters, joint: Parameters | None, weights: DenseWeights, bounds: Sequence[tuple[int, int]]
) -> Parameters:
    """Return the parameters of a model with utilities (1 − v) f + v f_joint, given those of f and of f_joint.

    It has the latent functions of both, 2P, with loadings [(1 − v) Φ, v Φ_joint], or those of one if the other has no
    weight. A feature has one variance for all of them: the mean of both, weighted by the squares of the loadings. W
    stays. `bounds` are the columns of each dense block; the weights of dropped blocks become zero, with no variance.
    """
    v = weights.joint
    if joint is None or v == 0:
        return words
    mean, log_variance, log_prior = names_of(SPARSE)
    dense_mean, dense_log_variance, dense_log_prior = names_of(DENSE)
    # An index has clusters of the loadings of words alone.
    pooled = {name: value for name, value in words.items() if name not in LABEL_INDEX.arrays}
    joint = joint | {name: joint[name].copy() for name in names_of(DENSE)}
    for block in weights.dropped:
        columns = slice(*bounds[block])
        joint[dense_mean][columns] = 0
        # Otherwise the block would change variances, and learning on would give it weights.
        joint[dense_log_variance][columns] = joint[dense_log_prior][columns] = -LIMIT
    means = joint[dense_mean]
    pooled |= {dense_log_prior: joint[dense_log_prior], dense_mean: means, **JOINT.named({"weight": np.array(v)})}
    if v == 1:
        names = mean, log_variance, log_prior, dense_log_variance, "loadings", "bias"
        return pooled | {name: joint[name] for name in names}
    words_share, joint_share = (
        share**2 * np.square(parameters["loadings"]).sum(dtype=np.float64)
        for share, parameters in ((1 - v, words), (v, joint))
    )
    joint_share /= words_share + joint_share
    variance = (1 - joint_share) * np.exp(words[log_variance]) + joint_share * np.exp(joint[log_variance])
    dtype = words["bias"].dtype
    pooled[mean] = np.hstack([words[mean], joint[mean]])
    pooled[log_variance] = np.log(variance).astype(dtype)
    pooled[dense_mean] = np.hstack([np.zeros_like(means), means])
    log_variances = joint[dense_log_variance] + np.log(joint_share)
    pooled[dense_log_variance] = np.maximum(log_variances, -LIMIT).astype(dtype)
    pooled["loadings"] = np.hstack([(1 - v) * words["loadings"], v * joint["loadings"]]).astype(dtype)
    pooled["bias"] = ((1 - v) * words["bias"] + v * joint["bias"]).astype(dtype)
    return pooled


def judge_dense_features(
    make_predictor: Callable[[Parameters], MLGPFPredictor],
    words: Parameters,
    joint: Parameters | None,
    neighbours: NeighbourRegression,
    points: HeldOutPoints,
    ranked: csr_array,
) -> Worth:
    """Return the weights by which held-out points are ranked best, and what each block is worth.

    `words` are the parameters of a model without dense features, or with these alone; then `joint` is None.
    `neighbours` have no held-out points. `ranked`, J×K, are the probabilities of the first labels of each held-out
    point by f, in order. Others than these, the first by Φ h + b of f_joint, and the first by neighbours are left out.

    Weights are as good as the best if their mean nDCG@5 is less than two standard errors below the highest, and their
    log loss, which varies less, less than one standard error above the lowest of those. Of these the ones with the
    lowest v are chosen, and of these the ones with the lowest log loss; but zeros, if points are ranked better with
    these, or as well and with as low a log loss. With several blocks, the one without which points are ranked best is
    dropped, as long as they are ranked no worse without it.
    """
    judge = _Judge(make_predictor, words, joint, neighbours, points, ranked)
    alone = judge.score(DenseWeights(0, 0))
    weights = judge.best()
    bounds = points.features.dense.bounds() if points.features.dense else []
    score = judge.score(weights)
    if score <= alone:
        nothing = (Interval(0, 0),) * (len(bounds) + 1)
        return Worth(DenseWeights(0, 0), (0.0,) * len(bounds), 0.0, nothing, ranked)
    kept = list(range(len(bounds)))
    while len(kept) > 1:
        without = {block: judge.score(weights.dropping(block)) for block in kept}
        best = max(kept, key=lambda block: without[block])
        if without[best] < score:
            break
        weights = weights.dropping(best)
        score = without[best]
        kept.remove(best)
    zeros = DenseWeights(0, 0)
    total, interval = judge.gain(weights, zeros)
    gains = [0.0] * len(bounds)
    intervals = [Interval(0, 0)] * len(bounds)
    for block in kept:
        gains[block], intervals[block] = judge.gain(weights, weights.dropping(block) if len(kept) > 1 else zeros)
    return Worth(weights, tuple(gains), total, (*intervals, interval), judge.ranking(weights))


class _Judge:
    """Scores held-out points with any weights, by the labels among which the first ones of each are."""

    def __init__(
        self,
        make_predictor: Callable[[Parameters], MLGPFPredictor],
        words: Parameters,
        joint: Parameters | None,
        neighbours: NeighbourRegression,
        points: HeldOutPoints,
        ranked: csr_array,
    ) -> None:
        self._make_predictor = make_predictor
        self._words = words
        self._joint = joint
        self._shape = ranked.shape
        self._features = points.features
        self._weighted = points.weighted
        self._bounds = points.features.dense.bounds() if points.features.dense else []
        self._neighbours = neighbours
        self._predictions: dict[tuple[int, ...], tuple[NeighbourPredictions, csr_array]] = {}
        _, predicted = self._predicted(())
        listed = [_first(ranked), _first(predicted)]
        if joint:
            listed.append(_first_by_latent(joint, points.weighted, ranked.shape))
        self._candidates = _padded(listed)
        is_true = points.labels[np.arange(points.features.N)[:, None], np.maximum(self._candidates, 0)]
        self._is_true = np.asarray(is_true.toarray()) & (self._candidates >= 0)
        counts = np.minimum(np.diff(points.labels.indptr), RANKS)
        #: Held-out points that have labels; only these can be ranked.
        self._labelled = counts > 0
        discounts = 1 / np.log2(np.arange(2, RANKS + 2))
        self._discounts = discounts[: self._candidates.shape[1]]
        self._ideal = np.cumsum(discounts)[counts[self._labelled] - 1]

    def score(self, weights: DenseWeights) -> tuple[float, float]:
        """Return the mean nDCG@5, in percent, and the mean log loss less than zero, which decides between equals."""
        gains, losses = next(self._measures(weights, [weights.neighbours]))
        return 100 * float(gains.mean()), -float(losses.mean())

    def gain(self, weights: DenseWeights, less: DenseWeights) -> tuple[float, Interval]:
        """Return by how much nDCG@5 is higher with some weights than with others, in percent, and its interval.

        The gain is not zero, which stands for a block that is dropped.
        """
        compared = differences(self._ndcg_statistic(weights), self._ndcg_statistic(less))["nDCG@5"]
        return max(compared.difference, TIED), compared.interval

    def _ndcg_statistic(self, weights: DenseWeights) -> dict[str, Statistic]:
        gains, _ = next(self._measures(weights, [weights.neighbours]))
        return {"nDCG@5": ratio(gains, np.ones(len(gains)))}

    def ranking(self, weights: DenseWeights) -> csr_array:
        """Return the probabilities of the first labels of each point, J×K, in order."""
        _, p = next(self._scores(weights, [weights.neighbours]))
        scores = np.where(self._candidates >= 0, p, -np.inf)
        order = descending(scores)[:, :LISTED]
        labels = np.take_along_axis(self._candidates, order, axis=1)
        p = np.take_along_axis(p, order, axis=1)
        kept = labels >= 0
        indptr = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
        return csr_array((p[kept], labels[kept], indptr), shape=self._shape)

    def best(self) -> DenseWeights:
        """Return the best weights; see `judge_dense_features`."""
        choices = []
        gains = []
        losses = []
        for v in JOINT_WEIGHTS if self._joint else JOINT_WEIGHTS[:1]:
            choices += [DenseWeights(v, w) for w in NEIGHBOUR_WEIGHTS]
            for point_gains, point_losses in self._measures(DenseWeights(v, 0), NEIGHBOUR_WEIGHTS):
                gains.append(point_gains)
                losses.append(point_losses)
        good = _near_lowest(-np.array(gains), np.arange(len(choices)), 2)
        good = _near_lowest(np.array(losses), good, 1)
        means = np.mean(losses, axis=1)
        return choices[min(good.tolist(), key=lambda number: (choices[number].joint, means[number]))]

    def _measures(
        self, weights: DenseWeights, neighbour_weights: Sequence[float]
    ) -> Iterator[tuple[NDArray[np.floating], NDArray[np.floating]]]:
        """Yield nDCG@5 of each point that has labels, and the log loss of each, for each weight of the neighbours."""
        for scores, p in self._scores(weights, neighbour_weights):
            yield self._ndcg(scores), self._log_loss(p)

    def _scores(
        self, weights: DenseWeights, neighbour_weights: Sequence[float]
    ) -> Iterator[tuple[NDArray[np.floating], NDArray[np.floating]]]:
        """Yield what the labels are ranked by, and their probabilities, J×L, for each weight of the neighbours."""
        predictor = self._make_predictor(pooled_parameters(self._words, self._joint, weights, self._bounds))
        labels = np.maximum(self._candidates, 0)
        with one_blas_thread():
            moments = predictor.pair_moments(predictor.prepare(self._features, "probability", True), labels)
        predictions, predicted = self._predicted(weights.dropped)
        indptr = np.arange(0, labels.size + 1, labels.shape[1])
        for w in neighbour_weights:
            mean, variance = (moment.copy() for moment in moments)
            if w:
                predictions.weight = w
                predictions.pool_pairs(predicted, indptr, labels.ravel(), mean, variance)
            p = logistic_scores(mean, variance, "probability", predictor.nodes).reshape(labels.shape)
            yield mean.reshape(labels.shape) if predictor.default_output == "utility" else p, p

    def _predicted(self, dropped: tuple[int, ...]) -> tuple[NeighbourPredictions, csr_array]:
        if dropped not in self._predictions:
            regression = self._neighbours.without([slice(*self._bounds[block]) for block in dropped])
            predictions = NeighbourPredictions(regression)
            self._predictions[dropped] = predictions, predictions.predict(self._weighted)
        return self._predictions[dropped]

    def _ndcg(self, scores: NDArray[np.floating]) -> NDArray[np.floating]:
        scores = np.where(self._candidates >= 0, scores, -np.inf)
        first = descending(scores)[:, :RANKS]
        hits = np.take_along_axis(self._is_true, first, axis=1)[self._labelled]
        gains: NDArray[np.floating] = hits @ self._discounts / self._ideal
        return gains

    def _log_loss(self, p: NDArray[np.floating]) -> NDArray[np.floating]:
        p = np.clip(p.astype(np.float64), LEAST, 1 - LEAST)
        losses = -np.log(np.where(self._is_true, p, 1 - p))
        total: NDArray[np.floating] = np.where(self._candidates >= 0, losses, 0).sum(axis=1)
        return total


def _near_lowest(values: NDArray[np.floating], choices: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return the choices whose mean value is at most so many standard errors of the difference above the lowest one.

    `values` are those of each choice for each point.
    """
    means = values[choices].mean(axis=1)
    lowest = int(np.argmin(means))
    differences = values[choices] - values[choices[lowest]]
    errors = differences.std(axis=1) / values.shape[1] ** 0.5
    near: NDArray[np.int64] = choices[means <= means[lowest] + count * errors]
    return near


def _first(scores: csr_array) -> csr_array:
    """Return which labels have the `LISTED` highest scores of each point, or fewer, J×K, bool."""
    points = np.repeat(np.arange(scores.shape[0]), np.diff(scores.indptr))
    order = np.lexsort((-scores.data, points))
    ranks = np.arange(len(order)) - scores.indptr[points[order]]
    kept = np.sort(order[ranks < LISTED])
    return csr_array((np.ones(len(kept), bool), (points[kept], scores.indices[kept])), shape=scores.shape)


def _first_by_latent(parameters: Parameters, weighted: Features, shape: tuple[int, int]) -> csr_array:
    """Return which labels have the `LISTED` highest Φ h + b of each point, J×K, bool."""
    latent = LatentMap.of(parameters).means(weighted)
    count = min(LISTED, shape[1])
    labels = np.empty((len(latent), count), np.int64)
    for start in range(0, len(latent), ROWS):
        rows = slice(start, start + ROWS)
        utilities = dense.product(latent[rows], parameters["loadings"].T) + parameters["bias"]
        labels[rows] = np.argpartition(utilities, shape[1] - count, axis=1)[:, shape[1] - count :]
    indptr = np.arange(0, labels.size + 1, count)
    return csr_array((np.ones(labels.size, bool), labels.ravel(), indptr), shape=shape)


def _padded(listed: Sequence[csr_array]) -> NDArray[np.int32]:
    """Return the listed labels of each point, J×L; −1 after the last."""
    union = csr_array(sum(matrix.astype(np.int8) for matrix in listed))
    union.sort_indices()
    counts = np.diff(union.indptr)
    padded = np.full((len(counts), max(1, counts.max(initial=0))), -1, np.int32)
    padded[np.arange(padded.shape[1]) < counts[:, None]] = union.indices
    return padded
