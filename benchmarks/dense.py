"""Dense features beside words, such as embeddings of texts: precision, time and memory, beside other tools.

    python benchmarks/dense.py table DATA [--tools NAME,...] [--parts words,dense,both] [--seed 0 ...] [--options TEXT]
        [--keep FOLDER] [--peers-python PATH] [--json FILE]
    python benchmarks/dense.py kernels DATA [--seed 0 ...] [--options TEXT] [--keep FOLDER] [--json FILE]
    python benchmarks/dense.py sizes [--points 1000000] [--width 384] [--labels 1000] [--words] [--set NAME=VALUE ...]
        [--folder FOLDER] [--json FILE]

DATA is a folder with train.jsonl and test.jsonl, or these with .gz, and train-NAME.npy and test-NAME.npy, embeddings of
the same texts; --dense gives NAME. Without them, it is skipped with a message. --options are further options of `xmlgp
train`. With --keep, measured cells stay in FOLDER, each a file TOOL-PART-SEED.json, and are used again; remove a file
to measure its cell once more.

`table` measures words, embeddings and both. xmlgp runs as the commands that users type, on the rows that `xmlgp
vectorize` makes, without a cache; for embeddings alone the rows are empty. The other tools get the same words by
xmlgp's default weighting, and choose their parameters on training points: see benchmarks/dense_peers.py. They run once,
not for each seed. All use all cores. `xmlgp evaluate` measures all of them on the test points, in percent; ECE@5, from
0 to 1, where scores are probabilities. Seconds of xmlgp are of the whole commands, those of others of training and of
prediction alone. Memory is the largest resident set of training.

`kernels` takes embeddings alone. It compares the squared-exponential regression that MLGPF pools its utilities with,
its linear part, and both with the regression on neighbours. The regression and `linear part` are those of the same
model, without their calibration; `regression_points=0` is the command without a regression.

`sizes` generates points into a temporary folder, or one in --folder, in which it also trains: embeddings are sums of a
random vector for each label, with noise, in half precision; with --words, points have 70 words as well. Memory is the
largest resident set in each part of training, which includes pages of mapped files.
"""

import contextlib
import dataclasses
import functools
import json
import shlex
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from unittest import mock

import click
import harness  # before NumPy
import many_labels
import numpy as np
import scipy.sparse as sp
from generate import GeneratedSet, Shape
from peak_memory import reset_peak, resident_bytes
from peers import TOP, write_scores
from scipy.special import expit

import xmlgp
import xmlgp.mlgpf.train as mlgpf_train
import xmlgp.runs.train as runs_train
from xmlgp.data.dataset import Dataset
from xmlgp.data.features import Features
from xmlgp.data.repository_format import Header, read_dataset, write_blocks, write_dataset
from xmlgp.mlgpf.held_out import HeldOutChoices
from xmlgp.mlgpf.stochastic import Stochastic
from xmlgp.mlgpf.sweep import Sweep

SCRIPT = harness.BENCHMARKS / "dense_peers.py"

PARTS = "words", "dense", "both"

#: The parts of each tool: one-vs-rest logistic regression takes long on words, and is there to compare embeddings.
TOOLS = {"xmlgp": PARTS, "omikuji": PARTS, "pecos": PARTS, "svm": PARTS, "logistic": ("dense",), "neighbours": PARTS}

#: Tools whose scores are from 0 to 1.
PROBABLE = "xmlgp", "omikuji", "pecos", "logistic", "neighbours"

MEASURES = *(f"{name}@{k}" for name in ("P", "PSP") for k in (1, 3, 5)), "ECE@5"
TAKEN = "train_s", "train_cpu", "predict_s", "predict_cpu", "peak_mb"

#: Length of the noise in a generated embedding; the vectors of labels have length one.
NOISE = 6

#: Points that are generated together.
BLOCK = 16_384


# ---- The table


