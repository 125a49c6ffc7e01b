"""The time of a training step, part by part, relative to that of its products at the GEMM rate of the machine.

    python benchmarks/step.py                          all cases on generated data of the real sets' shapes
    python benchmarks/step.py --case bibtex --posterior diagonal --json step.json
    python benchmarks/step.py --case "weight space"    the steps of the default, with labels by a power law

Time does not depend on the values, so the data are random in the shape of real data sets. `limit` is the number of
floating-point operations of the products, all counted as dense, divided by the GEMM rate measured in the same run. The
factorisation runs in parallel with the products of points and inducing inputs, so the parts add up to more than the
step.
"""

import contextlib
import threading
import time
from dataclasses import dataclass

import click
import harness  # before NumPy
import numpy as np
import scipy.sparse as sp

from xmlgp.data.features import Features
from xmlgp.gp import bound as gp_bound
from xmlgp.gp import inner_products
from xmlgp.gp.bound import Bound
from xmlgp.gp.expectations import Quadrature
from xmlgp.gp.posteriors import diagonal
from xmlgp.gp.weight_space import WeightSpace
from xmlgp.mlgpf.inducing import InducingMethod
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.mlgpf.stochastic import optimiser_of
from xmlgp.mlgpf.weight_space import WeightSpaceMethod
from xmlgp.preprocess.inputs import Inputs
from xmlgp.preprocess.pipeline import weight_features
from xmlgp.runtime.threads import one_blas_thread
from xmlgp.training.optimisers import AdaGrad, Adam


@dataclass(frozen=True)
class Case:
    """The shape of data and the settings of a step; inducing inputs are free (R = D) if `R` is None.

    With `weight_space` there are none, and a minibatch uses its own labels and sampled ones.
    """

    N: int
    D: int
    K: int
    nonzeros: int
    labels: float
    P: int
    R: int | None = None
    ard: bool = False
    M: int = 500
    B: int = 500
    weight_space: bool = False

    @property
    def Q(self):
        return self.R or self.D


BIBTEX = {"N": 4880, "D": 1836, "K": 159, "nonzeros": 69, "labels": 2.4}
DELICIOUS = {"N": 12920, "D": 500, "K": 983, "nonzeros": 18, "labels": 19}
EURLEX = {"N": 15539, "D": 5000, "K": 3993, "nonzeros": 236, "labels": 5.3}
TAGS = {"N": 22338, "D": 47209, "K": 592, "nonzeros": 50, "labels": 3.7}
DEPS = {"N": 12000, "D": 36567, "K": 15052, "nonzeros": 44, "labels": 4.7}
CALLS = {"N": 60000, "D": 51801, "K": 28164, "nonzeros": 21, "labels": 4.6}
CASES = {
    "bibtex s-LINEAR": Case(**BIBTEX, P=30, R=1000),
    "bibtex ARD P=30": Case(**BIBTEX, P=30, ard=True),
    "bibtex ARD P=159": Case(**BIBTEX, P=159, ard=True),
    "delicious s-LINEAR": Case(**DELICIOUS, P=100, R=250),
    "delicious ARD": Case(**DELICIOUS, P=100, ard=True),
    "eurlex s-LINEAR": Case(**EURLEX, P=40, R=2500, B=800),
    "eurlex ARD": Case(**EURLEX, P=40, ard=True, B=800),
    "weight space bibtex": Case(**BIBTEX, P=100, B=488, weight_space=True),
    "weight space tags": Case(**TAGS, P=100, weight_space=True),
    "weight space deps": Case(**DEPS, P=200, weight_space=True),
    "weight space calls": Case(**CALLS, P=200, weight_space=True),
}


