"""The time that 95 % intervals take: of all measures of many points, by kind.

    python benchmarks/intervals.py [--points 30000] [--labels 28000]

Points have some seven true labels, of frequencies that fall as 1/rank, and some ten scores, of which half are of true
labels. Assigned labels are the first five. Times are of the processor, because resampling runs on one core.
"""

import time

import click
import numpy as np
from scipy.sparse import csr_array

from xmlgp.metrics.assignment import assignment_statistics
from xmlgp.metrics.auc import auc_statistics
from xmlgp.metrics.intervals import intervals
from xmlgp.metrics.macro import macro_statistics
from xmlgp.metrics.probabilities import calibration_statistics, top_calibration_statistics
from xmlgp.metrics.ranking import ranking_statistics, top_entries

KS = (1, 3, 5)


def drawn(points: int, labels: int) -> tuple[csr_array, csr_array]:
    """Return scores and true labels of points."""
    random = np.random.default_rng(0)
    shares = 1 / np.arange(1, labels + 1)
    shares /= shares.sum()

    def pairs(count: int) -> csr_array:
        columns = random.choice(labels, count * points, p=shares)
        matrix = csr_array((np.ones(len(columns)), (np.repeat(np.arange(points), count), columns)), (points, labels))
        matrix.sum_duplicates()
        return matrix

    true = pairs(7)
    scores = top_entries(true, 5) + pairs(5)
    scores.data = random.random(scores.nnz)
    return csr_array(scores), true.astype(bool)


@click.command()
@click.option("--points", default=30_000, show_default=True)
@click.option("--labels", default=28_000, show_default=True)
@click.option("--repeats", default=3, show_default=True)
def main(points: int, labels: int, repeats: int) -> None:
    """Print the processor seconds of values and intervals of each kind of measures, the least of some runs."""
    scores, true = drawn(points, labels)
    top = top_entries(scores, 5)
    kinds = {
        "ranking": lambda: ranking_statistics(scores, true, KS, np.linspace(0.1, 1, labels)),
        "calibration": lambda: calibration_statistics(scores, true) | top_calibration_statistics(scores, true, KS),
        "AUC": lambda: auc_statistics(scores, true),
        "macro": lambda: macro_statistics(scores, true, KS),
        "assigned": lambda: assignment_statistics(top, true),
    }
    kinds["all of a ranking"] = lambda: kinds["ranking"]() | kinds["calibration"]() | kinds["AUC"]() | kinds["macro"]()
    click.echo("| measures | number | values s | intervals s |\n|---|---|---|---|")
    for name, compute in kinds.items():
        times = []
        for _ in range(repeats):
            start = time.process_time()
            statistics = compute()
            for statistic in statistics.values():
                assert np.isfinite(statistic.value)
            middle = time.process_time()
            intervals(statistics)
            times.append((middle - start, time.process_time() - middle))
        values, resampling = np.min(times, axis=0)
        click.echo(f"| {name} | {len(statistics)} | {values:.2f} | {resampling:.2f} |")


if __name__ == "__main__":
    main()