class Corpus:
    """A corpus with embeddings, prepared in a folder: `rows` of words, the same `weighted`, and rows without words."""

    def __init__(self, data, dense, folder):
        self.dense = [data / f"{name}-{dense}.npy" for name in ("train", "test")]
        self.rows, self.weighted, self.empty = (folder / name for name in ("rows", "weighted", "empty"))
        train, test = (data / f"{name}{ending(data)}" for name in ("train", "test"))
        harness.xmlgp("vectorize", "-q", train, self.rows, "--test", test)
        harness.in_fresh_process(many_labels.write_weighted, self.rows, self.weighted)
        harness.in_fresh_process(write_without_words, self.rows, self.empty)
        self.folder = folder

    def evaluate(self, scores, tool):
        """Return the measures of a scores file."""
        probable = tool in PROBABLE
        measures = MEASURES if probable else MEASURES[:-1]
        return harness.evaluate(scores, self.rows, measures, *["--calibration"] * probable)

    def measure_xmlgp(self, part, options, seed):
        """Return the numbers of xmlgp; its model stays until the next one."""
        model, scores = self.folder / "model", self.folder / "scores"
        shutil.rmtree(model, ignore_errors=True)
        data = self.empty if part == "dense" else self.rows
        train, test = ([] if part == "words" else ["--dense", file] for file in self.dense)
        training = harness.run_xmlgp("train", "-q", "--no-cache", data, model, *train, "--seed", seed, *options)
        prediction = harness.run_xmlgp("predict", "-q", model, data / "test.txt", *test, "-k", TOP, "-o", scores)
        taken = *training[:2], *prediction[:2], training.peak_mb
        return dict(zip(TAKEN, taken, strict=True)) | self.evaluate(scores, "xmlgp")

    def measure_peer(self, tool, part, python):
        """Return the numbers of another tool, or None with a message if it is missing."""
        scores = self.folder / "scores"
        command = [python, SCRIPT, tool, part, self.weighted, *self.dense, scores]
        found = json.loads(subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE).stdout)
        if "missing" in found:
            click.echo(f"{tool} is skipped: {found['missing']}", err=True)
            return None
        return found | self.evaluate(scores, tool)


def ending(data):
    """Return how the names of the texts in a folder end."""
    return ".jsonl" if (data / "train.jsonl").exists() else ".jsonl.gz"


def without_words(labels):
    """Return points (`Dataset`) with labels alone."""
    return Dataset(Features(sp.csr_array((labels.shape[0], 0), dtype=np.float32)), labels)


def write_without_words(rows, folder):
    """Write train.txt and test.txt of a folder into another one, without features."""
    folder.mkdir()
    for name in "train.txt", "test.txt":
        write_dataset(folder / name, without_words(read_dataset(rows / name, cache=False).labels))


@contextlib.contextmanager
def prepared(data, dense, keep):
    """Yield the `Corpus` in a temporary folder, or None with a message if files are missing."""
    names = [f"{name}{end}" for name in ("train", "test") for end in (ending(data), f"-{dense}.npy")]
    if not harness.has_data(data, names):
        yield None
        return
    if keep:
        keep.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        yield Corpus(data, dense, Path(folder))


def kept(folder, name, make):
    """Return the numbers of a cell, from its file in a folder if it is there; None is not kept."""
    file = folder and folder / f"{name}.json"
    if file and file.exists():
        return json.loads(file.read_text(encoding="utf-8"))
    found = make()
    if file and found:
        file.write_text(json.dumps(found) + "\n", encoding="utf-8")
    return found


COLUMNS = (
    "", "part", "P@1 / P@3 / P@5", "PSP@1 / PSP@3 / PSP@5", "ECE@5",
    "train s", "processor s", "predict s", "processor s", "peak MB",
)  # fmt: skip


def row_of(tool, part, cells):
    """Return the row below `COLUMNS` of the means of cells, one for each seed."""
    numbers = {name: np.mean([cell[name] for cell in cells]) for name in (*MEASURES, *TAKEN) if name in cells[0]}
    ranked = (" / ".join(f"{numbers[f'{name}@{k}']:.2f}" for k in (1, 3, 5)) for name in ("P", "PSP"))
    error = f"{numbers['ECE@5']:.4f}" if "ECE@5" in numbers else ""
    return tool, part, *ranked, error, *(f"{numbers[name]:.1f}" if name in numbers else "" for name in TAKEN)


# ---- Kernels


def measure_kernels(corpus, options, seed):
    """Return the numbers of both, of each alone in the same model, and of training without a regression, by name."""
    found = {"both": corpus.measure_xmlgp("dense", options, seed)}
    trained = xmlgp.load(corpus.folder / "model")
    own, regressed = (
        without(trained.parameters, prefixes) for prefixes in (("regression.", "neighbours."), "neighbours.")
    )
    if len(own) < len(regressed):
        linear, pooled = (
            xmlgp.predict(
                dataclasses.replace(trained, parameters=parameters, folder=None),
                corpus.empty / "test.txt",
                dense=corpus.dense[1],
                k="all",
                output="utility",
            ).matrix()
            for parameters in (own, regressed)
        )
        # Utilities are pooled as w f + (1 − w) logit(g).
        weight = float(trained.parameters["regression.pool_weight"])
        regression = (pooled - weight * linear) / (1 - weight)
        for name, utilities in ("linear part", linear.toarray()), ("regression", regression.toarray()):
            write_best(corpus.folder / "scores", utilities)
            found[name] = corpus.evaluate(corpus.folder / "scores", "xmlgp")
    found["regression_points=0"] = corpus.measure_xmlgp("dense", [*options, "--set", "regression_points=0"], seed)
    return found


