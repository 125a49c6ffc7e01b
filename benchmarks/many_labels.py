"""Thousands of labels and more: time, memory and precision beside omikuji and PECOS, in the same run.

    python -m benchmarks many_labels [DATA ...] [--shape NAME ...] [--generate N D K] [--features 70] [--labels 5]
        [--own 0.3] [--share 1] [--recipe NAME] [--options TEXT] [--peers NAME,...] [--generated-peers NAME,...]
        [--repeats 3] [--folder FOLDER] [--scores FOLDER] [--json FILE]

DATA is a folder with train.txt and test.txt; another one is skipped with a message. --shape and --generate add data
sets by benchmarks/generate.py. --share reduces their numbers of points and labels to that share, and the number of
features to its square root. They are generated into --folder, and again used if they are there.

xmlgp runs as the commands that users type, with --recipe and --options for `xmlgp train`. The peers run with their
defaults on the features that xmlgp's default weighting gives, rounded to five decimals. All use all cores. For each
data set there are three Markdown tables:

1. Seconds of training, and their ratio to omikuji's: for xmlgp the whole commands, for omikuji training from a text
   file, for the others training from arrays. Memory is the largest resident set of the process, with the data.
   `xmlgp evaluate` measures the top five labels of all of them, in percent. Points per second are those of finding
   these labels for points in memory, with xmlgp by its default output; the best of the repeats counts. --scores keeps
   the labels, in a folder for each data set: `xmlgp evaluate A.scores B.scores DATA --train DATA --macro` prints the
   differences of two tools.
2. The commands one by one.
3. Where the time of training goes. Reading and preprocessing are repeated in a process of their own for this table. The
   rest is loading the program, starting values and writing the model.

How time and memory grow with the number of points is measured by `benchmarks/scaling.py`.
"""

import dataclasses
import shlex
import shutil
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np

from benchmarks import generate, harness, peers, prediction
from xmlgp.data.dataset import Dataset
from xmlgp.data.formats import read_dataset
from xmlgp.data.repository_format import write_dataset
from xmlgp.features.pipeline import weight_features
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.models.mlgpf.settings import MLGPFSettings
from xmlgp.models.table import MODELS
from xmlgp.runtime.progress import silent

MEASURES = ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5")

#: Decimals of the weighted features that peers read.
DECIMALS = 5


class Task(NamedTuple):
    """A data set, a folder with train.txt and test.txt, and the peers that run on it."""

    name: str
    data: Path
    peers: list


# ---- In processes of their own, so that their memory does not count as that of the commands


def write_weighted(data, folder):
    """Write a data set with the features that xmlgp's default weighting gives."""
    folder.mkdir()
    parts = {name: read_dataset(data / name) for name in ("train.txt", "test.txt")}
    preprocessed = weight_features(parts["train.txt"].features, MLGPFSettings())
    for name, part in parts.items():
        weighted = preprocessed.weigh(part.features)
        values = weighted.sparse.data
        # No weight becomes zero, as the format has no stored zeros.
        np.maximum(values.round(DECIMALS, out=values), 10.0**-DECIMALS, out=values)
        write_dataset(folder / name, Dataset(weighted, part.labels))


def time_preparation(data, settings):
    """Return the seconds of reading training data and of preprocessing."""
    times = [time.perf_counter()]
    dataset = read_dataset(data / "train.txt")
    times.append(time.perf_counter())
    MODELS[settings.model].preprocess(dataset.features, settings, silent)
    times.append(time.perf_counter())
    return np.diff(times).tolist()


# ---- Measurements


def measure(task, folder, scores, recipe, options, repeats):
    """Return the numbers of xmlgp and the peers on a data set; files are written to a folder, scores to another one."""
    model, weighted = folder / "model", folder / "weighted"
    scores.mkdir(parents=True, exist_ok=True)
    measured = {}
    if task.peers:
        harness.in_fresh_process(write_weighted, task.data, weighted)
        measured = peers.measure(weighted, task.peers, repeats, scores)
        shutil.rmtree(weighted)
    chosen = ["--recipe", recipe] if recipe else []
    commands = {
        "train": ("train", "-q", task.data / "train.txt", model, *chosen, *options),
        "predict": ("predict", "-q", model, task.data / "test.txt", "-k", peers.TOP, "-o", scores / "xmlgp.scores"),
    }
    used = {name: harness.run_xmlgp(*arguments) for name, arguments in commands.items()}
    rates = harness.in_fresh_process(prediction.throughput, model, task.data / "test.txt", repeats, (None,))
    ours = {"train_s": used["train"].seconds, "peak_mb": used["train"].peak_mb, "rate": rates[None]}
    tools = {"xmlgp": ours}
    for name, peer in measured.items():
        tools[name] = {key: peer[key] for key in ("train_s", "peak_mb")} | {"rate": peer["rows"] / peer["predict_s"]}
    for name, numbers in tools.items():
        numbers |= harness.evaluate(scores / f"{name}.scores", task.data, MEASURES)
    return {
        "sizes": harness.sizes(task.data / "train.txt"),
        "tools": tools,
        "commands": {name: usage._asdict() for name, usage in used.items()},
        "parts": training_parts(task.data, ModelFolder(model), ours["train_s"]),
    }


