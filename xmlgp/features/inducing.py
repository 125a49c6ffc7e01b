"""Initial inducing inputs: k-means centroids or random training points, in the coordinates of training."""

from __future__ import annotations

import functools
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.data.dataset import Features
from xmlgp.features.inputs import Inputs
from xmlgp.linear_algebra import sparse
from xmlgp.runtime.random_streams import Stream, random_stream
from xmlgp.runtime.threads import one_blas_thread, run_parallel

__all__ = ["initial_inducing"]

#: "A few iterations of the k-means algorithm" ([S] section 4).
KMEANS_ITERATIONS = 10

#: Candidates per inducing input: the standard error of a centroid is then a sixteenth of the spread of its cluster.
CANDIDATES = 256

#: Maximum memory of the coordinates of the candidates, in bytes.
CANDIDATES_LIMIT = 1 << 30

#: Points whose distances are computed at a time: the same ones, and so the same rounding, on any number of cores.
CHUNK = 1024

#: Coordinates of points, N×R or N×D.
Points: TypeAlias = "csr_array | NDArray[np.float32]"


def initial_inducing(inputs: Inputs, count: int, method: str, seed: int) -> NDArray[np.float32]:
    """Return M (`count`) initial inducing inputs, or as many as there are points, M×R or M×D.

    The method is "kmeans" or "rows". They are computed from all points, or a uniform sample that fits into memory.
    """
    points = _candidates(inputs, count, seed)
    count = min(count, points.shape[0])
    rows = np.sort(np.random.default_rng(seed).choice(points.shape[0], count, replace=False))
    inducing = _dense(points[rows])
    if method == "kmeans":
        with one_blas_thread():
            for _ in range(KMEANS_ITERATIONS):
                inducing = _cluster_means(points, inducing)
    return inducing


def _candidates(inputs: Inputs, count: int, seed: int) -> Points:
    """Return the coordinates that inducing inputs are computed from."""
    size = max(count, min(count * CANDIDATES, CANDIDATES_LIMIT // inputs.row_bytes))
    rows: slice | NDArray[np.int64] = slice(None)
    if size < len(inputs):
        rows = np.sort(random_stream(seed, Stream.INDUCING_CANDIDATES).choice(len(inputs), size, replace=False))
    values, _ = inputs.rows(rows)
    points: Points = values.sparse if isinstance(values, Features) else values
    return points.astype(np.float32, copy=False)


def _cluster_means(points: Points, centroids: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the mean of the points that each centroid is the nearest of, M×R or M×D: an iteration of k-means.

    A centroid without points stays. scikit-learn's `KMeans` has reproducible results on one thread only, on which it
    takes 3 times as long for dense and 15 times for sparse points; distances of `MiniBatchKMeans` are 5 % larger.
    """
    half_squares = 0.5 * np.einsum("mr,mr->m", centroids, centroids)
    transposed = np.ascontiguousarray(centroids.T)

    def nearest_of(start: int) -> NDArray[np.int64]:
        chunk = points[start : start + CHUNK]
        products = sparse.product(chunk, transposed) if sp.issparse(chunk) else chunk @ transposed
        nearest: NDArray[np.int64] = (products - half_squares).argmax(axis=1)
        return nearest

    N = points.shape[0]
    nearest = np.concatenate(run_parallel(functools.partial(nearest_of, start) for start in range(0, N, CHUNK)))
    counts = np.bincount(nearest, minlength=len(centroids))
    shares = np.repeat(1 / np.maximum(counts, 1), counts).astype(np.float32)
    ends = np.concatenate([[0], np.cumsum(counts)])
    membership = csr_array((shares, np.argsort(nearest, kind="stable"), ends), shape=(len(centroids), N))
    return np.where(counts[:, None] > 0, _dense(membership @ points), centroids)


def _dense(values: csr_array | NDArray[Any]) -> NDArray[Any]:
    return values if isinstance(values, np.ndarray) else values.toarray()
