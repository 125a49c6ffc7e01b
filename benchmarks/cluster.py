"""Training and prediction on a Dask cluster of this machine: time, memory, faults, and the messages of a step.

    python benchmarks/cluster.py time DATA [--workers 2 ...] [--epochs E] [--seeds 1] [--options TEXT] [--json FILE]
    python benchmarks/cluster.py memory --folder FOLDER [--shape amazoncat] [--scale 0.1] [--workers 1 ...]
        [--options TEXT] [--json FILE]
    python benchmarks/cluster.py faults DATA [--kills 20] [--seed 0] [--options TEXT] [--json FILE]
    python benchmarks/cluster.py steps DATA [--inducing free ...] [--workers 1 ...] [--steps 25] [--set NAME=VALUE ...]
        [--json FILE]

`time` runs the same commands on one process with all cores and then with `--workers W`, W processes that share these
cores: `xmlgp train` on DATA/train.txt with an empty cache, `xmlgp predict` and `xmlgp evaluate` on DATA/test.txt. The
seconds of training are those from the first byte read to the model that is written, without loading the program,
starting workers and ending them. Processor seconds are those of the command and of all workers. With several --seeds
the local run is repeated with other seeds, which shows how much precision varies. The model of the local run also
predicts with W workers; the scores files are compared byte by byte. The limit is 1.3 times the local training.

`memory` generates a data set (benchmarks/generate.py), trains in weight space, and looks at all processes every 0.2 s.
With 0 workers it trains on one process without Dask. Own memory is that which is not mapped from files. What is sharded
is in files that workers map, whose pages in memory are listed by what they hold; the peak is that of one worker.

`faults` starts `dask scheduler` and two `dask worker` on the loopback interface, trains on them with nothing lost, and
then once more with workers that are killed (SIGKILL) at random moments, one in each of equal parts of the seconds of
the first run. Each is replaced before the next one is killed.

`steps` makes training steps on one process and with W workers that share its cores. It counts the bytes of all messages
between the command and the workers, as Dask sends them. The calls of a step are the messages and what the workers
compute, of which the slowest counts; the rest of the step is not divided. The last column is the least time of the
messages on a network of 10 Gb/s, which all pass through the connection of one machine.
"""

import filecmp
import json
import os
import shlex
import shutil
import tempfile
import time
from pathlib import Path
from random import Random

import click
import generate
import harness  # before NumPy
import numpy as np
import recipes
from dask_processes import DaskProcesses
from step_messages import measure_steps
from watched_command import read_trace, run_watched, start_traced

from xmlgp.data.repository_format import read_dataset
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.preprocess.pipeline import find_inducing_inputs

MEASURES = ("P@1", "P@3", "P@5")

#: Most times that training may take as long as on one process.
LIMIT = 1.3

#: Rate of the network that messages are compared with.
NETWORK_GBITS = 10

#: Peaks of memory of a stage, and their columns.
PEAKS = {"command_mb": "own, command", "worker_mb": "own, worker", "worker_rss_mb": "Rss, worker"}

#: Kinds of files whose rows workers divide.
SHARDED = ("X", "latent functions", "pairs and shortlists")

#: Stages of a command outside of training.
OUTSIDE = ("starting", "ending")


@click.group()
def main():
    """Measure training and prediction on a Dask cluster."""


def data_argument():
    """Return the argument for a folder with train.txt and test.txt."""
    return click.argument("data", type=click.Path(path_type=Path))


def workers_option(default):
    """Return the option for numbers of workers."""
    return click.option(
        "--workers", "counts", multiple=True, type=click.IntRange(0), default=default, show_default=True
    )


options_option = click.option("--options", default="", metavar="TEXT", help="Further options of `xmlgp train`.")


# ---- Commands of xmlgp


