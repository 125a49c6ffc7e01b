"""The two steps of an iteration of k-means: the nearest centroid of each point, and the mean of each cluster."""

from __future__ import annotations

import functools

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.linear_algebra import sparse
from xmlgp.runtime.threads import run_parallel

__all__ = ["cluster_means", "nearest_centroids"]

#: Points whose distances are computed at a time.
CHUNK = 1024


def nearest_centroids(points: csr_array | NDArray[np.float32], centroids: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return the nearest centroid of each point, N; each centroid is the nearest of at least one point."""
    half_squares = 0.5 * np.einsum("mr,mr->m", centroids, centroids)
    transposed = np.ascontiguousarray(centroids.T)
    N = points.shape[0]
    nearest = np.empty(N, np.int64)
    closeness = np.empty(N, np.float32)

    def part(rows: slice) -> None:
        chunk = points[rows]
        if isinstance(chunk, np.ndarray):
            scores = chunk @ transposed
            squares = np.einsum("nr,nr->n", chunk, chunk)
        else:
            scores = sparse.product(chunk, transposed)
            squares = chunk.multiply(chunk).sum(axis=1)
        scores -= half_squares
        nearest[rows] = scores.argmax(axis=1)
        closeness[rows] = scores.max(axis=1) - 0.5 * squares

    # The same chunks, and so the same rounding, on any number of cores.
    run_parallel(functools.partial(part, slice(i, i + CHUNK)) for i in range(0, N, CHUNK))
    counts = np.bincount(nearest, minlength=len(centroids))
    empty = np.flatnonzero(counts == 0)
    if len(empty):
        # Centroids without points move to the points furthest from their centroids.
        furthest = iter(np.argsort(closeness, kind="stable").tolist())
        for m in empty:
            n = next(n for n in furthest if counts[nearest[n]] > 1)
            counts[nearest[n]] -= 1
            nearest[n] = m
            counts[m] = 1
    return nearest


def cluster_means(
    points: csr_array | NDArray[np.float32], nearest: NDArray[np.int64], count: int
) -> NDArray[np.float32]:
    """Return the mean of the points of each centroid, M×R or M×D."""
    counts = np.bincount(nearest, minlength=count)
    order = np.argsort(nearest, kind="stable")
    weights = np.repeat(1 / counts, counts).astype(np.float32)
    share = sp.csr_array((weights, order, np.concatenate([[0], np.cumsum(counts)])), shape=(count, len(nearest)))
    return (share @ points).toarray() if sp.issparse(points) else sparse.product(share, points)