def without(parameters, prefix):
    """Return parameters without those whose names begin with a prefix."""
    return {name: value for name, value in parameters.items() if not name.startswith(prefix)}


def write_best(path, utilities):
    """Write a scores file with σ(f) of the five best labels, from the utilities of all, N×K."""
    best = np.argsort(-utilities, axis=1)[:, :TOP]
    p = expit(np.take_along_axis(utilities, best, axis=1))
    rows = [list(zip(*row, strict=True)) for row in zip(best.tolist(), p.tolist(), strict=True)]
    write_scores(path, rows, utilities.shape[1])


# ---- Sizes


class Generated:
    """Generated points, with words or without; embeddings are drawn beside them, a block at a time."""

    def __init__(self, points, words):
        self._points, self._words = points, words
        self.N, self.D, self.K = points.N, points.D if words else 0, points.K

    def rows(self, selection):
        """Return the points of a slice."""
        found = self._points.rows(selection)
        return found if self._words else without_words(found.labels)


def generate(folder, N, width, K, words):
    """Write points and their embeddings into a folder with `data.yaml`."""
    shape = Shape(N, 50_000, K, features=70 if words else 1, labels=5, own=0.2)
    random = np.random.default_rng(0)
    vectors = random.standard_normal((K, width), np.float32) / np.float32(width**0.5)
    for name, test in ("train", False), ("test", True):
        points = Generated(GeneratedSet(shape, test=test), words)
        dense = np.lib.format.open_memmap(folder / f"{name}.npy", "w+", np.float16, (points.N, width))

        def drawn(points=points, dense=dense):
            for start in range(0, points.N, BLOCK):
                block = points.rows(slice(start, start + BLOCK))
                noise = random.standard_normal((block.N, width), np.float32) * np.float32(NOISE / width**0.5)
                values = block.labels.astype(np.float32) @ vectors + noise
                dense[start : start + BLOCK] = values / np.linalg.norm(values, axis=1, keepdims=True)
                yield block

        write_blocks(folder / f"{name}.txt", Header(points.N, points.D, K), drawn())
        dense.flush()
    (folder / "data.yaml").write_text("dense:\n  train: [train.npy]\n  test: [test.npy]\n", encoding="utf-8")


#: The functions with which parts of training begin.
BEGINNINGS = [
    (runs_train, "preprocess_data", "preprocessing"),
    (mlgpf_train, "Loop", "starting values"),
    (Stochastic, "step", "steps"),
    (Sweep, "begin", "sweeps"),
    (HeldOutChoices, "step", "calibration"),
    (mlgpf_train, "statistics_of", "points for learning on"),
    (runs_train, "write_model", "writing"),
]


class Watch:
    """Seconds, processor seconds and peak memory of the parts of training, by name; the first is reading."""

    def __init__(self):
        self.parts, self._part = {}, "reading"
        self._begin()

    def _begin(self):
        reset_peak()
        self._began = time.perf_counter(), time.process_time()

    def enter(self, part):
        """End the part before, unless it is the same."""
        if part == self._part:
            return
        ended = time.perf_counter(), time.process_time()
        taken = self.parts.setdefault(self._part, [0.0, 0.0, 0.0])
        for place, (end, start) in enumerate(zip(ended, self._began, strict=True)):
            taken[place] += end - start
        taken[2] = max(taken[2], resident_bytes("VmHWM") / 1e6)
        self._part = part
        self._begin()

    def before(self, function, part):
        """Return a function that enters a part when it is called."""

        @functools.wraps(function, updated=())
        def watched(*arguments, **options):
            self.enter(part)
            return function(*arguments, **options)

        return watched


def train_watched(data, model, settings):
    """Train, and return what each part took: seconds, processor seconds and the largest resident set in megabytes."""
    watch = Watch()
    with contextlib.ExitStack() as stack:
        for owner, name, part in BEGINNINGS:
            stack.enter_context(mock.patch.object(owner, name, watch.before(getattr(owner, name), part)))
        xmlgp.train(xmlgp.Source(data, cache=False), model, settings=settings)
        watch.enter("end")
    return watch.parts