def train(data, model, workers, options, memory=False):
    """Train with an empty cache on some workers, or on one process with 0; return the numbers of the run."""
    with tempfile.TemporaryDirectory(dir=model.parent) as folder:
        chosen = ["--workers", workers] if workers else []
        arguments = ["train", "-q", data, model, "--no-resume", *options, *chosen]
        environment = os.environ | {"XMLGP_CACHE_DIR": str(Path(folder, "cache"))}
        watched = run_watched(Path(folder, "trace"), arguments, environment, memory)
    description = ModelFolder(model).description
    weights = description["arrays"].get("parameters.label_weights.mean")
    return {
        "workers": workers,
        "command_s": watched.seconds,
        "training_s": sum(stage["seconds"] for name, stage in watched.stages.items() if name not in OUTSIDE),
        "stages": watched.stages,
        "mapped_files_mb": watched.sizes,
        "label_weights": weights and weights["shape"][0],
        "history": [{name: entry[name] for name in ("epoch", "seconds")} for entry in description["history"]],
    }


def predict(model, data, scores, workers=0):
    """Predict the five best labels of the test points; return the seconds, and those without loading and ending."""
    with tempfile.TemporaryDirectory(dir=scores.parent) as folder:
        arguments = ["predict", "-q", model, data, "-k", 5, "-o", scores]
        environment = os.environ | {"XMLGP_CACHE_DIR": str(Path(folder, "cache"))}
        chosen = ["--workers", workers] if workers else []
        watched = run_watched(Path(folder, "trace"), [*arguments, *chosen], environment)
    return {"workers": workers, "command_s": watched.seconds, "predicting_s": watched.stages["predicting"]["seconds"]}


def evaluate(scores, data):
    """Return the precision of a scores file for the test points."""
    found = json.loads(recipes.xmlgp("evaluate", "-q", scores, data / "test.txt", "--json"))
    return {name: found[name] for name in MEASURES}


def run_name(workers):
    """Return the name of a run with some workers."""
    return f"{workers} worker{'s' * (workers != 1)}" if workers else "local"


# ---- Time


@main.command("time")
@data_argument()
@workers_option([2])
@click.option("--epochs", type=click.IntRange(1), help="Most epochs.  [default: that of the settings]")
@click.option("--seeds", type=click.IntRange(1), default=1, show_default=True, help="Local runs with other seeds.")
@options_option
@harness.json_option
def measure_time(data, counts, epochs, seeds, options, as_json):
    """Compare time and precision with those of one process."""
    if not harness.has_data(data):
        return
    chosen = [*(["--epochs", epochs] if epochs else []), *shlex.split(options)]
    results = {"data": data.name, "options": chosen, "cores": len(os.sched_getaffinity(0)), "runs": []}
    predictions = []
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        for workers, seed in [(0, 0), *((count, 0) for count in counts), *((0, seed) for seed in range(1, seeds))]:
            model, scores = folder / f"model-{workers}-{seed}", folder / f"scores-{workers}-{seed}"
            run = train(data, model, workers, [*chosen, "--seed", seed])
            prediction = predict(model, data, scores)
            results["runs"].append(run | {"seed": seed} | evaluate(scores, data))
            if not (workers or seed):
                local = scores
                predictions.append(prediction)
        for workers in counts:
            other = folder / "scores"
            prediction = predict(folder / "model-0-0", data, other, workers)
            predictions.append(prediction | {"equal": filecmp.cmp(local, other, shallow=False)})
    results["predictions"] = predictions
    results["settings"] = sizes_of_run(data)
    report_time(results)
    harness.write_json(as_json, results)


def sizes_of_run(data):
    """Return N, D and K of training data."""
    with open(data / "train.txt", encoding="utf-8") as stream:
        return dict(zip("NDK", map(int, stream.readline().split()), strict=True))


