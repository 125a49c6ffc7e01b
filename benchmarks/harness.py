"""Functions that the benchmarks share: training through the library, generated data, time, memory, tables and JSON."""

import argparse
import dataclasses
import json
import os
import platform
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
import scipy.sparse as sp

from benchmarks.generate import GeneratedSet, Shape
from benchmarks.peak_memory import reset_peak, resident_bytes
from benchmarks.peers import MEASURES, PEERS, TOP, peer_names
from xmlgp.data.catalogue import load_catalogue
from xmlgp.data.formats import read_dataset
from xmlgp.features.pipeline import Preprocessed, find_inducing_inputs
from xmlgp.metrics.ranking import ranking_statistics
from xmlgp.metrics.statistics import values
from xmlgp.models.fields import Settings
from xmlgp.models.mlgpf.methods import Problem
from xmlgp.models.mlgpf.predictor import MLGPFPredictor
from xmlgp.models.mlgpf.train import run_inference
from xmlgp.models.mlgpf.train import train as train_model
from xmlgp.models.table import resolve

BENCHMARKS = Path(__file__).parent

#: Rows and columns of the matrices whose product gives the machine's rate.
GEMM_SIZE = 2000

#: Histories round seconds to this, so that a shorter epoch appears to take none.
HISTORY_RESOLUTION = 1e-3

#: No repeat starts after this time.
ENOUGH_SECONDS = 20


# ---- Options


def _peers_option(context, parameter, value):
    try:
        return peer_names(value)
    except argparse.ArgumentTypeError as error:
        raise click.BadParameter(str(error)) from None


def _setting(context, parameter, pairs):
    """Return the mapping of name=value pairs; a value that is not JSON is a string such as linear."""
    chosen = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise click.BadParameter(f"{pair!r} is not name=value.")
        try:
            chosen[name] = json.loads(value)
        except ValueError:
            chosen[name] = value
    return chosen


def folders_argument(required=True):
    """Return the argument for folders with train.txt and test.txt."""
    folder = click.Path(exists=True, file_okay=False, path_type=Path)
    return click.argument("folders", nargs=-1, required=required, type=folder)


recipes_option = click.option("--recipe", "recipes", multiple=True, default=["default"], show_default=True)
set_option = click.option(
    "--set", "chosen", multiple=True, callback=_setting, metavar="NAME=VALUE", help="A setting, over the recipe."
)


def peers_option(flag="--peers", name="names", default=PEERS, description="Peers to measure."):
    """Return the option for names of peers, separated by commas."""
    return click.option(
        flag, name, default=",".join(default), callback=_peers_option, show_default=True, help=description
    )


json_option = click.option("--json", "as_json", type=click.Path(dir_okay=False), help="Write the numbers to this file.")


# ---- Training


class Model(NamedTuple):
    """A trained model, or one during training."""

    settings: Settings
    preprocessed: Preprocessed
    parameters: dict

    def precision(self, test):
        """Return P@1, P@3 and P@5 on a data set, in percent."""
        blocks = MLGPFPredictor(*self, test.D).top(test.features, TOP)
        measures = values(ranking_statistics(stack_scores(blocks), test.labels, (1, 3, 5)))
        return {name: measures[name] for name in MEASURES}


def stack_scores(blocks):
    """Return the scores of consecutive blocks of points as one csr_array, N×K."""
    return sp.csr_array(sp.vstack([block.matrix for block in blocks], format="csr"))


def all_entries(scores):
    """Return the scores of all labels, N×K, as a csr_array, which stores zeros as well."""
    N, K = scores.shape
    return sp.csr_array((scores.ravel(), np.tile(np.arange(K), N), np.arange(0, N * K + 1, K)), scores.shape)


def fit(dataset, settings, after_epoch=None):
    """Train a model from raw features; return it and the history of its training.

    With `after_epoch`, called as `after_epoch(epoch, model)` after each epoch, training runs on all points to the last
    epoch.
    """
    preprocessed = find_inducing_inputs(dataset.features, settings)
    if after_epoch is None:
        parameters, history, _ = train_model(dataset.features, dataset.labels, preprocessed, settings)
    else:
        coordinates = preprocessed.inputs(dataset.features, settings.dtype)
        parameters, history = run_inference(
            Problem(settings, dataset.features, dataset.labels, preprocessed, coordinates),
            after_epoch=lambda epoch, found: after_epoch(epoch, Model(settings, preprocessed, found())),
        )
    return Model(settings, preprocessed, parameters), history


def warm_up(settings):
    """Train on a few points, so that loading libraries and compiling are not measured."""
    settings = dataclasses.replace(settings, epochs=1, inducing_count=5, factors=3, basis_size=10)
    generated = generate(100, 50, 20, features=10)
    fit(generated, settings)[0].precision(generated)


