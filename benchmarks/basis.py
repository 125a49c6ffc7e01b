"""The subspace basis and k-means beside scikit-learn's, on sets of short texts: time and what the basis captures.

    python benchmarks/basis.py [--case NAME] [--seed 0] [--json RESULTS]

Both run in turn on the same generated points: scikit-learn's randomised SVD in double precision with the power
iterations of the case, and its k-means, 10 iterations from the same kind of start. `captured` is the share of ‖X‖²
within the subspace; `spread` the mean squared distance of the points from the nearest centroid, in units of that from
the nearest of as many random points.
"""

from xmlgp.runtime.threads import one_blas_thread, prefer_avx512

prefer_avx512()

import dataclasses  # noqa: E402 -- NumPy must be imported after the choice of its kernels
import json  # noqa: E402
import time  # noqa: E402
from dataclasses import dataclass  # noqa: E402
from pathlib import Path  # noqa: E402

import click  # noqa: E402
import numpy as np  # noqa: E402
from generate import SHAPES, GeneratedSet  # noqa: E402
from sklearn.cluster import KMeans  # noqa: E402
from sklearn.utils.extmath import randomized_svd  # noqa: E402

from xmlgp.linear_algebra import sparse  # noqa: E402
from xmlgp.preprocess.basis import truncated_svd_basis  # noqa: E402
from xmlgp.preprocess.inducing import KMEANS_ITERATIONS, LEADING, start_inducing  # noqa: E402
from xmlgp.preprocess.weighting import inverse_document_frequency, weigh  # noqa: E402

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
    """Return what a function returns, its seconds and its processor seconds."""
    start, start_processor = time.perf_counter(), time.process_time()
    value = function()
    return value, time.perf_counter() - start, time.process_time() - start_processor


def spread(points, centroids):
    """Return the mean squared distance of points from the nearest centroid."""
    scores = points @ centroids.T - 0.5 * np.square(centroids).sum(axis=1)
    return (np.square(points).sum() - 2 * scores.max(axis=1).sum()) / len(points)


def measure(case, seed):
    """Return the numbers of both ways."""
    shape = dataclasses.replace(SHAPES["titles"], N=case.N, D=case.D)
    features = GeneratedSet(shape, seed).rows(slice(None)).features
    features = weigh(features, inverse_document_frequency(features), unit=True)
    truncated_svd_basis(features[:100], 5, seed)  # compiles
    whole = np.square(features.data, dtype=np.float64).sum()

    def peer_basis():
        return randomized_svd(features.astype(np.float64), case.R, n_iter=case.iterations, random_state=seed)[2]

    def peer_means():
        means = KMeans(M, init="random", n_init=1, max_iter=KMEANS_ITERATIONS, random_state=seed).fit(points)
        return means.cluster_centers_

    results = {}
    ways = {
        "scikit-learn": (peer_basis, peer_means),
        "xmlgp": (
            lambda: truncated_svd_basis(features, case.R, seed),
            lambda: start_inducing(points, M, "kmeans", seed, LEADING),
        ),
    }
    for name, (basis_of, means_of) in ways.items():
        basis, seconds, processor = timed(basis_of)
        points = sparse.product(features, np.ascontiguousarray(basis.T, np.float32))
        means, means_seconds, means_processor = timed(means_of)
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
@click.option("--json", "as_json", type=click.Path(dir_okay=False, path_type=Path))
def main(cases, seed, as_json):
    results = {}
    for name in cases:
        case = CASES[name]
        results[name] = ways = measure(case, seed)
        print(f"{case.N} x {case.D}, R = {case.R}, {M} means, {case.iterations} power iterations of scikit-learn")
        peer, ours = ways.values()
        print(f"  {'':18}" + "".join(f"{way:>14}" for way in ways) + f"{'ratio':>8}")
        for key in peer:
            print(f"  {key:18}{peer[key]:14.4g}{ours[key]:14.4g}{peer[key] / ours[key]:8.3g}", flush=True)
    if as_json:
        as_json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