def report_time(results):
    """Print tables of training, its stages, and prediction."""
    local, *others = results["runs"]
    print(f"{results['data']}, {results['cores']} cores, `xmlgp train {shlex.join(map(str, results['options']))}`:\n")
    rows = []
    for run in results["runs"]:
        ratio = run["training_s"] / local["training_s"]
        name = run_name(run["workers"]) + (f", seed {run['seed']}" if run["seed"] else "")
        verdict = ("yes" if ratio <= LIMIT else "no") if run["workers"] else ""
        precision = [f"{run[measure]:.2f}" for measure in MEASURES]
        rows.append([name, run["training_s"], f"×{ratio:.2f}", verdict, run["command_s"], *precision])
    columns = ["", "training s", "× local", f"at most ×{LIMIT}", "command s", *MEASURES]
    harness.markdown_table(columns, rows)
    report_stages([local, *(run for run in others if run["workers"])])
    rows = [
        [run_name(run["workers"]), run["predicting_s"], run["command_s"], {None: "", True: "yes", False: "no"}[equal]]
        for run in results["predictions"]
        for equal in [run.get("equal")]
    ]
    harness.markdown_table(["", "predicting s", "command s", "equal byte for byte"], rows)


def report_stages(runs):
    """Print a table with the seconds of each stage in each run, and the processor seconds of command and workers."""
    names = dict.fromkeys(name for run in runs for name in run["stages"])
    columns = ["stage"]
    for run in runs:
        name = run_name(run["workers"])
        columns += [f"{name}: s", "processor s", *(["of workers"] if run["workers"] else [])]
    rows = []
    for name in names:
        row = [name]
        for run in runs:
            stage = run["stages"].get(name)
            keys = ["seconds", "command_s", *(["workers_s"] if run["workers"] else [])]
            row += [f"{stage[key]:.2f}" if stage else "" for key in keys]
        rows.append(row)
    harness.markdown_table(columns, rows)


# ---- Memory


@main.command()
@click.option("--shape", type=click.Choice(sorted(generate.SHAPES)), default="amazoncat", show_default=True)
@click.option("--scale", type=click.FloatRange(0, 1, min_open=True), default=0.1, show_default=True)
@workers_option([1, 2, 4])
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), required=True)
@options_option
@harness.json_option
def memory(shape, scale, counts, folder, options, as_json):
    """Measure the memory of workers by stage."""
    whole = generate.SHAPES[shape].scaled(scale)
    data, model = folder / f"{shape}-{scale:g}", folder / "model"
    if not (data / "test.txt").exists():
        harness.in_fresh_process(generate.write, whole, data)
    chosen = ["--inducing", "features", "--epochs", 1, *shlex.split(options)]
    size = (data / "train.txt").stat().st_size
    results = {"shape": shape, "scale": scale, "sizes": vars(whole), "text_bytes": size, "options": chosen, "runs": []}
    print(f"{shape}, N={whole.N:,}, D={whole.D:,}, K={whole.K:,}, `xmlgp train {shlex.join(map(str, chosen))}`:\n")
    for workers in counts:
        shutil.rmtree(model, ignore_errors=True)
        results["runs"].append(train(data, model, workers, chosen, memory=True))
        report_memory(results["runs"][-1])
    report_sharded(results["runs"])
    report_peaks(results["runs"])
    harness.write_json(as_json, results)


def report_memory(run):
    """Print the memory of one run by stage."""
    kinds = list(run["mapped_files_mb"])
    rows = []
    for name, stage in run["stages"].items():
        found = [stage.get(key) for key in PEAKS] + [stage["mapped"].get(kind) for kind in kinds]
        # Nothing is known of a stage that was over too soon.
        rows.append([name, f"{stage['seconds']:.1f}", *("" if peak is None else f"{peak:.0f}" for peak in found)])
    rows.append(["size of the files", *[""] * 4, *(f"{run['mapped_files_mb'][kind]:.0f}" for kind in kinds)])
    columns = [f"{run_name(run['workers'])}, MB", "s", *PEAKS.values(), *kinds]
    harness.markdown_table(columns, rows)


