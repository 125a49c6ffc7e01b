"""The truncated SVD basis and k-means compared with scikit-learn, on data sets of short texts: time and quality.

    python benchmarks/basis.py [--case NAME] [--seed 0] [--json FILE]

Both run one after the other on the same generated points: scikit-learn's randomised SVD in double precision with the
power iterations of the case, and its k-means with 10 iterations from the same kind of initialisation. `captured` is the
share of ‖X‖² within the subspace. `spread` is the mean squared distance of points from the nearest centroid, relative
to the mean squared distance from the nearest of as many random points.
"""

import dataclasses
import time
from dataclasses import dataclass

import click
import harness  # before NumPy
import numpy as np
from generate import SHAPES, GeneratedSet
from sklearn.cluster import KMeans
from sklearn.utils.extmath import randomized_svd

from xmlgp.linear_algebra import sparse
from xmlgp.preprocess.basis import truncated_svd_basis
from xmlgp.preprocess.inducing import KMEANS_ITERATIONS, LEADING, initial_inducing
from xmlgp.preprocess.weighting import count_points, idf_of_counts, weigh
from xmlgp.runtime.threads import one_blas_thread

#: Centroids of k-means.
M = 500


@dataclass(frozen=True)
class Case:
    """A shape of data, the size of its basis, and scikit-learn's power iterations."""

    N: int
    D: int
    R: int
    iterations: int


CASES = {
    "41103": Case(N=41_103, D=23_376, R=1500, iterations=4),
    "22409": Case(N=22_409, D=24_441, R=2000, iterations=2),
    "small": Case(N=6_000, D=5_000, R=300, iterations=4),
}


def timed(function):
    """Return the result of a function, its seconds and its processor seconds."""
    start, start_processor = time.perf_counter(), time.process_time()
    value = function()
    return value, time.perf_counter() - start, time.process_time() - start_processor


def spread(points, centroids):
    """Return the mean squared distance of points, N×R, from the nearest of M centroids, M×R."""
    scores = points @ centroids.T - 0.5 * np.square(centroids).sum(axis=1)
    return (np.square(points).sum() - 2 * scores.max(axis=1).sum()) / len(points)


def measure(case, seed):
    """Return the numbers of scikit-learn and of xmlgp."""
    shape = dataclasses.replace(SHAPES["titles"], N=case.N, D=case.D)
    features = GeneratedSet(shape, seed).rows(slice(None)).features.sparse
    idf = idf_of_counts(features.shape[0], count_points(features))
    features = weigh(features, idf, unit=True)
    truncated_svd_basis(features[:100], 5, seed)  # compile
    whole = np.square(features.data, dtype=np.float64).sum()

    def sklearn_basis():
        return randomized_svd(features.astype(np.float64), case.R, n_iter=case.iterations, random_state=seed)[2]

    def sklearn_means():
        means = KMeans(M, init="random", n_init=1, max_iter=KMEANS_ITERATIONS, random_state=seed).fit(points)
        return means.cluster_centers_

    results = {}
    methods = {
        "scikit-learn": (sklearn_basis, sklearn_means),
        "xmlgp": (
            lambda: truncated_svd_basis(features, case.R, seed),
            lambda: initial_inducing(points, M, "kmeans", seed, LEADING),
        ),
    }
    for name, (compute_basis, compute_means) in methods.items():
        basis, seconds, processor = timed(compute_basis)
        points = sparse.product(features, np.ascontiguousarray(basis.T, np.float32))
        means, means_seconds, means_processor = timed(compute_means)
        random = points[np.random.default_rng(seed).choice(len(points), M, replace=False)]
        with one_blas_thread():
            results[name] = {
                "svd_seconds": seconds,
                "svd_processor": processor,
                "captured": float(np.square(points, dtype=np.float64).sum() / whole),
                "kmeans_seconds": means_seconds,
                "kmeans_processor": means_processor,
                "spread": float(spread(points, means) / spread(points, random)),
                "seconds": seconds + means_seconds,
            }
    return results


@click.command(help=__doc__.replace("\n\n", "\n\n\b\n"))
@click.option("--case", "cases", type=click.Choice(list(CASES)), multiple=True, default=["41103", "22409"])
@click.option("--seed", default=0, show_default=True)
@harness.json_option
def main(cases, seed, as_json):
    results = {}
    for name in cases:
        case = CASES[name]
        results[name] = measured = measure(case, seed)
        print(f"{case.N} x {case.D}, R = {case.R}, {M} means, {case.iterations} power iterations in scikit-learn")
        peer, ours = measured.values()
        harness.print_table(
            ["", *measured, "ratio"], [[key, peer[key], ours[key], peer[key] / ours[key]] for key in peer]
        )
    harness.write_json(as_json, results)


if __name__ == "__main__":
    main()