# ---- Options


def names_option(flag, name, names):
    """Return the option for some of these names, separated by commas."""

    def chosen(context, parameter, text):
        found = text.split(",")
        if unknown := [own for own in found if own not in names]:
            raise click.BadParameter(f"{unknown[0]!r} is not one of {', '.join(names)}.")
        return found

    return click.option(flag, name, default=",".join(names), show_default=True, metavar="NAME,...", callback=chosen)


data_argument = click.argument("data", type=click.Path(path_type=Path))
dense_option = click.option("--dense", default="minilm", show_default=True, help="NAME of the embeddings.")
seeds_option = click.option(
    "--seed", "seeds", type=int, multiple=True, default=[0], show_default=True, help="Seeds of xmlgp."
)
options_option = click.option("--options", default="", metavar="TEXT", help="Further options of `xmlgp train`.")
keep_option = click.option(
    "--keep", type=click.Path(file_okay=False, path_type=Path), help="Keep cells in this folder."
)


@click.group(help=__doc__.replace("\n\n", "\n\n\b\n"))
def main():
    pass


@main.command("table", help="Words, embeddings and both, beside other tools.")
@data_argument
@dense_option
@names_option("--tools", "tools", TOOLS)
@names_option("--parts", "parts", PARTS)
@seeds_option
@options_option
@keep_option
@harness.peers_python_option
@harness.json_option
def table(data, dense, tools, parts, seeds, options, keep, peers_python, as_json):
    with prepared(data, dense, keep) as corpus:
        if not corpus:
            return
        results, shown = {}, harness.Table(*COLUMNS)
        for tool, part in ((tool, part) for tool in tools for part in parts if part in TOOLS[tool]):
            measures = {0: functools.partial(corpus.measure_peer, tool, part, peers_python)}
            if tool == "xmlgp":
                measure = functools.partial(corpus.measure_xmlgp, part, shlex.split(options))
                measures = {seed: functools.partial(measure, seed) for seed in seeds}
            cells = [kept(keep, f"{tool}-{part}-{seed}", measure) for seed, measure in measures.items()]
            if None not in cells:
                results[f"{tool}, {part}"] = cells
                shown.row(*row_of(tool, part, cells))
    harness.write_json(as_json, results)


@main.command("kernels", help="Embeddings alone: the squared-exponential regression, the linear part, and both.")
@data_argument
@dense_option
@seeds_option
@options_option
@keep_option
@harness.json_option
def kernels(data, dense, seeds, options, keep, as_json):
    with prepared(data, dense, keep) as corpus:
        if not corpus:
            return
        results = {}
        for seed in seeds:
            measure = functools.partial(measure_kernels, corpus, shlex.split(options), seed)
            for name, cell in kept(keep, f"kernels-{seed}", measure).items():
                results.setdefault(name, []).append(cell)
    harness.print_table(COLUMNS, [row_of(name, "dense", cells) for name, cells in results.items()])
    harness.write_json(as_json, results)


@main.command("sizes", help="Memory and time of each part of training on generated points.")
@click.option("--points", "N", type=click.IntRange(100), default=1_000_000, show_default=True)
@click.option("--width", type=click.IntRange(1), default=384, show_default=True)
@click.option("--labels", "K", type=click.IntRange(1), default=1000, show_default=True)
@click.option("--words", is_flag=True, help="With 70 words a point.")
@harness.set_option
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), help="For a temporary folder.")
@harness.json_option
def sizes(N, width, K, words, chosen, folder, as_json):
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        data, model = Path(temporary, "data"), Path(temporary, "model")
        data.mkdir()
        harness.in_fresh_process(generate, data, N, width, K, words)
        parts = harness.in_fresh_process(train_watched, data, model, chosen)
        usage = harness.run_xmlgp("predict", "-q", model, data, "-k", TOP, "-o", model / "scores")
        parts["`xmlgp predict`, 10,000 points at most"] = usage
        measures = harness.evaluate(model / "scores", data, MEASURES, "--calibration")
    harness.print_table(
        ["part", "seconds", "processor seconds", "peak MB"], [[part, *taken] for part, taken in parts.items()]
    )
    click.echo("  ".join(f"{name} {value:.4g}" for name, value in measures.items()))
    harness.write_json(as_json, {"parts": parts, "measures": measures})


if __name__ == "__main__":
    main()