def report_sharded(runs):
    """Print what a worker has in memory of that which is divided, by stage and number of workers."""
    runs = [run for run in runs if run["workers"]]
    rows = []
    for name in dict.fromkeys(name for run in runs for name in run["stages"]):
        stages = [run["stages"].get(name, {"mapped": {}}) for run in runs]
        peaks = [stage["mapped"].get(kind) for kind in SHARDED for stage in stages]
        peaks = [stage.get("worker_mb") for stage in stages] + peaks
        if any(peaks):
            rows.append([name, *("" if peak is None else f"{peak:.0f}" for peak in peaks)])
    columns = [f"{kind}, {run_name(run['workers'])}" for kind in ("own", *SHARDED) for run in runs]
    harness.markdown_table(["MB of a worker", *columns], rows)


def report_peaks(runs):
    """Print the peaks of all runs."""
    kinds = list(dict.fromkeys(kind for run in runs for kind in run["mapped_files_mb"]))
    rows = []
    for run in runs:
        stages = run["stages"].values()
        peaks = [max(stage.get(key, 0.0) for stage in stages) for key in PEAKS]
        peaks += [max(stage["mapped"].get(kind, 0.0) for stage in stages) for kind in kinds]
        rows.append([run_name(run["workers"]), *(f"{peak:.0f}" if peak else "" for peak in peaks)])
    columns = ["peak MB", *PEAKS.values(), *kinds]
    harness.markdown_table(columns, rows)


# ---- Faults


