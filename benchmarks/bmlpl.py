"""The time of an iteration of BMLPL's EM with conjugate gradients, relative to that of its sparse products.

    python benchmarks/bmlpl.py DATA ... [--topics 100] [--iterations 100] [--json FILE]

DATA is a folder with train.txt and test.txt. The output has the median time of an iteration, the time of each kind of
its products measured alone in the same run, and the sum of these, a lower limit of the iteration. An iteration with c
conjugate gradient steps has 3 + 2c products with the features, X or its transpose (log odds, gradient, diagonals, two
per step), and three with the positive labels (rates, counts per point, counts per label). It has no dense products. The
last line compares the seconds of all iterations with figure 2 (left) of [B], on Delicious with all labels.
"""

import time

import click
import harness
import numpy as np

from xmlgp.bmlpl.counts import Positives
from xmlgp.bmlpl.least_squares import Design
from xmlgp.bmlpl.settings import BMLPLSettings
from xmlgp.bmlpl.train import run_inference
from xmlgp.linear_algebra import sparse
from xmlgp.preprocess.pipeline import weight_features
from xmlgp.runtime.threads import one_blas_thread

#: Seconds of 100 iterations on Delicious with all positive labels, read off figure 2 (left) of [B].
PAPER_SECONDS = 800


def products(design, positives, T, cg_steps, dtype):
    """Return the milliseconds of one product of each kind, and the number of such products in an iteration."""
    by_label = positives.by_label(np.ones(len(positives), dtype))
    kinds = {
        "X": (design.rows, 1 + cg_steps),
        "X transposed": (design.columns, 2 + cg_steps),
        "Y": (by_label.T.tocsr(), 2),
        "Y transposed": (by_label, 1),
    }
    found = {}
    for name, (matrix, count) in kinds.items():
        right = np.ones((matrix.shape[1], T), dtype)
        out = np.empty((matrix.shape[0], T), dtype)
        seconds = harness.best_seconds(
            lambda matrix=matrix, right=right, out=out: sparse.product(matrix, right, out), 30
        )
        rate = 2e-9 * matrix.nnz * T / seconds
        found[name] = {"count": count, "ms": 1e3 * seconds, "gflops": rate}
    return found


def measure(data, T, iterations):
    """Print and return the time of an iteration and of its products."""
    train, _ = harness.read_folder(data)
    settings = BMLPLSettings(topics=T, iterations=iterations)
    coordinates = weight_features(train.features, settings).inputs(train.features, settings.dtype)
    dtype = np.dtype(settings.dtype)
    design, positives = Design(coordinates.weighted(slice(None)).sparse), Positives(train.labels)
    run_inference(coordinates, train.labels, BMLPLSettings(topics=T, iterations=3))
    # Measured before and after, as the speed of a shared machine changes.
    with one_blas_thread():
        before = products(design, positives, T, settings.cg_steps, dtype)
    start = time.perf_counter()
    _, history = run_inference(coordinates, train.labels, settings)
    whole = time.perf_counter() - start
    with one_blas_thread():
        after = products(design, positives, T, settings.cg_steps, dtype)
    iteration = 1e3 * float(np.median(np.diff([epoch["seconds"] for epoch in history])))
    table = harness.Table(data.name, "per iteration", "ms each", "GFLOP/s")
    limit = 0.0
    for name in before:
        ms = (before[name]["ms"] + after[name]["ms"]) / 2
        limit += before[name]["count"] * ms
        table.row(name, before[name]["count"], ms, (before[name]["gflops"] + after[name]["gflops"]) / 2)
    ratio = iteration / limit
    print(f"iteration {iteration:.1f} ms, its products {limit:.1f} ms: {ratio:.2f} times")
    seconds = history[-1]["seconds"]
    print(f"{iterations} iterations with {T} topics: {seconds:.2f} s ({whole:.2f} s including initialisation)")
    result = {"iteration_ms": iteration, "products_ms": limit, "ratio": ratio, "seconds": seconds, "whole_s": whole}
    if data.name == "delicious" and iterations == 100:
        print(f"the paper: about {PAPER_SECONDS} s, {PAPER_SECONDS / seconds:.0f} times as long")
        result["paper_s"] = PAPER_SECONDS
    return result | {"before": before, "after": after}


@click.command(help=__doc__.replace("\n\n", "\n\n\b\n"))
@harness.folders_argument()
@click.option("--topics", "-T", "topics", default=100, show_default=True)
@click.option("--iterations", default=100, show_default=True)
@harness.json_option
def main(folders, topics, iterations, as_json):
    harness.write_json(as_json, {data.name: measure(data, topics, iterations) for data in folders})


if __name__ == "__main__":
    main()
