"""Initial inducing inputs: k-means centroids or random training points, in the coordinates of training."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.linear_algebra import sparse
from xmlgp.preprocess.inputs import Inputs
from xmlgp.runtime.progress import Progress, silent
from xmlgp.runtime.random_streams import Stream, random_stream
from xmlgp.runtime.threads import one_blas_thread, run_parallel

__all__ = ["KMEANS_ITERATIONS", "LEADING", "candidates", "initial_inducing"]

#: "A few iterations of the k-means algorithm" ([S] section 4).
KMEANS_ITERATIONS = 10

#: Inputs by which k-means finds the nearest centroid in the subspace, those of largest variance. On 41,103 points
#: with R = 1500 the final distances to the centroids were 1 % larger than with all coordinates.
LEADING = 256

#: Candidates per inducing input: the standard error of a centroid is then a sixteenth of the spread of its cluster.
CANDIDATES = 256

#: Maximum memory of the coordinates of the candidates, in bytes.
CANDIDATES_LIMIT = 1 << 30

#: Points whose distances are computed at a time.
CHUNK = 1024


def candidates(inputs: Inputs, count: int, seed: int) -> slice | NDArray[np.int64]:
    """Return the rows that M inducing inputs are computed from: all, or a uniform sample that fits."""
    size = max(count, min(count * CANDIDATES, CANDIDATES_LIMIT // inputs.row_bytes))
    if size >= len(inputs):
        return slice(None)
    return np.sort(random_stream(seed, Stream.INDUCING_CANDIDATES).choice(len(inputs), size, replace=False))


def initial_inducing(
    coordinates: csr_array | NDArray[Any],
    count: int,
    method: str,
    seed: int,
    leading: int | None = None,
    progress: Progress = silent,
) -> NDArray[np.float32]:
    """Return M (`count`) initial inducing inputs, or as many as there are points, in float32.

    `coordinates` are those of the candidates, X X̃ᵀ, N×R, in the subspace, or X, N×D. The method is "kmeans" or "rows".
    Only the first coordinates, as many as `leading` if it is not None, decide which centroid is nearest.
    """
    count = min(count, coordinates.shape[0])
    rows = np.sort(np.random.default_rng(seed).choice(coordinates.shape[0], count, replace=False))
    if method == "rows" or not count:
        return _dense(coordinates[rows]).astype(np.float32)
    seen = coordinates = coordinates.astype(np.float32, copy=False)
    if leading is not None and leading < coordinates.shape[1]:
        seen = np.ascontiguousarray(coordinates[:, :leading])
    with one_blas_thread(), progress("k-means", total=KMEANS_ITERATIONS, unit=" iterations") as bar:
        nearest: NDArray[np.int64] = np.empty(0, np.int64)
        centroids = _dense(seen[rows])
        for iteration in range(KMEANS_ITERATIONS):
            before = nearest
            nearest = _nearest(seen, centroids)
            if np.array_equal(before, nearest):
                bar.update(KMEANS_ITERATIONS - iteration)
                break
            bar.update()
            centroids = _means(seen, nearest, count)
        return centroids if seen is coordinates else _means(coordinates, nearest, count)


def _nearest(points: csr_array | NDArray[np.float32], centroids: NDArray[np.float32]) -> NDArray[np.int64]:
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


def _means(points: csr_array | NDArray[np.float32], nearest: NDArray[np.int64], count: int) -> NDArray[np.float32]:
    """Return the mean of the points of each centroid, M×R or M×D."""
    counts = np.bincount(nearest, minlength=count)
    order = np.argsort(nearest, kind="stable")
    weights = np.repeat(1 / counts, counts).astype(np.float32)
    share = sp.csr_array((weights, order, np.concatenate([[0], np.cumsum(counts)])), shape=(count, len(nearest)))
    return (share @ points).toarray() if sp.issparse(points) else sparse.product(share, points)


def _dense(values: csr_array | NDArray[Any]) -> NDArray[Any]:
    return np.asarray(values.toarray() if isinstance(values, sp.csr_array) else values)