def epoch_seconds(history):
    """Return the median seconds of an epoch, without the first if there are several; at least `HISTORY_RESOLUTION`."""
    ends = np.array([0.0, *(epoch["seconds"] for epoch in history)])
    seconds = float(np.median(np.diff(ends)[1:])) if len(history) > 1 else float(ends[-1])
    return max(seconds, HISTORY_RESOLUTION)


def resolve_settings(recipe, dataset, chosen):
    """Return the settings of a recipe for a data set, as `xmlgp train` does."""
    return resolve(load_catalogue(), recipe, (dataset.N, dataset.D, dataset.K), chosen)[0]


# ---- Data


def has_data(folder, names=("train.txt", "test.txt")):
    """Return whether a folder has these files; print a message if not."""
    found = all((folder / name).is_file() for name in names)
    if not found:
        print(f"{folder} is skipped: it has no {' and '.join(names)}", file=sys.stderr)
    return found


def read_folder(folder):
    """Return the training and the test set of a folder, in memory."""
    return [read_dataset(folder / name) for name in ("train.txt", "test.txt")]


def sizes(path):
    """Return N, D and K in the first line of a data file, by name."""
    with open(path, "rb") as stream:
        return dict(zip("NDK", map(int, stream.readline().split()), strict=True))


def generate(N, D, K, features=70, labels=5):
    """Return a generated data set of N points with the given numbers of features and labels per point."""
    return GeneratedSet(Shape(N, D, K, features, labels, own=0.2)).rows(slice(None))


# ---- Time and memory


def best_seconds(action, repeats):
    """Return the least seconds of several repeats of an action, fewer if it takes long."""
    times = []
    while len(times) < repeats and sum(times) < ENOUGH_SECONDS:
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


def gemm_rate():
    """Return the best rate of several float32 products, in operations per second."""
    a = np.random.default_rng(0).random((GEMM_SIZE, GEMM_SIZE), np.float32)
    return 2 * GEMM_SIZE**3 / best_seconds(lambda: a @ a, 10)


def in_fresh_process(function, *args):
    """Return the result of a module's function, called in a new interpreter."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *args).result()


class PeakMemory:
    """Peak resident memory of this process, relative to its memory when this object is created."""

    def __init__(self):
        self.reset()
        self._start = resident_bytes("VmRSS")

    reset = staticmethod(reset_peak)

    def megabytes(self):
        """Return the peak so far."""
        return (resident_bytes("VmHWM") - self._start) / 1e6


class Usage(NamedTuple):
    """What a command took: seconds, processor seconds, and its largest resident set in megabytes."""

    seconds: float
    processor_seconds: float
    peak_mb: float


def usage_of(*command, **options):
    """Run a command without its output and return its `Usage`; exit with its status if it fails."""
    launcher = [sys.executable, BENCHMARKS / "measured_command.py", *command]
    process = subprocess.run(list(map(str, launcher)), stdout=subprocess.PIPE, **options)
    if process.returncode:
        raise SystemExit(process.returncode)
    return Usage(**json.loads(process.stdout))


def run_xmlgp(*arguments, **options):
    """Run an xmlgp command and return its `Usage`; exit with its status if it fails."""
    return usage_of(sys.executable, "-m", "xmlgp", *arguments, **options)


def xmlgp(*arguments, **options):
    """Run an xmlgp command and return its output."""
    command = [sys.executable, "-m", "xmlgp", *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **options).stdout


def evaluate(scores, data, measures, *options, **environment):
    """Return some measures of a scores file for the test points in a folder, as `xmlgp evaluate` prints them."""
    arguments = scores, data / "test.txt", "--train", data / "train.txt", *options
    printed = json.loads(xmlgp("evaluate", "-q", *arguments, "--json", **environment))
    return {name: printed[name] for name in measures}


def exponent(values, results):
    """Return the exponent p of results ∝ values^p: the least-squares slope of their logarithms."""
    return float(np.polyfit(np.log(values), np.log(results), 1)[0])


# ---- Results


class Table:
    """A Markdown table on standard output, printed row by row; numbers have four significant digits."""

    def __init__(self, *columns):
        self.row(*columns)
        self.row(*["---"] * len(columns))

    def row(self, *cells):
        """Print a row."""
        print("| " + " | ".join(map(_text, cells)) + " |", flush=True)


def _text(cell):
    if not isinstance(cell, float):
        return str(cell)
    return f"{cell:.0f}" if abs(cell) >= 1000 else f"{cell:.4g}"


def print_table(columns, rows):
    """Print a table and an empty line."""
    table = Table(*columns)
    for row in rows:
        table.row(*row)
    print(flush=True)


def write_json(path, results):
    """Write results with a description of the machine, if a path is given."""
    if path:
        machine = {"processor": _processor(), "cores": os.cpu_count(), "numpy": np.__version__}
        Path(path).write_text(json.dumps({"machine": machine} | results, indent=1) + "\n", encoding="utf-8")


def _processor():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.partition(":")[2].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