def draw(case, random):
    """Return random coordinates and labels in the shape of a case."""
    if case.weight_space:
        generated = harness.generate(case.N, case.D, case.K, case.nonzeros, case.labels)
        features = weight_features(generated.features, MLGPFSettings()).weigh(generated.features)
        return Inputs(features, None, np.float32, sparse=True), generated.labels

    def sparse(columns, per_row):
        counts = random.poisson(per_row, case.N).clip(1, columns)
        indices = np.concatenate([random.choice(columns, count, replace=False) for count in counts])
        indptr = np.concatenate([[0], np.cumsum(counts)])
        return sp.csr_array((np.ones(len(indices), np.float32), indices, indptr), shape=(case.N, columns))

    if case.R:
        dense = random.normal(size=(case.N, case.R)).astype(np.float32)
        dense /= np.linalg.norm(dense, axis=1, keepdims=True)
        coordinates = Inputs(Features(sp.csr_array(dense)), None, np.float32)
    else:
        features = sparse(case.D, case.nonzeros)
        features.data /= np.sqrt(np.repeat(np.diff(features.indptr), np.diff(features.indptr)))
        coordinates = Inputs(Features(features), None, np.float32)
    return coordinates, sparse(case.K, case.labels).astype(bool)


def operations(case, posterior, labels):
    """Return the floating-point operations of the products of a step by part, given the mean number of labels."""
    B, M, Q, P, K = case.B, case.M, case.Q, case.P, case.K
    if case.weight_space:
        by_feature = 2 * B * case.nonzeros * P
        return {"latent functions": by_feature, "their gradients": by_feature, "factors": 3 * 2 * B * labels * P}
    copies = P if posterior == "diagonal" else 1
    return {
        # Of a symmetric product only half is computed.
        "kernel": 2 * B * M * Q + M * M * Q,
        "factorisation": copies * M**3,
        "moments": copies * 2 * B * M * M + 2 * B * M * P + 2 * M * M * P,
        "factors": 3 * 2 * B * K * P * (1 if copies == 1 else 2),
        "posterior gradients": copies * (M * M * B + M * M * M) + 3 * 2 * B * M * P + 2 * M * M * P,
        "kernel gradients": 2 * B * M * Q + 2 * M * M * Q,
    }


class Clock:
    """Time spent in given functions, each without the time of others of them that it calls on the same thread."""

    def __init__(self):
        self.seconds = {}
        self._thread = threading.local()

    @contextlib.contextmanager
    def watch(self, *places):
        """Replace functions, each (owner, attribute, part), by timed ones within the block."""
        saved = [(owner, name, getattr(owner, name)) for owner, name, _ in places]
        for (owner, name, part), (_, _, function) in zip(places, saved, strict=True):
            setattr(owner, name, self._timed(function, part))
        try:
            yield
        finally:
            for owner, name, function in saved:
                setattr(owner, name, function)

    def _timed(self, function, part):
        def timed(*args, **kwargs):
            inner = self._thread.__dict__.setdefault("inner", [])
            inner.append(0.0)
            start = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                took = time.perf_counter() - start
                self.seconds[part] = self.seconds.get(part, 0.0) + took - inner.pop()
                if inner:
                    inner[-1] += took

        return timed


def measure(case, posterior, steps):
    """Return the median seconds of a step and of its parts, and the mean number of labels of a minibatch."""
    random = np.random.default_rng(0)
    coordinates, labels = draw(case, random)
    method, bound, parameters, places = prepared(case, posterior, coordinates, labels, random)
    make_batch = method.batches(coordinates, labels)
    optimiser = optimiser_of(method.settings)(parameters)
    totals, parts, label_counts = [], [], []
    for _ in range(steps):
        clock = Clock()
        rows = random.permutation(case.N)[: case.B]
        with clock.watch(*places):
            start = time.perf_counter()
            batch = make_batch(rows, random)
            made = time.perf_counter()
            _, gradients = bound.value_and_gradients(parameters, batch, value_needed=False, for_step=True)
            optimiser.step(parameters, gradients, 1e-4)
            totals.append(time.perf_counter() - start)
        parts.append({"gather": made - start} | clock.seconds)
        label_counts.append(case.K if batch.sample is None else len(batch.sample.labels))
    skipped = steps // 5  # the first steps fill caches
    names = parts[0]
    medians = {n: float(np.median([p[n] for p in parts[skipped:]])) for n in names}
    return float(np.median(totals[skipped:])), medians, float(np.mean(label_counts))


