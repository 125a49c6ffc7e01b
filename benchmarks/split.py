"""Time to choose test points, and how far labels are from their share, with many points and labels.

    python benchmarks/split.py [--points 1000000] [--labels 100000] [--share 0.25]

Each point draws five labels, the k-th most frequent one with a chance in proportion to 1/k. A Markdown table has, for
each method, the seconds, how many test points a label has too many or too few on average, and how many of the labels of
four points and more are in one part only.
"""

import time

import click
import numpy as np
from scipy.sparse import csr_array

from xmlgp.data.division import METHODS, choose_test_points


def drawn_labels(N, K):
    """Return the labels of N points, N×K."""
    chances = np.cumsum(1 / np.arange(1, K + 1))
    labels = np.searchsorted(chances / chances[-1], np.random.default_rng(0).random((N, 5)))
    Y = csr_array((np.ones(5 * N), labels.ravel(), np.arange(0, 5 * N + 1, 5)), shape=(N, K))
    Y.sum_duplicates()
    return Y.astype(bool)


@click.command()
@click.option("--points", "N", default=1_000_000)
@click.option("--labels", "K", default=100_000)
@click.option("--share", default=0.25)
def main(N, K, share):
    """Print the table."""
    Y = drawn_labels(N, K)
    counts = Y.sum(axis=0)
    print("| method | seconds | test points off their share | labels in one part only |")
    print("|---|---|---|---|")
    for method in METHODS:
        began = time.perf_counter()
        is_test = choose_test_points(Y, [], share, method, 0)
        seconds = time.perf_counter() - began
        test_counts = Y[is_test].sum(axis=0)
        off = np.abs(test_counts - share * counts)[counts > 0].mean()
        in_one = np.count_nonzero((counts >= 4) & ((test_counts == 0) | (test_counts == counts)))
        print(f"| {method} | {seconds:.1f} | {off:.2f} | {in_one} of {np.count_nonzero(counts >= 4)} |")


if __name__ == "__main__":
    main()
