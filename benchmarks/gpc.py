"""The time of an iteration of vi-jj, relative to that of its dense products.

    python benchmarks/gpc.py DATA ... [--inducing-count 500] [--iterations 5] [--json FILE]

DATA is a libsvm file or a folder with one; all its points are training points. The output has the median time of an
iteration, without the first, and the time that its dense products would take at the rate of a double precision product
of two 2000×2000 matrices, measured before and after in the same run. An iteration makes a few closed-form updates and a
few evaluations of the bound with its gradient. Their products are counted when they are called:

- covariances at new hyperparameters: points and inducing inputs, 2MND operations (if points are dense);
- each optimum: K_ZX Λ K_XZ, M²N (half of a product, as it is symmetric), and 4M³ for M×M matrices;
- each set of moments or gradients: K_XZ H, 2M²N, and 4M³ or 8M³.

The rest of an iteration are exponentials, factorisations, sums and L-BFGS-B itself.
"""

import collections
import contextlib

import click
import harness
import numpy as np

from xmlgp.data.formats import read_dataset
from xmlgp.data.locate import locate
from xmlgp.gpc import collapsed
from xmlgp.gpc.settings import GPCSettings
from xmlgp.gpc.train import run_inference
from xmlgp.linear_algebra.dense import product
from xmlgp.preprocess.pipeline import standardise_features
from xmlgp.runtime.threads import one_blas_thread

#: The parts of an iteration that have products, and the methods that compute them.
CALLS = {
    "covariances": (collapsed.BlockCovariances, "__init__"),
    "optima": (collapsed.Optimum, "__init__"),
    "moments": (collapsed.Optimum, "_visit_blocks"),
    "gradients": (collapsed.Optimum, "gradients"),
}


def operations(N, D, M, dense):
    """Return the floating-point operations of one call of each of `CALLS`."""
    whole = 2 * M * M * N
    between = 2 * M * N * D if dense else 0
    cube = M**3
    return {
        "covariances": between,
        "optima": whole // 2 + 4 * cube,
        "moments": whole + 4 * cube,
        "gradients": whole + 8 * cube,
    }


@contextlib.contextmanager
def counted():
    """Count the calls of `CALLS` within the block."""
    counts, originals = collections.Counter(), {}
    for name, (kind, method) in CALLS.items():
        originals[name] = original = getattr(kind, method)

        def call(*args, name=name, original=original):
            counts[name] += 1
            return original(*args)

        setattr(kind, method, call)
    try:
        yield counts
    finally:
        for name, (kind, method) in CALLS.items():
            setattr(kind, method, originals[name])


def gemm_rate():
    """Return the best rate of several double precision products on all cores, in operations per second."""
    a = np.random.default_rng(0).random((harness.GEMM_SIZE, harness.GEMM_SIZE))
    with one_blas_thread():
        return 2 * harness.GEMM_SIZE**3 / harness.best_seconds(lambda: product(a, a), 5)


def measure(data, M, iterations):
    """Print and return the time of an iteration and of its products."""
    dataset, _ = read_dataset(locate(data, "train"), cache=False)
    settings = GPCSettings(inference="vi-jj", inducing_count=M, iterations=iterations)
    preprocessed = standardise_features(dataset.features, settings)
    coordinates = preprocessed.inputs(dataset.features, settings.dtype)
    # Measured before and after, as the speed of a shared machine changes.
    rates = [gemm_rate()]
    seen = []
    with counted() as counts:
        _, history = run_inference(
            coordinates,
            dataset.labels,
            preprocessed.inducing,
            settings,
            after_epoch=lambda epoch, parameters: seen.append(dict(counts)),
        )
    rates.append(gemm_rate())
    seconds = np.diff([epoch["seconds"] for epoch in history])
    chosen = int(np.argsort(seconds)[len(seconds) // 2])
    calls = {name: seen[chosen + 1].get(name, 0) - seen[chosen].get(name, 0) for name in CALLS}
    # Gradients have visited the blocks as well.
    calls["moments"] -= calls["gradients"]
    one = operations(dataset.N, dataset.D, len(preprocessed.inducing), preprocessed.center is not None)
    total = sum(calls[name] * one[name] for name in CALLS)
    rate = float(np.mean(rates))
    limit, iteration = total / rate, float(seconds[chosen])
    print(f"{data}: N={dataset.N}, D={dataset.D}, M={len(preprocessed.inducing)}, GEMM {rate / 1e9:.0f} GFLOP/s")
    table = harness.Table("", "calls", "GFLOP each", "ms at that rate")
    for name in CALLS:
        table.row(name, calls[name], one[name] / 1e9, 1e3 * calls[name] * one[name] / rate)
    print(f"iteration {1e3 * iteration:.0f} ms, its products {1e3 * limit:.0f} ms: {iteration / limit:.2f} times")
    return {"calls": calls, "gemm_gflops": rate / 1e9, "iteration_s": iteration, "limit_s": limit}


@click.command(help=__doc__.replace("\n\n", "\n\n\b\n"))
@click.argument("data", nargs=-1, required=True)
@click.option("--inducing-count", "-M", default=500, show_default=True)
@click.option("--iterations", default=5, show_default=True)
@harness.json_option
def main(data, inducing_count, iterations, as_json):
    harness.write_json(as_json, {name: measure(name, inducing_count, iterations) for name in data})


if __name__ == "__main__":
    main()