@main.command()
@data_argument()
@click.option("--kills", type=click.IntRange(1), default=20, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the moments and the workers.")
@options_option
@harness.json_option
def faults(data, kills, seed, options, as_json):
    """Kill workers at random moments of training; each one is replaced before the next is killed."""
    if not harness.has_data(data):
        return
    chosen = shlex.split(options)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        undisturbed = train_with_faults(data, folder / "undisturbed", chosen, [], None)
        random = Random(seed)
        # One in each of equal parts of the first run.
        moments = [(number + random.random()) / kills * undisturbed["training_s"] for number in range(kills)]
        disturbed = train_with_faults(data, folder / "disturbed", chosen, moments, random)
    report_faults(data, chosen, undisturbed, disturbed, kills)
    harness.write_json(as_json, {"data": data.name, "options": chosen, "runs": [undisturbed, disturbed]})


def train_with_faults(data, folder, options, moments, random):
    """Train with two workers, one of which is killed at each moment; return the numbers of the run.

    Parameters
    ----------
    data, folder : Path
        The folder is new.
    options : list of str
    moments : list of float
        Seconds from the first byte read.
    random : random.Random
        Chooses the workers.
    """
    folder.mkdir()
    model, scores, trace = folder / "model", folder / "scores", folder / "trace"
    environment = os.environ | {"XMLGP_CACHE_DIR": str(folder / "cache")}
    killed = []
    with DaskProcesses(folder) as processes:
        for _ in range(2):
            processes.start_worker()
        arguments = ["train", "-q", data, model, "--no-resume", *options, "--scheduler", processes.address]
        command = start_traced(trace, arguments, env=environment)
        try:
            for moment in moments:
                entry = wait_for(command, trace, moment)
                if entry is None:
                    break
                processes.kill_worker(random.choice(processes.alive))
                began = training_began(read_trace(trace))
                killed.append({"seconds": time.time() - began, "stage": entry.stage, "place": entry.place})
                processes.start_worker()
            command.wait()
        finally:
            command.kill()
    if command.returncode:
        raise SystemExit(command.returncode)
    entries = read_trace(trace)
    ended = next(entry.time for entry in entries if entry.stage == "ending")
    predict(model, data, scores)
    run = {"training_s": ended - training_began(entries), "killed": killed}
    return run | evaluate(scores, data)


def wait_for(command, trace, moment):
    """Wait for some seconds of training; return the entry of the trace then, or None if training is over."""
    while command.poll() is None:
        entries = read_trace(trace)
        if entries and entries[-1].stage == "ending":
            return None
        began = training_began(entries)
        if began is not None and time.time() >= began + moment:
            return entries[-1]
        time.sleep(0.02)
    return None


def training_began(entries):
    """Return the time when a traced command began to read; None before."""
    return next((entry.time for entry in entries if entry.stage == "reading"), None)


def report_faults(data, options, undisturbed, disturbed, kills):
    """Print when workers were killed, and both runs."""
    print(f"{data.name}, two workers of one thread, `xmlgp train {shlex.join(options)}`:\n")
    killed = disturbed["killed"]
    rows = [[number, f"{kill['seconds']:.1f}", kill["stage"], kill["place"]] for number, kill in enumerate(killed, 1)]
    harness.markdown_table(["kill", "after s", "stage", "place"], rows)
    if len(killed) < kills:
        print(f"training ended before {kills - len(killed)} of {kills} moments\n")
    rows = [
        [f"{len(run['killed'])} kills", run["training_s"], *(f"{run[measure]:.2f}" for measure in MEASURES)]
        for run in (undisturbed, disturbed)
    ]
    harness.markdown_table(["", "training s", *MEASURES], rows)


# ---- Steps


@main.command()
@data_argument()
@click.option(
    "--inducing",
    "spaces",
    multiple=True,
    type=click.Choice(["free", "subspace", "features"]),
    default=["free", "subspace", "features"],
    show_default=True,
    help="Inducing inputs: Z, A of a subspace, or none, in weight space.",
)
@workers_option([1, 2])
@click.option("--steps", type=click.IntRange(1), default=25, show_default=True)
@harness.set_option
@harness.json_option
def steps(data, spaces, counts, steps, chosen, as_json):
    """Measure the time of a training step, and the bytes that travel for it."""
    if not harness.has_data(data):
        return
    dataset = read_dataset(data / "train.txt", cache=False)
    sizes = {"N": dataset.N, "D": dataset.D, "K": dataset.K, "features": dataset.features.nnz / dataset.N}
    sizes |= {"labels": dataset.labels.nnz / dataset.N}
    results = {"data": data.name, "sizes": sizes, "cores": len(os.sched_getaffinity(0)), "runs": []}
    rows = []
    for space in spaces:
        settings = harness.resolve_settings("default", dataset, chosen | {"model": "mlgpf", "inducing": space})
        preprocessed = find_inducing_inputs(dataset.features, settings)
        shape = dict(zip("MR", np.shape(preprocessed.inducing), strict=False))
        facts = {"inducing": space, "B": settings.batch_size, "P": settings.factor_count, **shape}
        if space == "features":
            facts["label_sample"] = settings.label_sample
        for workers in (0, *counts):
            measured = measure_steps(dataset, preprocessed, settings, workers, steps)
            results["runs"].append(facts | {"workers": workers} | measured)
            rows.append(step_row(results["runs"][-1]))
    print(f"{data.name}, {results['cores']} cores, N={dataset.N:,}, D={dataset.D:,}, K={dataset.K:,}:\n")
    columns = ["inducing", "sizes", "", "step ms", "calls ms", "computing ms", "sent MB", "received MB"]
    harness.markdown_table([*columns, f"ms at {NETWORK_GBITS} Gb/s"], rows)
    harness.write_json(as_json, results)


def step_row(run):
    """Return the row of one run: milliseconds and megabytes of a step."""
    sizes = ", ".join(f"{name}={run[name]}" for name in "MRBP" if name in run)
    row = [run["inducing"], sizes, run_name(run["workers"]), f"{1e3 * run['step_s']:.1f}"]
    if not run["workers"]:
        return row + [""] * 5
    row += [f"{1e3 * run[name]:.1f}" for name in ("call_s", "compute_s")]
    row += [f"{run[name] / 1e6:.2f}" for name in ("sent", "received")]
    return [*row, f"{1e3 * (run['sent'] + run['received']) * 8 / (NETWORK_GBITS * 1e9):.1f}"]


if __name__ == "__main__":
    main()
