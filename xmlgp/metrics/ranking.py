"""Ranking measures of the Extreme Classification Repository: P@k, nDCG@k and their propensity-scored forms.

Each measure is a sum over hits, the true labels among the first k of a point, so time and memory grow with the listed
scores and the positives, not with N·K.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.errors import SettingsError

__all__ = [
    "are_true",
    "canonical",
    "check_shapes",
    "evaluate_ranking",
    "points_of",
    "ranks_of",
    "top_entries",
    "true_entries",
]


class _Hits(NamedTuple):
    """True labels among the first k of each point: their points, labels and ranks, counted from 0."""

    points: NDArray[np.integer]
    labels: NDArray[np.integer]
    ranks: NDArray[np.integer]


def evaluate_ranking(
    scores: csr_array,
    labels: csr_array,
    ks: Iterable[int] = (1, 3, 5),
    propensities: NDArray[np.floating] | None = None,
) -> dict[str, float]:
    """Evaluate how well scores rank the true labels.

    The labels of a point are ranked by descending score; hit_l = 1 if the l-th is true, n is the number of true labels
    of the point and p are propensities. The mean over the points that have a label of

    - P@k = 1/k Σ_{l≤k} hit_l,
    - nDCG@k = Σ_{l≤k} hit_l / log2(l + 1) divided by Σ_{l≤min(k,n)} 1 / log2(l + 1),

    and the sum over the points, divided by the same sum for the best possible ranking, of

    - Σ_{l≤k} hit_l / p_l for PSP@k,
    - Σ_{l≤k} hit_l / (p_l log2(l + 1)) for PSnDCG@k,

    all in percent. Labels that are not stored in `scores`, a csr_array, N×K, count as misses; those with equal scores
    are ranked by number, the lower first. The true labels are a csr_array of bool, N×K. Without propensities, K (see
    `xmlgp.metrics.propensity`), the propensity-scored measures are left out. SettingsError is raised if the shapes
    disagree or no point has a label.

    The conventions are those of the repository's scripts `precision_k`, `nDCG_k`, `precision_wt_k` and `nDCG_wt_k`
    (http://manikvarma.org/downloads/XC/XMLRepository.html). Other packages normalise the PSnDCG of each point by its
    number of labels before summing, and then differ for points with fewer than k labels.
    """
    check_shapes(scores, labels)
    if propensities is not None and len(propensities) != labels.shape[1]:
        raise SettingsError(f"there are propensities of {len(propensities)} labels, but scores of {labels.shape[1]}")
    labels_of_point = labels.sum(axis=1)
    n_labelled = np.count_nonzero(labels_of_point)
    if not n_labelled:
        raise SettingsError("no point has a true label, so there is nothing to evaluate")

    # No ranking is longer than this, so a huge k costs no memory.
    longest = max(np.diff(scores.indptr).max(), labels_of_point.max())
    depth_of = {k: min(k, int(longest)) for k in ks}
    deepest = max(depth_of.values())
    hits = _find_hits(scores, labels, deepest)
    discounts = 1 / np.log2(np.arange(deepest) + 2)
    ideal_dcg = np.concatenate([[np.nan], np.cumsum(discounts)])
    measures = {f"P@{k}": np.count_nonzero(hits.ranks < depth) / k / n_labelled for k, depth in depth_of.items()}
    for k, depth in depth_of.items():
        gains = discounts[hits.ranks] / ideal_dcg[np.minimum(labels_of_point[hits.points], depth)]
        measures[f"nDCG@{k}"] = gains[hits.ranks < depth].sum() / n_labelled

    if propensities is not None:
        weights = 1 / np.asarray(propensities, dtype=np.float64)
        ideal_scores = csr_array((weights[labels.indices], labels.indices, labels.indptr), labels.shape)
        ideal = _find_hits(ideal_scores, labels, deepest)
        for name, by_rank in ("PSP", np.ones_like(discounts)), ("PSnDCG", discounts):
            gains = weights[hits.labels] * by_rank[hits.ranks]
            ideal_gains = weights[ideal.labels] * by_rank[ideal.ranks]
            for k, depth in depth_of.items():
                measures[f"{name}@{k}"] = gains[hits.ranks < depth].sum() / ideal_gains[ideal.ranks < depth].sum()
    return {name: 100 * float(value) for name, value in measures.items()}


def true_entries(predicted: csr_array, labels: csr_array) -> NDArray[np.integer]:
    """Return which stored entries of a csr_array are true labels: positions in its data, by point and label.

    Both are N×K, `predicted` with at most one entry per point and label, in any order.
    """
    # An elementwise product keeps exactly the common entries. Positions start at 1, as a zero would be dropped.
    positions = csr_array((np.arange(1, predicted.nnz + 1), predicted.indices, predicted.indptr), predicted.shape)
    hits: NDArray[np.integer] = (canonical(positions) * canonical(labels).astype(positions.dtype)).data - 1
    return hits


def are_true(predicted: csr_array, labels: csr_array) -> NDArray[np.bool_]:
    """Return whether each stored entry of a csr_array is a true label (ndarray of bool); see `true_entries`."""
    is_true = np.zeros(predicted.nnz, bool)
    is_true[true_entries(predicted, labels)] = True
    return is_true


def top_entries(scores: csr_array, k: int) -> csr_array:
    """Return the k highest scores of each point, or all if it has fewer (csr_array, N×K), best first; ties by label."""
    scores = canonical(scores)
    # Labels ascend within each point, so a stable sort puts the lower label first among equal scores.
    order = np.lexsort((-1.0 * scores.data, points_of(scores)))[ranks_of(scores) < k]
    indptr = np.concatenate([[0], np.cumsum(np.minimum(np.diff(scores.indptr), k))])
    return csr_array((scores.data[order], scores.indices[order], indptr), scores.shape)


def points_of(scores: csr_array) -> NDArray[np.intp]:
    """Return the point of each stored entry."""
    return np.repeat(np.arange(scores.shape[0]), np.diff(scores.indptr))


def ranks_of(scores: csr_array) -> NDArray[np.integer]:
    """Return the position of each stored entry within its point, counted from 0."""
    ranks: NDArray[np.integer] = np.arange(scores.nnz) - scores.indptr[points_of(scores)]
    return ranks


def check_shapes(scores: csr_array, labels: csr_array, name: str = "scores") -> None:
    """Raise SettingsError unless scores and true labels have the same shape; `name` is that of the scores."""
    if scores.shape != labels.shape:
        first, second = ("×".join(map(str, matrix.shape)) for matrix in (scores, labels))
        raise SettingsError(f"the {name} are {first}, the true labels {second}")


def _find_hits(scores: csr_array, labels: csr_array, k: int) -> _Hits:
    top = top_entries(scores, k)
    hits = true_entries(top, labels)
    return _Hits(points_of(top)[hits], top.indices[hits], ranks_of(top)[hits])


def canonical(matrix: csr_array) -> csr_array:
    """Return the matrix with the labels of each point sorted; SciPy's products of unsorted ones allocate K entries."""
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix
