"""Choose k labels of each point for a measure of all points together: macro-F1@k, coverage@k or PSP@k.

Label j has the probability p_ij for point i and the propensity q_j. It is chosen for A_j points, over which i runs in
H_j = Σ_i p_ij; Y_j is the same sum over all points. If labels are independent, and with the F1 of expected counts in
place of the expected F1, the measures are, up to a constant factor [1],

    macro-F1@k   Σ_j 2 H_j / (A_j + Y_j),
    coverage@k   Σ_j (1 − Π_i (1 − p_ij)),
    PSP@k        Σ_j H_j / q_j.

PSP@k is a sum over points, so each gets the labels of highest p/q. For the other two, block coordinate ascent starts
from the k most probable labels and visits the points in random order: each gets the k labels that raise the measure
most, given those of the other points. The measure never falls.

A rule that chooses the labels of a new point without the others, as Frank–Wolfe finds [2], reaches nearly the same on
the points that it was found on, but on other points half of the gain if most labels have few of them.

[1] Schultheis, Wydmuch, Kotłowski, Babbar, Dembczyński: Generalized test utilities for long-tail performance in
    extreme multi-label classification, NeurIPS 2023, arXiv:2311.05081.
[2] Schultheis, Kotłowski, Wydmuch, Babbar, Borman, Dembczyński: Consistent algorithms for multi-label classification
    with macro-at-k metrics, ICLR 2024, arXiv:2401.16594.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xmlgp.errors import UsageError
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.metrics.ranking import ranks_of
from xmlgp.prediction.calibration import CLOSEST
from xmlgp.prediction.label_writer import ScoredPoints
from xmlgp.prediction.scores_file import Scores
from xmlgp.prediction.selection import MAX_STREAMED
from xmlgp.runtime.progress import Progress, silent

__all__ = ["LabelChoice", "ascend", "parse_measure"]

#: What can be chosen for: a measure and k.
MEASURE = re.compile(r"(macro-f1|coverage|psp)@([1-9][0-9]{0,8})", re.IGNORECASE)

#: Labels are chosen among so many best ones of each point, or so many times k if these are more.
LISTED = MAX_STREAMED
TIMES_K = 4

#: The share of its value for the most probable labels that a measure may lose for precision. Many choices are nearly as
#: good for coverage: on the set `tags`, P@5 is four times as high, with 0.2 points less of coverage.
PRECISION_SHARE = 0.01

#: The ascent ends when visiting all points raises the measure by less than this share, after 4 to 8 times, or so often.
TOLERANCE = 1e-4
MOST_SWEEPS = 50

#: In place of zero in a denominator.
TINY = 1e-300


def parse_measure(text: str) -> tuple[str, int]:
    """Return the measure and the k of a text such as macro-f1@5; UsageError for another text."""
    match = MEASURE.fullmatch(text)
    if not match:
        raise UsageError(f"optimise is macro-f1@K, coverage@K or psp@K, such as macro-f1@5, not {text!r}.")
    return match[1].lower(), int(match[2])


@dataclass(frozen=True, eq=False)
class LabelChoice:
    """Chooses k labels of each point for a measure; `propensities`, K, are for psp."""

    measure: str
    k: int
    propensities: NDArray[np.float64] | None = None

    @property
    def listed(self) -> int:
        """How many best labels of each point the choice is among."""
        return max(LISTED, TIMES_K * self.k)

    def of_blocks(self, blocks: Iterable[ScoredPoints], progress: Progress = silent) -> Iterator[ScoredPoints]:
        """Yield blocks of points with their chosen labels: for psp one by one, otherwise after the last has come."""
        if self.measure == "psp":
            for block in blocks:
                yield block._replace(scores=self.of_scores(block.scores))
            return
        waiting = list(blocks)
        chosen = self.of_scores(Scores.stack([block.scores for block in waiting]), progress)
        start = 0
        for block in waiting:
            stop = start + block.scores.N
            yield block._replace(scores=chosen.rows(start, stop))
            start = stop

    def of_scores(self, scores: Scores, progress: Progress = silent) -> Scores:
        """Return the chosen labels of points, given the best labels of each, best first, with their probabilities.

        A point with at most k labels gets these. NumericalError is raised if a probability is not finite, except for
        psp.
        """
        if self.propensities is None:
            return scores.where(ascend(scores, self.k, self.measure == "coverage", progress=progress))
        order = np.lexsort((-scores.scores / self.propensities[scores.labels], scores.points))
        chosen = np.zeros(len(order), bool)
        chosen[order[ranks_of(scores.matrix) < self.k]] = True
        return scores.where(chosen)


def ascend(
    scores: Scores, k: int, is_coverage: bool, share: float = PRECISION_SHARE, progress: Progress = silent
) -> NDArray[np.bool_]:
    """Return which of the n listed labels are chosen for coverage@k, otherwise for macro-F1@k.

    The arguments are as for `LabelChoice.of_scores`. What is raised is the measure plus Σ_j H_j times a weight, such
    that the measure falls by at most `share` of its first value.
    """
    scores.check_finite()
    probabilities = np.minimum(scores.scores.astype(np.float64), 1 - CLOSEST)
    chosen = ranks_of(scores.matrix) < k
    if not len(chosen):
        return chosen
    random = np.random.default_rng(0)

    def sums() -> NDArray[np.float64]:
        """Return H, or −Σ_i log(1 − p_ij) for coverage, A and Y, 3×K."""
        amounts = -np.log1p(-probabilities) if is_coverage else probabilities
        labels = scores.labels[chosen]
        weights = [(labels, amounts[chosen]), (labels, None), (scores.labels, probabilities)]
        return np.array([np.bincount(columns, weight, scores.K) for columns, weight in weights], np.float64)

    hits, assigned, true = sums()
    value = _values(hits, assigned, true, is_coverage).sum()
    weight = share * value / max(probabilities[chosen].sum(), TINY)
    with progress("choose labels", None, " sweeps") as bar:
        for _ in range(MOST_SWEEPS):
            # Sums that are computed again have no rounding errors of the last sweep.
            order = random.permutation(scores.N)
            gain = _sweep(order, scores.indptr, scores.labels, probabilities, chosen, sums(), weight, is_coverage)
            bar.update()
            if gain <= TOLERANCE * value:
                break
    return chosen


@compiled
def _values(
    hits: NDArray[np.float64], assigned: NDArray[np.float64], true: NDArray[np.float64], is_coverage: bool
) -> NDArray[np.float64]:
    """Return what labels contribute to a measure, given their sums; see `ascend`."""
    return -np.expm1(-hits) if is_coverage else 2 * hits / np.maximum(assigned + true, TINY)


@compiled
def _sweep(
    order: NDArray[np.integer],
    indptr: NDArray[np.integer],
    labels: NDArray[np.int32],
    probabilities: NDArray[np.float64],
    chosen: NDArray[np.bool_],
    sums: NDArray[np.float64],
    weight: float,
    is_coverage: bool,
) -> float:
    """Choose the labels of each point again, in some order, and return by how much what is raised has grown."""
    hits = sums[0]
    assigned = sums[1]
    true = sums[2]
    growth = 0.0
    gains = np.empty(np.diff(indptr).max())
    for i in order:
        start = indptr[i]
        length = indptr[i + 1] - start
        k = 0
        for rank in range(length):
            label = labels[start + rank]
            p = probabilities[start + rank]
            amount = -np.log1p(-p) if is_coverage else p
            if chosen[start + rank]:
                hits[label] -= amount
                assigned[label] -= 1
                k += 1
            with_label = _values(hits[label] + amount, assigned[label] + 1, true[label], is_coverage)
            without_label = _values(hits[label], assigned[label], true[label], is_coverage)
            gains[rank] = with_label - without_label + weight * p
            if chosen[start + rank]:
                growth -= gains[rank]
                chosen[start + rank] = False
        for _ in range(k):
            best = np.argmax(gains[:length])
            pair = start + best
            growth += gains[best]
            gains[best] = -np.inf
            chosen[pair] = True
            hits[labels[pair]] += -np.log1p(-probabilities[pair]) if is_coverage else probabilities[pair]
            assigned[labels[pair]] += 1
    return growth