def prepared(case, posterior, coordinates, labels, random):
    """Return the method, the bound and its parameters, and the functions that are timed as (owner, name, part)."""
    if case.weight_space:
        settings = MLGPFSettings(inducing="features", factors=case.P, batch_size=case.B)
        method = WeightSpaceMethod(settings)
        bound, parameters = method.start(coordinates, labels, None, random)
        places = [
            (WeightSpace, "forward", "latent functions"),
            (WeightSpace, "backward", "their gradients"),
            (gp_bound, "full_log_likelihood", "factors"),
            (AdaGrad, "step", "optimiser"),
        ]
        return method, bound, parameters, places
    settings = MLGPFSettings(
        inducing="free",
        start="random",
        kernel="linear",
        ard=case.ard,
        posterior=posterior,
        factors=case.P,
        inducing_count=case.M,
        batch_size=case.B,
    )
    method = InducingMethod(settings)
    latent, bound = method.latent, Bound(method.latent, method.expectations)
    inducing, _ = coordinates.rows(random.choice(case.N, case.M, replace=False))
    inducing = inducing.toarray() if sp.issparse(inducing) else inducing
    parameters = method.initial(coordinates, labels, inducing, random)
    places = [
        (inner_products, "forward_inducing", "kernel"),
        (inner_products, "forward_points", "kernel"),
        (inner_products, "backward", "kernel gradients"),
        (type(latent.kernel), "forward_inducing", "kernel"),
        (type(latent.kernel), "forward_points", "kernel"),
        (type(latent.kernel), "backward", "kernel gradients"),
        (diagonal, "factorise", "factorisation"),
        (type(latent.posterior), "forward", "moments"),
        (type(latent.posterior), "backward", "posterior gradients"),
        (type(latent.posterior), "precondition", "posterior gradients"),
        (gp_bound, "full_log_likelihood", "factors"),
        (Quadrature, "gradients", "expectations"),
        (Quadrature, "pair_gradients", "expectations"),
        (Adam, "step", "optimiser"),
    ]
    return method, bound, parameters, places


@click.command(help=__doc__.replace("\n\n", "\n\n\b\n"))
@click.option("--case", "prefix", default="", help="Only cases whose names start with this.")
@click.option("--posterior", type=click.Choice(["shared-diagonal", "diagonal"]), default="shared-diagonal")
@click.option("--steps", type=click.IntRange(2), default=25, show_default=True)
@harness.json_option
def main(prefix, posterior, steps, as_json):
    results = {}
    for name, case in CASES.items():
        if not name.startswith(prefix):
            continue
        rate = harness.gemm_rate()
        with one_blas_thread():
            total, parts, labels = measure(case, posterior, steps)
        limits = {part: count / rate for part, count in operations(case, posterior, labels).items()}
        limit = sum(limits.values())
        results[name] = {"gemm_gflops": rate / 1e9, "step_s": total, "limit_s": limit, "parts_s": parts}
        print(f"{name}, {posterior}: {1e3 * total:.1f} ms per step, {total / limit:.2f} times the limit of")
        print(f"  {1e3 * limit:.1f} ms at {rate / 1e9:.0f} GFLOP/s")
        for part, seconds in parts.items():
            part_limit = f"{1e3 * limits[part]:8.2f}" if part in limits else "        "
            print(f"    {part:20s} {1e3 * seconds:8.2f} ms  limit {part_limit}", flush=True)
    harness.write_json(as_json, results)


if __name__ == "__main__":
    main()
