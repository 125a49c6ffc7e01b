"""MLGPF with expectations by quadrature, by the bound of Jaakkola and Jordan, and by a Taylor series.

    python benchmarks/expectations.py DATA [DATA ...] [--seeds 3] [--only default|passes] [--set NAME=VALUE ...]
        [--json FILE]

DATA is a folder with train.txt and test.txt, such as data/bibtex. A Markdown table shows measures on the test points,
mean and standard deviation over the seeds, for two modes, both with free inducing inputs: the recipe itself, and 20
epochs on all points. Log loss is in nats per label. Bounds are over all training points at the final parameters, in
nats per point: `own` with the expectations used in training, `by quadrature` with 20 nodes, which makes the rows
comparable. Seconds include preprocessing; `ms per step` is from the last training run; `of quadrature` is the
ratio to the row with quadrature at the same seed. For each seed the three are trained one after the other, so that
other work on the machine slows all of them.
"""

import dataclasses
import time

import click
import harness
import numpy as np
from peers import MEASURES

from xmlgp.gp.bound import Bound
from xmlgp.gp.expectations import EXPECTATIONS, Quadrature
from xmlgp.metrics.probabilities import log_loss
from xmlgp.mlgpf.inducing import InducingMethod
from xmlgp.mlgpf.predictor import MLGPFPredictor
from xmlgp.runtime.threads import one_blas_thread
from xmlgp.training.minibatches import make_batch

#: Modes of training, by name: settings that differ from the recipe.
MODES = {"default": {"inducing": "free"}, "passes": {"inducing": "free", "calibration": False, "epochs": 20}}

#: Quadrature nodes of the bound that makes rows comparable.
NODES = 20

COLUMNS = [*MEASURES, "log loss", "bound, own", "by quadrature", "epochs", "seconds", "of quadrature", "ms per step"]
COLUMNS += ["of quadrature"]


def bounds(model, dataset):
    """Return the bound per point with the model's own expectations, and by quadrature."""
    settings, preprocessed, parameters = model
    coordinates = preprocessed.inputs(dataset.features, settings.dtype)
    method = InducingMethod(settings)
    own, exact = (Bound(method.latent, expectations) for expectations in (method.expectations, Quadrature(NODES)))
    with one_blas_thread():
        batch = make_batch(coordinates, dataset.labels, np.arange(dataset.N))
        return [bound.value_and_gradients(parameters, batch)[0] / dataset.N for bound in (own, exact)]


def run(train, test, settings):
    """Return the numbers of one training run in the order of `COLUMNS`, without the ratios."""
    start = time.perf_counter()
    model, history = harness.fit(train, settings)
    seconds = time.perf_counter() - start
    probabilities, _ = MLGPFPredictor(*model, test.D).score(test.features, "probability")
    steps = -(-train.N // settings.batch_size)
    return [
        *model.precision(test).values(),
        log_loss(harness.all_entries(probabilities), test.labels),
        *bounds(model, train),
        len(history),
        seconds,
        1e3 * harness.epoch_seconds(history) / steps,
    ]


def with_ratios(numbers, baseline):
    """Return the numbers, seeds×9, with each of the last two columns followed by its ratio to the baseline's."""
    numbers = np.array(numbers)
    ratios = numbers[:, -2:] / np.array(baseline)[:, -2:]
    return np.column_stack([numbers[:, :-1], ratios[:, 0], numbers[:, -1], ratios[:, 1]])


def format_columns(numbers):
    """Format the mean and standard deviation of each column, rounded to the digits of that column."""
    digits = [2, 2, 2, 5, 3, 3, 0, 1, 2, 1, 2]
    deviations = numbers.std(axis=0, ddof=min(1, len(numbers) - 1))
    columns = zip(digits, numbers.mean(axis=0), deviations, strict=True)
    return [f"{mean:.{places}f} ± {deviation:.{places}f}" for places, mean, deviation in columns]


def report(table, name, train, test, settings):
    """Print the rows of a mode of training, and return its numbers."""
    numbers = {kind: [] for kind in EXPECTATIONS}
    for seeded in settings:
        for kind in EXPECTATIONS:
            numbers[kind].append(run(train, test, dataclasses.replace(seeded, expectations=kind)))
    found = {kind: with_ratios(numbers[kind], numbers["quadrature"]) for kind in EXPECTATIONS}
    for kind, values in found.items():
        table.row(name, kind, *format_columns(values))
    return {kind: values.tolist() for kind, values in found.items()}


@click.command(help=__doc__.replace("\n\n", "\n\n\b\n"))
@harness.folders_argument()
@click.option("--seeds", type=click.IntRange(1), default=3, show_default=True)
@click.option("--only", type=click.Choice(list(MODES)), help="One of the modes of training.")
@click.option("--recipe", default="default", show_default=True)
@harness.set_option
@harness.json_option
def main(folders, seeds, only, recipe, chosen, as_json):
    results = {"columns": COLUMNS}
    for folder in folders:
        train, test = harness.read_folder(folder)
        table = harness.Table(folder.name, "expectations", *COLUMNS)
        results[folder.name] = {}
        for name, changes in MODES.items():
            if only not in (None, name):
                continue
            settings = [
                harness.resolve_settings(recipe, train, chosen | changes | {"seed": seed}) for seed in range(seeds)
            ]
            harness.warm_up(settings[0])
            results[folder.name][name] = report(table, name, train, test, settings)
        print()
    harness.write_json(as_json, results)


if __name__ == "__main__":
    main()
