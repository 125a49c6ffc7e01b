"""What held-out points choose: the kernel of the regression on neighbours, and the weight of its predictions."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.data.dataset import Features
from xmlgp.gp.expectations import approximate_log_odds
from xmlgp.metrics.propensity import propensities_of_counts
from xmlgp.metrics.ranking import points_of, ranks_of, top_entries
from xmlgp.neighbours.label_texts import TEXT_WEIGHTS, TextTerm, fit_texts
from xmlgp.neighbours.predictions import NeighbourTerm, labels_of_points, pool_variance
from xmlgp.neighbours.regression import Choices, Kernel
from xmlgp.prediction.terms import Pairs
from xmlgp.prediction.top_k import labels_of_rows, united

__all__ = ["DEFAULT", "HeldOutPoints", "choose", "choose_texts", "score"]

#: What to choose from. On five sets of 159 to 28,164 labels, each is best for one, by 0.1 to 0.6 of P@1 or P@5. Of
#: these and the other lists, the first is taken unless others are better by `LEAST_GAIN`.
KERNELS = (Kernel(1.0, 1.0, 0.2), Kernel(0.5, 1.0, 0.5), Kernel(1.0, 1.0, 0.5), Kernel(0.25, 1.0, 0.2))

#: The same where points have dense features. With embeddings, γ = 0.3 gains 0.7 of P@1 over 1 with 15,052 labels; with
#: 592 labels they are equal, and ℓ² = 2 gains 0.2 over 1.
DENSE_KERNELS = (Kernel(2.0, 0.3, 0.2), Kernel(2.0, 0.6, 0.2), Kernel(1.0, 0.3, 0.2), Kernel(1.0, 0.6, 0.2))

#: w to choose from.
WEIGHTS = (0.65, 0.0, 0.2, 0.35, 0.8, 0.95)

#: r to choose from. With 28,164 labels, 5 in place of 0 gains 1 of PSP@1 and loses 0.3 of P@1; with 15,052 labels of
#: fewer points it loses 0.3 of P@3.
RARITIES = (0.0, 2.0, 5.0)

#: What a model has whose held-out points are too few to choose.
DEFAULT = Choices(KERNELS[0], WEIGHTS[0], RARITIES[0])

#: Labels of the best texts of each point, among which and those of highest utility the weight of texts is chosen.
TEXT_CANDIDATES = 20

#: The first ranks, whose precision and propensity-scored precision are summed. The second counts so many times: with
#: equal shares, 28,164 labels gain 4 of P@1 and lose 0.5 of PSP@1, which is that of rare labels.
RANKS = (1, 3, 5)
RARE_SHARE = 2.0

#: The least gain of this sum, times the root of the number of points: about a standard error of a difference. Without
#: it, 400 points of Bibtex choose what loses 0.5 of P@1 on test points.
LEAST_GAIN = 0.4

#: n of `score`: four times as fast as 200, and as good for comparing one state of training with another.
NEAREST_OF_SCORE = 100


class HeldOutPoints(NamedTuple):
    """Points that are held out of training, to choose on.

    `features` are weighted, B×D; `labels` Y, B×K; `ranked` the labels of highest utility of each point, B×R, −1 none;
    `moments` returns mean and variance of the utilities of labels, given the labels, both B×L; `counts` are the numbers
    of training points that have each label, K, of N in all.
    """

    features: Features
    labels: csr_array
    ranked: NDArray[np.int32]
    moments: Callable[[NDArray[np.int32]], tuple[NDArray[np.floating], NDArray[np.floating]]]
    counts: NDArray[np.integer]
    N: int

    def candidates(self, more: NDArray[np.int32]) -> _Candidates:
        """Return the labels of highest utility and more as candidates."""
        candidates = united(self.ranked, more)
        labels = np.maximum(candidates, 0)
        return _Candidates(candidates < 0, labels, *self.moments(labels), _Measure(candidates, self))


class _Candidates(NamedTuple):
    """Labels among which the best of each point are, B×L, whether each is missing, and the moments of its utility."""

    is_missing: NDArray[np.bool_]
    labels: NDArray[np.int32]
    mean: NDArray[np.floating]
    variance: NDArray[np.floating]
    measure: _Measure

    def precisions(self, mean: NDArray[np.floating], variance: NDArray[np.floating]) -> list[float]:
        """Return the precision and the propensity-scored one with other moments of utilities."""
        return self.measure(np.where(self.is_missing, -np.inf, approximate_log_odds(mean, variance)))


def choose(neighbours: NeighbourTerm, points: HeldOutPoints) -> Choices:
    """Return the choices of highest precision, the sum of P@k and PSP@k for k = 1, 3, 5, on held-out points.

    The neighbours are the training points, without these; utilities are those without neighbours.
    """
    found = _scores(neighbours, points)
    usual, best = next(iter(found), DEFAULT), max(found, key=found.__getitem__, default=DEFAULT)
    return best if best != usual and found[best] >= found[usual] + LEAST_GAIN / np.sqrt(points.features.N) else usual


def score(neighbours: NeighbourTerm, points: HeldOutPoints) -> float:
    """Return the highest sum of `choose` with one kernel and fewer neighbours."""
    return max(_scores(neighbours, points, 1).values(), default=0.0)


def _scores(neighbours: NeighbourTerm, points: HeldOutPoints, first: int | None = None) -> dict[Choices, float]:
    """Return P@k and `RARE_SHARE` times PSP@k, summed over `RANKS`, of choices; nothing if there are no candidates.

    They have the `first` kernels and rarities, by default all.
    """
    kernels = (DENSE_KERNELS if neighbours.width else KERNELS)[:first]
    search = neighbours.search(points.features, first and NEAREST_OF_SCORE)
    candidates = points.candidates(labels_of_points(search.nearest, neighbours.labels))
    found: dict[Choices, float] = {}
    if not candidates.labels.size:
        return found
    pairs = Pairs.from_table(candidates.labels)
    for kernel, predicted in zip(kernels, neighbours.regress(search, kernels), strict=True):
        log_odds = neighbours.log_odds(predicted, pairs).reshape(candidates.labels.shape)
        for rarity, weight in itertools.product(RARITIES[:first], WEIGHTS):
            choices = Choices(kernel, weight, rarity)
            weights = np.maximum(choices.weights_of(points.counts)[candidates.labels], predicted.least[:, None])
            spread = candidates.variance.copy()
            pool_variance(spread, weights, predicted.regressed.variance[:, None])
            mean = candidates.mean + weights * (log_odds - candidates.mean)
            precision, propensity_scored = candidates.precisions(mean, spread)
            found[choices] = precision + RARE_SHARE * propensity_scored
    return found


def choose_texts(texts: TextTerm, neighbours: NeighbourTerm, points: HeldOutPoints) -> NDArray[np.float64]:
    """Return what held-out points choose for the texts of labels: the likeliest coefficients, and the best weight.

    The weight is that of highest P@k + PSP@k, summed over `RANKS`, among those with which P@k is no lower than without
    texts. Utilities are those with neighbours.
    """
    evidence = texts.evidence(points.features.sparse, neighbours.predict(points.features).shares)
    texts.fit = fit_texts(evidence, points.labels)
    log_odds = texts.log_odds(evidence)
    candidates = points.candidates(labels_of_rows(top_entries(log_odds, TEXT_CANDIDATES)))
    terms = Pairs.from_table(candidates.labels).elements(log_odds).reshape(candidates.labels.shape)
    best, most, least = 0.0, -1.0, 0.0
    for weight in TEXT_WEIGHTS:
        precision, propensity_scored = candidates.precisions(candidates.mean + weight * terms, candidates.variance)
        least = least or precision
        if precision >= least and precision + propensity_scored > most:
            best, most = weight, precision + propensity_scored
    return np.array([*texts.fit[:-1], best])


class _Measure:
    """The precision and the propensity-scored one, in shares of the best, of the labels at `RANKS`, summed over these.

    `candidates`, B×L, are the labels among which the best are, −1 none.
    """

    def __init__(self, candidates: NDArray[np.int32], points: HeldOutPoints) -> None:
        labels = points.labels
        B, K = labels.shape
        values = 1 / propensities_of_counts(points.counts, points.N)
        is_true = np.isin(np.arange(B)[:, None] * K + candidates, points_of(labels) * K + labels.indices)
        is_true &= candidates >= 0
        self._gains = np.stack([is_true, is_true * values[candidates]]).astype(np.float32)
        ideal = top_entries(
            csr_array((values[labels.indices], labels.indices, labels.indptr), labels.shape), max(RANKS)
        )
        ranks = ranks_of(ideal)
        labelled = np.count_nonzero(np.diff(labels.indptr))
        self._best = [(k * labelled, ideal.data[ranks < k].sum()) for k in RANKS]

    def __call__(self, scores: NDArray[np.floating]) -> list[float]:
        """Return the two precisions of scores, B×L; of equal ones the first are ranked higher."""
        most = min(max(RANKS), scores.shape[1])
        # The sum over the first ranks, in the order of scores.
        first = np.argpartition(-scores, most - 1, axis=1)[:, :most]
        order = np.argsort(-np.take_along_axis(scores, first, axis=1), axis=1, kind="stable")
        found = np.take_along_axis(self._gains, np.take_along_axis(first, order, axis=1)[None], axis=2)
        sums = (found[:, :, :k].sum(axis=(1, 2)) / best for k, best in zip(RANKS, self._best, strict=True))
        shares: list[float] = np.sum(list(sums), axis=0).tolist()
        return shares
