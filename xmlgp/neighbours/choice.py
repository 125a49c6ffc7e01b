"""What held-out points choose: the kernel of the regression on neighbours, and the weight of its predictions."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.gp.expectations import approximate_log_odds
from xmlgp.metrics.propensity import propensities_of_counts
from xmlgp.metrics.ranking import points_of, ranks_of, top_entries
from xmlgp.neighbours.hyperparameters import Choices, Kernel
from xmlgp.neighbours.label_texts import TEXT_WEIGHTS, TextEvidence, elements_of_pairs, fit_texts
from xmlgp.neighbours.predictions import NeighbourPredictions, labels_of_rows, united
from xmlgp.runtime.threads import run_parallel

if TYPE_CHECKING:
    from xmlgp.data.features import Features

__all__ = ["DEFAULT", "choose", "choose_texts"]

#: What to choose from. On five sets of 159 to 28,164 labels, each is best for one, by 0.1 to 0.6 of P@1 or P@5. Of
#: these and the other lists, the first is taken unless others are better by `LEAST_GAIN`.
KERNELS = (Kernel(1.0, 1.0, 0.2), Kernel(0.5, 1.0, 0.5), Kernel(1.0, 1.0, 0.5), Kernel(0.25, 1.0, 0.2))

#: The same where points have dense features. With embeddings, γ = 0.3 gains 0.7 of P@1 over 1 with 15,052 labels; with
#: 592 labels they are equal, and ℓ² = 2 gains 0.2 over 1.
DENSE_KERNELS = (Kernel(2.0, 0.3, 0.2), Kernel(2.0, 0.6, 0.2), Kernel(1.0, 0.3, 0.2), Kernel(1.0, 0.6, 0.2))

#: w to choose from.
WEIGHTS = (0.65, 0.0, 0.2, 0.35, 0.5, 0.8)

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


def choose(
    predictions: NeighbourPredictions,
    points: Features,
    labels: csr_array,
    ranked: NDArray[np.int32],
    moments: Callable[[NDArray[np.int32]], tuple[NDArray[np.floating], NDArray[np.floating]]],
    counts: NDArray[np.integer],
) -> Choices:
    """Return the choices of highest precision, the sum of P@k and PSP@k for k = 1, 3, 5, on held-out points.

    Parameters
    ----------
    predictions : NeighbourPredictions
        Of the training points, without these.
    points : Features, B×D
        Weighted.
    labels : csr_array of bool, B×K
    ranked : ndarray of int32, shape (B, R)
        The labels of highest utility without neighbours; −1 is none.
    moments : callable
        Returns mean and variance of the utilities of labels without neighbours, B·L, given the labels, B×L.
    counts : ndarray of int, shape (K,)
        The number of training points that have each label.
    """
    search = predictions.search(points)
    candidates = united(ranked, predictions.labels_of(search))
    B, L = candidates.shape
    if not L:
        return DEFAULT
    is_missing = candidates < 0
    pairs = np.maximum(candidates, 0)
    mean, variance = (values.reshape(B, L) for values in moments(pairs))
    measure = _Measure(candidates, labels, counts, predictions.point_count)
    indptr = np.arange(0, B * L + 1, L)
    found: dict[Choices, float] = {}
    kernels = DENSE_KERNELS if predictions.width else KERNELS
    regressions = run_parallel(functools.partial(predictions.regress, search, kernel) for kernel in kernels)
    for kernel, predicted in zip(kernels, regressions, strict=True):
        log_odds = predictions.log_odds(predicted, indptr, pairs.ravel()).reshape(B, L)
        for rarity, weight in itertools.product(RARITIES, WEIGHTS):
            choices = Choices(kernel, weight, rarity)
            weights = np.maximum(choices.weights_of(counts)[pairs], predicted.least)
            utilities = mean + weights * (log_odds - mean)
            spread = variance * np.square(1 - weights)
            spread += np.square(weights) * predicted.regressed.variance[:, None]
            scores = approximate_log_odds(utilities, spread)
            scores[is_missing] = -np.inf
            found[choices] = measure(scores)
    usual, best = next(iter(found)), max(found, key=found.__getitem__)
    return best if found[best] >= found[usual] + LEAST_GAIN / np.sqrt(B) else usual


def choose_texts(
    texts: TextEvidence,
    predictions: NeighbourPredictions,
    points: Features,
    labels: csr_array,
    ranked: NDArray[np.int32],
    moments: Callable[[NDArray[np.int32]], tuple[NDArray[np.floating], NDArray[np.floating]]],
    counts: NDArray[np.integer],
) -> NDArray[np.float64]:
    """Return what held-out points choose for the texts of labels: the likeliest coefficients, and the best weight.

    The weight is that of highest P@k + PSP@k, summed over `RANKS`, among those with which P@k is no lower than without
    texts. The parameters are those of `choose`; labels are ranked by, and moments are of, utilities with neighbours.
    """
    evidence = texts.evidence(points.sparse, predictions.predict(points).shares)
    texts.fit = fit_texts(evidence, labels)
    log_odds = texts.log_odds(evidence)
    candidates = united(ranked, labels_of_rows(top_entries(log_odds, TEXT_CANDIDATES)))
    B, L = candidates.shape
    pairs = np.maximum(candidates, 0)
    mean, variance = (values.reshape(B, L) for values in moments(pairs))
    terms = elements_of_pairs(log_odds, np.arange(0, B * L + 1, L), pairs.ravel()).reshape(B, L)
    measure = _Measure(candidates, labels, counts, predictions.point_count)
    best, most, least = 0.0, -1.0, 0.0
    for weight in TEXT_WEIGHTS:
        scores = np.where(candidates < 0, -np.inf, approximate_log_odds(mean + weight * terms, variance))
        precision, propensity_scored = measure.shares(scores)
        least = least or precision
        if precision >= least and precision + propensity_scored > most:
            best, most = weight, precision + propensity_scored
    return np.array([*texts.fit[:-1], best])


class _Measure:
    """The sum of the precision and `RARE_SHARE` times the propensity-scored one, in shares, of the labels at `RANKS`.

    `candidates`, B×L, are the labels among which the best are, −1 none; `labels` the true ones, B×K.
    """

    def __init__(self, candidates: NDArray[np.int32], labels: csr_array, counts: NDArray[np.integer], N: int) -> None:
        B, K = labels.shape
        values = 1 / propensities_of_counts(counts, N)
        is_true = np.isin(np.arange(B)[:, None] * K + candidates, points_of(labels) * K + labels.indices)
        is_true &= candidates >= 0
        self._gains = np.stack([is_true, is_true * values[candidates]]).astype(np.float32)
        ideal = top_entries(
            csr_array((values[labels.indices], labels.indices, labels.indptr), labels.shape), max(RANKS)
        )
        ranks = ranks_of(ideal)
        labelled = np.count_nonzero(np.diff(labels.indptr))
        self._best = [(k * labelled, ideal.data[ranks < k].sum()) for k in RANKS]

    def __call__(self, scores: NDArray[np.floating]) -> float:
        """Return the measure of scores, B×L; of equal ones the first are ranked higher."""
        precision, propensity_scored = self.shares(scores)
        return precision + RARE_SHARE * propensity_scored

    def shares(self, scores: NDArray[np.floating]) -> list[float]:
        """Return the two precisions, which `__call__` sums."""
        most = min(max(RANKS), scores.shape[1])
        # The sum over the first ranks, in the order of scores.
        first = np.argpartition(-scores, most - 1, axis=1)[:, :most]
        order = np.argsort(-np.take_along_axis(scores, first, axis=1), axis=1, kind="stable")
        found = np.take_along_axis(self._gains, np.take_along_axis(first, order, axis=1)[None], axis=2)
        sums = (found[:, :, :k].sum(axis=(1, 2)) / best for k, best in zip(RANKS, self._best, strict=True))
        shares: list[float] = np.sum(list(sums), axis=0).tolist()
        return shares