def training_parts(data, folder, total):
    """Return the number and the seconds of each part of training; the rest of the total is the last."""
    settings, description = folder.settings, folder.description
    reading, preprocessing = harness.in_fresh_process(time_preparation, data, settings)
    parts = {"reading": [1, reading], "preprocessing": [1, preprocessing]}
    history = description["history"]
    # Without sweeps there are exactly as many.
    epochs = settings.epoch_count(description["data"]["N"])
    parts["epochs"] = in_history(history[:epochs])
    if len(history) > epochs:
        sweeps = parts["sweeps over the labels"] = in_history(history[epochs:])
        sweeps[1] -= history[epochs - 1]["seconds"]
    parts["rest"] = [1, total - sum(seconds for _, seconds in parts.values())]
    return parts


def in_history(entries):
    """Return the number of entries of a history and their seconds, from the start of the history."""
    return [len(entries), entries[-1]["seconds"]]


# ---- Tables


def report(name, command, result):
    """Print the three tables of a data set."""
    N, D, K = result["sizes"].values()
    print(f"{name}, N={N:,}, D={D:,}, K={K:,}, `{command}`:\n")
    tools = result["tools"]
    rows = []
    for tool, numbers in tools.items():
        ratio = f"×{numbers['train_s'] / tools['omikuji']['train_s']:.2f}" if "omikuji" in tools else ""
        cells = [f"{numbers[measure]:.2f}" for measure in MEASURES]
        rows.append([tool, numbers["train_s"], ratio, numbers["peak_mb"], *cells, f"{numbers['rate']:,.0f}"])
    harness.print_table(["", "train s", "× omikuji", "peak MB", *MEASURES, "points/s"], rows)
    rows = [[f"`xmlgp {name}`", *usage.values()] for name, usage in result["commands"].items()]
    harness.print_table(["", "seconds", "processor seconds", "peak MB"], rows)
    rows = [
        [part, count, seconds, seconds / count, f"{seconds / tools['xmlgp']['train_s']:.0%}"]
        for part, (count, seconds) in result["parts"].items()
    ]
    harness.print_table(["part of training", "number", "seconds", "seconds of one", "share"], rows)


# ---- Options


def generated_tasks(shapes, share, folder, names):
    """Return the tasks of generated data, and generate those that are missing."""
    tasks = []
    for name, whole in shapes.items():
        shape = whole.share(share)
        # The name has all that the points depend on.
        values = "-".join(f"{value:g}" for value in dataclasses.astuple(shape))
        data = folder / f"{name}-{values}"
        if not (data / "test.txt").exists():
            harness.in_fresh_process(generate.write, shape, data)
        tasks.append(Task(name if share == 1 else f"{name}, share {share:g}", data, names))
    return tasks


_counts = click.IntRange(1)


@click.command(help=__doc__.replace("\n\n", "\n\n\b\n"))
@click.argument("folders", nargs=-1, type=click.Path(path_type=Path))
@click.option("--shape", "names", multiple=True, type=click.Choice(sorted(generate.SHAPES)), help="Shapes to generate.")
@click.option("--generate", "sizes", nargs=3, type=_counts, metavar="N D K", help="A data set to generate.")
@click.option("--features", default=70.0, show_default=True, help="Features per point of --generate.")
@click.option("--labels", default=5.0, show_default=True, help="Labels per point of --generate.")
@click.option("--own", default=0.3, show_default=True, help="Share of the words that come from a label in --generate.")
@click.option("--share", type=click.FloatRange(0, 1, min_open=True), default=1.0, show_default=True)
@click.option("--recipe", help="Recipe of xmlgp.  [default: that of the command]")
@click.option("--options", default="", metavar="TEXT", help="Further options of `xmlgp train`.")
@harness.peers_option("--peers", "peer_names", ["omikuji", "pecos"])
@harness.peers_option("--generated-peers", "generated_names", ["omikuji"], "Peers to measure on generated data.")
@click.option("--repeats", default=3, show_default=True, help="Number of predictions; the fastest counts.")
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), help="For generated data.")
@click.option("--scores", type=click.Path(file_okay=False, path_type=Path), help="Keep the scores files here.")
@harness.json_option
def main(
    folders, names, sizes, features, labels, own, share, recipe, options, peer_names, generated_names,
    repeats, folder, scores, as_json,
):  # fmt: skip
    shapes = {name: generate.SHAPES[name] for name in names}
    if sizes:
        shapes["generated"] = generate.Shape(*sizes, features, labels, own)
    command = f"xmlgp train {f'--recipe {recipe} ' if recipe else ''}{options}".strip()
    results = {"command": command}
    with tempfile.TemporaryDirectory() as temporary:
        tasks = [Task(data.name, data, peer_names) for data in folders if harness.has_data(data)]
        tasks += generated_tasks(shapes, share, folder or Path(temporary), generated_names)
        for task in tasks:
            with tempfile.TemporaryDirectory() as files:
                kept = (scores or Path(files, "scores")) / task.name
                results[task.name] = measure(task, Path(files), kept, recipe, shlex.split(options), repeats)
            report(task.name, command, results[task.name])
    harness.write_json(as_json, results)


if __name__ == "__main__":
    main()
