"""The index of training points in a model, and the predictions of the regression on the nearest, pooled with utilities.

The moments of a utility f_k become those of

    (1 − w_k) f_k + w_k (logit(g_k) + ε),    w_k = w n_k/(n_k + r),    ε ~ N(0, v),

the logarithmic pool of σ(f) and g: g are the predictions of the regression, clipped to [0, 1] and moved inwards by
`MARGIN`, and v is the variance of the regression. n_k training points have label k: labels of few points have a smaller
weight, where r > 0, because with the same weight rare labels lose.

Source: C. Genest, J. V. Zidek, Combining probability distributions, Statistical Science 1(1), 1986, for the pool.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.data.dataset import Features, as_csr, stack_rows
from xmlgp.features.weighting import Weighting, weigh
from xmlgp.linear_algebra.array_groups import Array, ArrayGroup, at_least, csr_pattern, is_positive
from xmlgp.linear_algebra.compiled import compiled, compiled_part
from xmlgp.linear_algebra.elementary import logarithm
from xmlgp.linear_algebra.sparse import arrays_of, first_not_below
from xmlgp.metrics.ranking import top_entries
from xmlgp.neighbours.dense import DenseSearch, StandardisedDense, standardise
from xmlgp.neighbours.regression import Choices, Kernel, NearestPoints, Recall, Regressed, regress
from xmlgp.neighbours.search import POSTINGS, PointIndex, build_index, nearest
from xmlgp.prediction.contributions import Contributions, Supporter
from xmlgp.prediction.terms import Pairs
from xmlgp.prediction.top_k import labels_of_rows, united

__all__ = [
    "DENSE",
    "EXACT_LABELS",
    "NEIGHBOURS",
    "NeighbourTerm",
    "Neighbours",
    "Predicted",
    "labels_of_points",
    "pool_variance",
    "scaled_words",
]

#: n, the training points in each regression, and the same of more training points than so many. With 200, 22,000
#: documents have a P@k that is 0.2 higher than with 100; it takes three times as long, which counts where points are
#: many. With 50, test points of three sets lose 0.2 to 0.6 of P@1 and P@3.
NEAREST = 200
NEAREST_OF_MANY = 100
MANY_POINTS = 50_000

#: Distance of predictions from 0 and 1 in the pool. With 0.0003 and 0.003, precision changes by less than 0.1.
MARGIN = 0.001

#: Of labels that utilities do not know: the distance of predictions from 0, as a share of the label's frequency, and
#: the slope of log odds. A tenth of the labels of two sets, of 592 and 15,052, was left out of training and learned
#: with new points. Probabilities of these labels sum to 2737 where 2576 are true, and to 999 where 1103 are; treated
#: as other labels, to 3410 and 4132.
UNKNOWN_MARGIN = 0.15
UNKNOWN_SLOPE = 1.15


def _are_choices(values: NDArray[np.float64], sizes: dict[str, int]) -> bool:
    choices = Choices.of(values)
    squared_lengthscale, dense_relevance, noise = choices.kernel
    return bool(
        squared_lengthscale > 0
        and dense_relevance >= 0
        and noise >= SMALLEST_NOISE
        and 0 <= choices.weight <= 1
        and choices.rarity >= 0
    )


#: Up to so many labels, all are scored, which takes little time.
EXACT_LABELS = 5000

#: With less recall of the best labels than this, all labels are scored.
LEAST_RECALL = 0.97

#: Labels that are scored for each point: those of the nearest points with the largest shares, and the most frequent.
LARGEST = 100
FREQUENT = 50

#: With less noise, the systems of points that are alike are singular in single precision.
SMALLEST_NOISE = 0.01

#: The arrays of `Neighbours`.
NEIGHBOURS = ArrayGroup(
    "neighbours.",
    **csr_pattern("N D", "c"),
    values=Array("c", np.float32),
    **POSTINGS,
    **csr_pattern("N K", "d", "label_indptr", "labels"),
    choices=Array("5", np.float64, _are_choices),
    recall=Array("2", np.float64, at_least(0, 1)),
)

#: The arrays of `StandardisedDense`.
DENSE = ArrayGroup(
    "neighbours.dense_",
    values=Array("N E", np.floating),
    center=Array("E", np.float64),
    width=Array("E", np.float64, is_positive),
)


class Neighbours(NamedTuple):
    """The training points: an index of their words, N×D, their labels Y, N×K, and dense features, N×E, or None."""

    words: PointIndex
    labels: csr_array
    choices: Choices
    dense: StandardisedDense | None = None
    recall: Recall = Recall(1.0, 0.0)

    @classmethod
    def build(
        cls, words: csr_array, labels: csr_array, choices: Choices, dense: NDArray[np.floating] | None = None
    ) -> Neighbours:
        """Return the index of training points, given their words, scaled and of unit length, and labels, N×K."""
        standardised = None if dense is None else standardise(dense)
        return cls(build_index(words), labels.astype(np.float32), choices, standardised)

    @classmethod
    def of(cls, parameters: Mapping[str, NDArray[Any]], D: int, K: int) -> Neighbours | None:
        """Return the index among the parameters of a model with D features and K labels, or None."""
        if not NEIGHBOURS.is_in(parameters):
            return None
        arrays = NEIGHBOURS.read(parameters)
        rows = as_csr(arrays["values"], arrays["indices"], arrays["indptr"], D)
        words = PointIndex(rows, *(arrays[name] for name in POSTINGS))
        values = np.ones(len(arrays["labels"]), np.float32)
        labels = as_csr(values, arrays["labels"], arrays["label_indptr"], K)
        dense = StandardisedDense(**DENSE.read(parameters)) if DENSE.is_in(parameters) else None
        return cls(words, labels, Choices.of(arrays["choices"]), dense, Recall(*arrays["recall"].tolist()))

    def extended(
        self, words: csr_array, labels: csr_array, dense: NDArray[Any] | None, rows: NDArray[np.integer]
    ) -> Neighbours:
        """Return the index of `rows` of these training points and more after them, of the same D and K."""
        all_words = stack_rows([self.words.rows, words])[rows]
        all_labels = stack_rows([self.labels, labels.astype(np.float32)])[rows]
        more_dense = self.dense if self.dense is None or dense is None else self.dense.extended(dense, rows)
        return self._replace(words=build_index(all_words), labels=all_labels, dense=more_dense)

    def parameters(self) -> dict[str, NDArray[Any]]:
        """Return the arrays by their names in a model."""
        rows, *postings = self.words
        arrays = {
            "indptr": rows.indptr.astype(np.int64, copy=False),
            "indices": rows.indices.astype(np.int32, copy=False),
            "values": rows.data,
            **dict(zip(POSTINGS, postings, strict=True)),
            "label_indptr": self.labels.indptr.astype(np.int64, copy=False),
            "labels": self.labels.indices.astype(np.int32, copy=False),
            "choices": self.choices.values(),
            "recall": np.array(self.recall),
        }
        dense = {} if self.dense is None else DENSE.named(self.dense._asdict())
        return NEIGHBOURS.named(arrays) | dense


def scaled_words(features: csr_array, scales: NDArray[np.floating]) -> csr_array:
    """Return x_id s_d of weighted words, N×D, scaled to unit length, in single precision with sorted indices."""
    result = weigh(features, Weighting(scales, unit=True))
    result.sort_indices()
    return result


class Predicted(NamedTuple):
    """The regressions of B points, and Σ_r α_r Y_rk, the part of g that neighbours with the label have, B×K.

    The rest of g_k is π_k times the `rest` of the regression. `least`, B, are the least weights in the pool.
    """

    found: NearestPoints
    regressed: Regressed
    shares: csr_array
    least: NDArray[np.float32]


class NeighbourTerm:
    """The pool with the predictions at points, given the scales of words, D, and the counts of labels, K.

    Utilities know the first `trained` labels, by default all; predictions of the others are not pooled with any.
    """

    def __init__(
        self,
        neighbours: Neighbours,
        scales: NDArray[np.floating],
        counts: NDArray[np.integer],
        trained: int | None = None,
    ) -> None:
        self._index, self.labels, self.choices, dense, self._recall = neighbours
        self._scales = scales
        self._dense = None if dense is None else DenseSearch(self._index.rows, dense)
        #: E.
        self.width = 0 if dense is None else len(dense.center)
        #: N.
        self.point_count = self.labels.shape[0]
        self._count = NEAREST if self.point_count <= MANY_POINTS else NEAREST_OF_MANY
        self._frequencies = (counts / max(1, self.point_count)).astype(np.float32)
        self._most_frequent = np.argsort(-self._frequencies, kind="stable").astype(np.int32)
        self._weights = self.choices.weights_of(counts)
        #: Of each label, the distance of predictions from 0, and the slope of log odds.
        self._margins = np.full(len(counts), MARGIN, np.float32)
        self._slopes = np.ones(len(counts), np.float32)
        if trained is not None:
            self._weights[trained:] = 1
            self._margins[trained:] = UNKNOWN_MARGIN * np.maximum(counts[trained:], 1) / self.point_count
            self._slopes[trained:] = UNKNOWN_SLOPE

    def best_labels(self, predicted: Predicted, count: int) -> NDArray[np.int32] | None:
        """Return labels among which the best `count` are, B×L: those of the nearest points, and the most frequent ones.

        None if all labels are to be scored, because they are few, or the best are often not among these.
        """
        if len(self._frequencies) <= EXACT_LABELS or self._recall.labels < LEAST_RECALL:
            return None
        nearest = labels_of_rows(top_entries(predicted.shares, max(count, LARGEST)))
        frequent = self._most_frequent[: max(count, FREQUENT)]
        return united(nearest, np.broadcast_to(frequent, (len(nearest), len(frequent))))

    def search(self, weighted: Features, count: int | None = None) -> NearestPoints:
        """Return the nearest training points of weighted points, B×D; so many, or those of predictions."""
        count = count or self._count
        words = scaled_words(weighted.sparse, self._scales)
        if self._dense is not None and weighted.dense is not None:
            return self._dense.search(words, weighted.dense, count, self.choices.kernel)
        return NearestPoints(*nearest(self._index, words, count), np.ones(weighted.N, np.bool_))

    def predict(self, weighted: Features) -> Predicted:
        """Return the predictions at weighted points, B×D."""
        return self.regress(self.search(weighted), [self.choices.kernel])[0]

    def regress(self, found: NearestPoints, kernels: Sequence[Kernel]) -> list[Predicted]:
        """Return the predictions at points with each kernel, given their nearest training points."""
        dense = None if self._dense is None else self._dense.values
        # Nothing else says anything of points that only have dense features.
        least = (~found.has_words).astype(np.float32)
        return [
            Predicted(found, regressed, _weighted_labels(found.nearest, regressed.weights, self.labels), least)
            for regressed in regress(self._index.rows, found, kernels, dense)
        ]

    def block(
        self,
        predicted: Predicted,
        labels: slice,
        mean: NDArray[np.floating],
        variance: NDArray[np.floating] | None = None,
    ) -> None:
        """Pool the moments of a block of labels, B×L; see `Term`."""
        shares = predicted.shares
        weights = np.maximum(self._weights[labels], predicted.least[:, None])
        first, _, _ = labels.indices(shares.shape[1])
        of_labels = self._frequencies[labels], self._margins[labels], self._slopes[labels]
        _pool_block(arrays_of(shares), predicted.regressed.rest, of_labels, weights, first, mean)
        pool_variance(variance, weights, predicted.regressed.variance[:, None])

    def pairs(
        self,
        predicted: Predicted,
        pairs: Pairs,
        mean: NDArray[np.floating],
        variance: NDArray[np.floating] | None = None,
    ) -> None:
        """Pool the moments of pairs; see `Term`."""
        weights = self.weights(predicted, pairs)
        mean += weights * (self.log_odds(predicted, pairs) - mean)
        pool_variance(variance, weights, pairs.repeat(predicted.regressed.variance))

    def explain(self, predicted: Predicted, pairs: Pairs, weighted: csr_array, contributions: Contributions) -> None:
        """Give the contributions so far their weight in the pool, and add those of neighbours; see `Term`."""
        weights = self.weights(predicted, pairs)
        contributions.rest["bias"] *= 1 - weights
        contributions.features.data *= np.repeat(1 - weights, np.diff(weighted.indptr))
        contributions.rest["neighbours"] = weights * self.log_odds(predicted, pairs)

    def weights(self, predicted: Predicted, pairs: Pairs) -> NDArray[np.float32]:
        """Return the weights of pairs in the pool, n."""
        weights: NDArray[np.float32] = np.maximum(self._weights[pairs.labels], pairs.repeat(predicted.least))
        return weights

    def log_odds(self, predicted: Predicted, pairs: Pairs) -> NDArray[np.float32]:
        """Return logit(g) of pairs, n."""
        result: NDArray[np.float32] = pairs.repeat(predicted.regressed.rest) * self._frequencies[pairs.labels]
        result += pairs.elements(predicted.shares)
        _replace_by_log_odds(result, self._margins[pairs.labels])
        result *= self._slopes[pairs.labels]
        return result

    def supporters(self, predicted: Predicted, pairs: Pairs, weighted: csr_array, count: int) -> list[list[Supporter]]:
        """Return for each pair the nearest training points with the label that weigh most for it.

        There are at most `count`, and as many of the words; `weighted` are the features of the points, B×D.
        """
        nearest, weights = predicted.found.nearest, predicted.regressed.weights
        similarities = np.exp(predicted.found.exponents(self.choices.kernel))
        words = scaled_words(weighted, self._scales)
        supporters = []
        for i, (start, stop) in enumerate(itertools.pairwise(pairs.indptr)):
            # A training point that is not there has no weight.
            of_points = self.labels[np.maximum(nearest[i], 0)][:, pairs.labels[start:stop]]
            for of_label in of_points.toarray().T * weights[i]:
                best = np.argsort(-of_label, kind="stable")[:count]
                supporters.append(
                    [
                        Supporter(
                            nearest[i, r].item(),
                            similarities[i, r].item(),
                            self._common(words[[i]], nearest[i, r], count),
                        )
                        for r in best[of_label[best] > 0]
                    ]
                )
        return supporters

    def _common(self, query: csr_array, point: int, count: int) -> list[int]:
        """Return the words that a point and a training point have, those of the largest products."""
        products = query * self._index.rows[[point]]
        order = np.argsort(-products.data, kind="stable")[:count]
        common: list[int] = products.indices[order].tolist()
        return common


def labels_of_points(nearest: NDArray[np.int32], labels: csr_array) -> NDArray[np.int32]:
    """Return the labels of the training points that are nearest to each of B points, ascending, B×L.

    `nearest` are the training points, B×n, and `labels` is Y, N×K. −1 is none.
    """
    counts = _weighted_labels(nearest, (nearest >= 0).astype(np.float32), labels)
    counts.eliminate_zeros()
    return labels_of_rows(counts)


def _weighted_labels(nearest: NDArray[np.int32], weights: NDArray[np.float32], labels: csr_array) -> csr_array:
    """Return Σ_r α_r Y_rk, B×K with sorted labels, given the nearest points and their weights α, B×n."""
    B, n = nearest.shape
    indptr = np.arange(B + 1, dtype=np.int32) * n
    # A weight of zero stands for the points that are not there.
    points = csr_array((weights.ravel(), np.maximum(nearest, 0).ravel(), indptr), shape=(B, labels.shape[0]))
    weighted: csr_array = points @ labels
    weighted.sort_indices()
    return weighted


def pool_variance(
    variance: NDArray[np.floating] | None, weights: NDArray[np.float32], spread: NDArray[np.float32]
) -> None:
    """Pool variances of utilities with those of the regression, in place."""
    if variance is not None:
        variance *= np.square(1 - weights)
        variance += np.square(weights) * spread


@compiled_part
def _log_odds(predicted: float, margin: float) -> float:
    """Return logit(g) of a prediction, clipped to [0, 1] and moved inwards, from 0 by a margin."""
    g = min(max(predicted, np.float32(0)), np.float32(1))
    return logarithm((g + margin) / (np.float32(1 + MARGIN) - g))


@compiled
def _pool_block(
    shares: tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.float32]],
    rest: NDArray[np.float32],
    of_labels: tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]],
    weights: NDArray[np.float32],
    first: int,
    mean: NDArray[np.floating],
) -> None:
    """Pool the means of a block of labels from `first` on, given their frequencies, margins and slopes."""
    indptr, labels, data = shares
    frequencies, margins, slopes = of_labels
    L = mean.shape[1]
    predicted = np.empty(L, np.float32)
    for i in range(len(mean)):
        for j in range(L):
            predicted[j] = frequencies[j] * rest[i]
        e = first_not_below(labels, first, indptr[i], indptr[i + 1])
        while e < indptr[i + 1] and labels[e] < first + L:
            predicted[labels[e] - first] += data[e]
            e += 1
        for j in range(L):
            mean[i, j] += weights[i, j] * (slopes[j] * _log_odds(predicted[j], margins[j]) - mean[i, j])


@compiled
def _replace_by_log_odds(predicted: NDArray[np.float32], margins: NDArray[np.float32]) -> None:
    for p in range(len(predicted)):
        predicted[p] = _log_odds(predicted[p], margins[p])
