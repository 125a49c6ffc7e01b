"""Initial inducing inputs: k-means centroids or random training points, in the coordinates of training."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.features.inputs import Inputs
from xmlgp.linear_algebra.k_means import cluster_means, nearest_centroids
from xmlgp.runtime.progress import Progress, silent
from xmlgp.runtime.random_streams import Stream, random_stream
from xmlgp.runtime.threads import one_blas_thread

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
            nearest = nearest_centroids(seen, centroids)
            if np.array_equal(before, nearest):
                bar.update(KMEANS_ITERATIONS - iteration)
                break
            bar.update()
            centroids = cluster_means(seen, nearest, count)
        return centroids if seen is coordinates else cluster_means(coordinates, nearest, count)


def _dense(values: csr_array | NDArray[Any]) -> NDArray[Any]:
    return np.asarray(values.toarray() if isinstance(values, sp.csr_array) else values)
