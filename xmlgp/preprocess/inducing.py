"""Where inducing inputs start: k-means centroids or random training points, in the coordinates of training."""

import warnings

import numpy as np
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

__all__ = ["KMEANS_ITERATIONS", "start_inducing"]

#: "A few iterations of the k-means algorithm" ([S] section 4).
KMEANS_ITERATIONS = 10


def start_inducing(coordinates, count, method, seed):
    """Return M inducing inputs to start from.

    Parameters
    ----------
    coordinates : ndarray or csr_array, N×R or N×D
        US = X X̃ᵀ in the subspace, X for free inducing inputs.
    count : int
        M; at most N are returned.
    method : str
        "kmeans" or "rows".
    seed : int

    Returns
    -------
    ndarray, M×R or M×D
        float32.
    """
    count = min(count, coordinates.shape[0])
    if method == "rows":
        rows = np.random.default_rng(seed).choice(coordinates.shape[0], count, replace=False)
        chosen = coordinates[np.sort(rows)]
        return (chosen.toarray() if sp.issparse(chosen) else chosen).astype(np.float32)
    kmeans = KMeans(count, init="random", n_init=1, max_iter=KMEANS_ITERATIONS, random_state=seed)
    # Each thread sums its part of a centroid. Two parts give one sum in either order, three already do not, and the
    # same seed would start training elsewhere each time.
    with threadpool_limits(2, user_api="openmp"), warnings.catch_warnings():
        # Fewer distinct points than clusters: duplicate centroids are legal inducing inputs.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return kmeans.fit(coordinates).cluster_centers_.astype(np.float32)
