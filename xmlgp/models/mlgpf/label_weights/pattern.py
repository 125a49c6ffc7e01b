"""The sparsity pattern of W: each label has weights on the features that its points have."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse import csr_array

__all__ = ["WEIGHTS_LIMIT", "label_features", "most_each", "totals_by_label"]

#: Most weights of a model. Beyond, each label keeps the features with the largest total value over its points.
WEIGHTS_LIMIT = 30_000_000

#: Stored elements of points per block of labels, when the features of labels are collected.
BLOCK = 1 << 22


def label_features(
    features: csr_array, labels: csr_array, limit: int = WEIGHTS_LIMIT
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the features that the points of each label have: starts, int64, K+1, and features, int32, ascending.

    X is N×D and weighted, Y is N×K. There are at most `limit` weights, but every label keeps at least one. The labels
    with the most features lose features first, those with the smallest total value over their points.
    """
    by_label = labels.T.tocsr()
    most = features.shape[1]
    if (by_label.astype(np.int64) @ np.diff(features.indptr)).sum() > limit:
        counts = [np.diff(block.indptr) for _, block in totals_by_label(features, by_label)]
        most = most_each(np.concatenate(counts), limit)
    lengths = [np.zeros(1, np.int64)]
    columns = [np.zeros(0, np.int32)]
    for _, block in totals_by_label(features, by_label):
        lengths.append(np.minimum(np.diff(block.indptr), most))
        columns.append(_strongest(block, most))
    return np.cumsum(np.concatenate(lengths), dtype=np.int64), np.concatenate(columns)


def totals_by_label(features: csr_array, by_label: csr_array) -> Iterator[tuple[int, csr_array]]:
    """Yield the total absolute values of the features of consecutive labels' points, L×D, with the first label.

    X is N×D, Yᵀ K×N. The points of a block of labels have about `BLOCK` stored elements.
    """
    magnitudes = sp.csr_array((np.abs(features.data), features.indices, features.indptr), shape=features.shape)
    ends = np.cumsum(by_label.astype(bool) @ np.diff(features.indptr).astype(np.float64))
    cuts = np.searchsorted(ends, np.arange(1, ends[-1:].sum() // BLOCK + 1) * BLOCK)
    for start, stop in pairwise(np.unique([0, *cuts, len(ends)])):
        yield int(start), by_label[start:stop].astype(np.float32) @ magnitudes


def most_each(lengths: NDArray[np.int64], limit: int) -> int:
    """Return the greatest m up to the largest length with Σ_k min(length_k, m) ≤ limit, at least 1."""
    candidates = range(2, int(lengths.max(initial=1)) + 1)
    return 1 + bisect_right(candidates, limit, key=lambda most: np.minimum(lengths, most).sum())


def _strongest(totals: csr_array, most: int) -> NDArray[np.int32]:
    """Return the features of largest value in each row, at most `most`, in ascending order."""
    if np.diff(totals.indptr).max(initial=0) <= most:
        totals.sort_indices()
        return np.asarray(totals.indices, np.int32)
    rows = np.repeat(np.arange(totals.shape[0]), np.diff(totals.indptr))
    order = np.lexsort((totals.indices, -totals.data, rows))
    kept = order[np.arange(len(rows)) - totals.indptr[rows] < most]
    rows = rows[kept]
    columns = totals.indices[kept]
    return np.asarray(columns[np.lexsort((columns, rows))], np.int32)
