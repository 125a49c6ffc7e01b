"""Ranking measures of the Extreme Classification Repository: P@k, nDCG@k and their propensity-scored forms.

Each measure is a sum over hits, the true labels among the first k of a point, so time and memory grow with the number
of stored scores and of true labels, not with N·K.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.metrics.statistics import Statistic, ratio
from xmlgp.runtime.errors import SettingsError

__all__ = [
    "are_true",
    "canonical",
    "check_labelled",
    "check_shapes",
    "count_reordered_ties",
    "highest_precision",
    "points_of",
    "ranking_statistics",
    "ranks_of",
    "top_entries",
]


class _Hits(NamedTuple):
    """True labels among the first k of each point: their points, labels and ranks, counted from 0."""

    points: NDArray[np.integer]
    labels: NDArray[np.integer]
    ranks: NDArray[np.integer]

    def sums(self, gains: NDArray[np.float64], depth: int, N: int) -> NDArray[np.float64]:
        """Return the sum of the gains of hits among the first `depth` of each of N points, N."""
        first = self.ranks < depth
        sums: NDArray[np.float64] = np.bincount(self.points[first], gains[first], N).astype(np.float64)
        return sums


def ranking_statistics(
    scores: csr_array,
    labels: csr_array,
    ks: Iterable[int] = (1, 3, 5),
    propensities: NDArray[np.floating] | None = None,
) -> dict[str, Statistic]:
    """Return measures of how well scores rank the true labels, as statistics of the points.

    The labels of a point are ranked by descending score. hit_l is 1 if the l-th label is true, otherwise 0; p_l is the
    propensity of the l-th label; n is the number of true labels of the point. All measures are in percent. These are
    averaged over all points, of which those without a true label count 0:

    - P@k = 1/k Σ_{l≤k} hit_l,
    - nDCG@k = Σ_{l≤k} hit_l / log2(l + 1) divided by Σ_{l≤min(k,n)} 1 / log2(l + 1).

    These are summed over all points, and divided by the same sum for the best possible ranking:

    - Σ_{l≤k} hit_l / p_l for PSP@k,
    - Σ_{l≤k} hit_l / (p_l log2(l + 1)) for PSnDCG@k.

    `scores` is a csr_array, N×K; labels without a stored score count as misses, and labels with equal scores are ranked
    by number, the lower first. `labels` are the true ones, a csr_array of bool, N×K. `propensities` has K elements (see
    `xmlgp.metrics.propensity`); without it, the propensity-scored measures are left out. SettingsError is raised if the
    shapes disagree or no point has a label.

    The conventions are those of the repository's scripts `precision_k`, `nDCG_k`, `precision_wt_k` and `nDCG_wt_k`
    (http://manikvarma.org/downloads/XC/XMLRepository.html). Other packages normalise the PSnDCG of each point by its
    number of labels before summing, and then differ for points with fewer than k labels.
    """
    check_labelled(scores, labels)
    N = labels.shape[0]
    label_counts = labels.sum(axis=1)
    # Ranks beyond the longest ranking are empty, so a huge k needs no more memory.
    longest = int(max(np.diff(scores.indptr).max(), label_counts.max()))
    depth_of = {k: min(k, longest) for k in ks}
    deepest = max(depth_of.values())
    hits = _find_hits(scores, labels, deepest)
    ones = np.ones(deepest)
    discounts = 1 / np.log2(np.arange(deepest) + 2)
    # Element n is the best DCG for n true labels. A hit belongs to a point with a true label, so element 0 is unused.
    ideal_dcg = np.concatenate([[np.nan], np.cumsum(discounts)])
    statistics = {}
    for k, depth in depth_of.items():
        precision = ratio(hits.sums(ones[hits.ranks], depth, N), np.full(N, k))
        statistics[f"P@{k}"] = replace(precision, limit=highest_precision(label_counts, k))
    for k, depth in depth_of.items():
        gains = discounts[hits.ranks] / ideal_dcg[np.minimum(label_counts[hits.points], depth)]
        statistics[f"nDCG@{k}"] = ratio(hits.sums(gains, depth, N), np.ones(N))
    if propensities is None:
        return statistics

    gain_of_label = 1 / np.asarray(propensities, dtype=np.float64)
    ideal_scores = csr_array((gain_of_label[labels.indices], labels.indices, labels.indptr), labels.shape)
    ideal_hits = _find_hits(ideal_scores, labels, deepest)
    for name, discount_of_rank in ("PSP", ones), ("PSnDCG", discounts):
        for k, depth in depth_of.items():
            found, ideal = (
                ranked.sums(gain_of_label[ranked.labels] * discount_of_rank[ranked.ranks], depth, N)
                for ranked in (hits, ideal_hits)
            )
            statistics[f"{name}@{k}"] = ratio(found, ideal)
    return statistics


def highest_precision(counts: NDArray[np.integer], k: int) -> float:
    """Return the highest P@k that is possible, 100/(kN) Σ_i min(n_i, k), given the numbers of labels of points, N."""
    return float(100 * np.minimum(counts, k).sum() / (k * len(counts)))


def are_true(predicted: csr_array, labels: csr_array) -> NDArray[np.bool_]:
    """Return whether each entry of `predicted.data` is a true label (ndarray of bool).

    Both arguments are N×K. `predicted` has at most one entry per point and label, in any order.
    """
    is_true = np.zeros(predicted.nnz, bool)
    is_true[_true_entries(predicted, labels)] = True
    return is_true


def _true_entries(predicted: csr_array, labels: csr_array) -> NDArray[np.integer]:
    """Return the positions of the true labels in `predicted.data`, ordered by point and label; see `are_true`."""
    # An elementwise product keeps exactly the common entries. Positions start at 1, because a zero would be dropped.
    positions = csr_array((np.arange(1, predicted.nnz + 1), predicted.indices, predicted.indptr), predicted.shape)
    common = canonical(positions) * canonical(labels).astype(positions.dtype)
    true_positions: NDArray[np.integer] = common.data - 1
    return true_positions


def top_entries(scores: csr_array, k: int) -> csr_array:
    """Return the k highest scores of each point, or all if it has fewer (csr_array, N×K), best first; ties by label."""
    scores = canonical(scores)
    k = min(k, scores.shape[1])
    # Labels ascend within each point, so a stable sort puts the lower label first among equal scores. Unlike a minus
    # sign, the factor −1.0 also negates scores of bool and of unsigned integers.
    order = np.lexsort((-1.0 * scores.data, points_of(scores)))[ranks_of(scores) < k]
    indptr = np.concatenate([[0], np.cumsum(np.minimum(np.diff(scores.indptr), k))])
    return csr_array((scores.data[order], scores.indices[order], indptr), scores.shape)


def count_reordered_ties(scores: csr_array, k: int) -> int:
    """Return how many points list equal scores, among the first k, with a higher label before a lower one.

    A program whose scores are all equal, by a fault, has a ranking of its own, which is not that of `top_entries`. Only
    points that list the highest score first count: in other lists the order says nothing.
    """
    ranks = ranks_of(scores)[1:]
    points = points_of(scores)[1:]
    within = (ranks > 0) & (ranks <= k)
    steps = np.diff(scores.data)
    reordered = within & (steps == 0) & (np.diff(scores.indices) < 0)
    return len(np.setdiff1d(points[reordered], points[within & (steps > 0)]))


def points_of(scores: csr_array) -> NDArray[np.intp]:
    """Return the point of each stored entry."""
    return np.repeat(np.arange(scores.shape[0]), np.diff(scores.indptr))


def ranks_of(scores: csr_array) -> NDArray[np.integer]:
    """Return the position of each stored entry within its point, counted from 0."""
    ranks: NDArray[np.integer] = np.arange(scores.nnz) - scores.indptr[points_of(scores)]
    return ranks


def check_shapes(scores: csr_array, labels: csr_array, name: str = "scores") -> None:
    """Raise SettingsError unless scores and true labels have the same shape; the message calls the scores `name`."""
    if scores.shape != labels.shape:
        first, second = ("×".join(map(str, matrix.shape)) for matrix in (scores, labels))
        raise SettingsError(f"the {name} are {first}, the true labels {second}")


def check_labelled(scores: csr_array, labels: csr_array) -> None:
    """Raise SettingsError unless scores and true labels have the same shape and a point has a label."""
    check_shapes(scores, labels)
    if not labels.nnz:
        raise SettingsError("no point has a true label, so there is nothing to evaluate")


def _find_hits(scores: csr_array, labels: csr_array, k: int) -> _Hits:
    """Return the true labels among the k of highest score of each point."""
    top = top_entries(scores, k)
    entries = _true_entries(top, labels)
    return _Hits(points_of(top)[entries], top.indices[entries], ranks_of(top)[entries])


def canonical(matrix: csr_array) -> csr_array:
    """Return the matrix, or a copy with the columns of each row sorted and duplicate entries added up.

    SciPy's products of unsorted matrices allocate an array of K elements.
    """
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix
