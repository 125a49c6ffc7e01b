"""Training and prediction on a Dask cluster of this machine: time, memory, and what more machines would be worth.

    python benchmarks/cluster.py time DATA [--workers 2 ...] [--epochs E] [--seeds 1] [--options TEXT] [--json FILE]
    python benchmarks/cluster.py memory --folder FOLDER [--shape amazoncat] [--scale 0.1] [--workers 1 ...]
        [--options TEXT] [--json FILE]

`time` runs the same commands on one process with all cores and then with `--workers W`, W processes that share these
cores: `xmlgp train` on DATA/train.txt with an empty cache, `xmlgp predict` and `xmlgp evaluate` on DATA/test.txt. The
seconds of training are those from the first byte read to the model that is written, without loading the program,
starting workers and ending them. Processor seconds are those of the command and of all workers. With several --seeds
the local run is repeated with other seeds, which shows how much precision varies. The model of the local run also
predicts with W workers; the scores files are compared byte by byte. The limit is 1.3 times the local training.

From the first run with workers follows a model of the time on more machines like this one: processor seconds of the
command stay, and those of the workers are divided. Storage and network, not slow on one machine, are left out.

`memory` generates a data set (benchmarks/generate.py), trains in weight space, and looks at all processes every 0.2 s.
With 0 workers it trains on one process without Dask. Own memory is that which is not mapped from files. What is sharded
is in files that workers map; the peak is that of one worker.
"""

import filecmp
import json
import os
import shlex
import shutil
import tempfile
from pathlib import Path

import click
import generate
import harness  # before NumPy
import recipes
from watched_command import run_watched

from xmlgp.model_folder.folder import ModelFolder

MEASURES = ("P@1", "P@3", "P@5")

#: Most times that training may take as long as on one process.
LIMIT = 1.3

#: Machines in the model of the time.
MACHINES = (1, 2, 4, 8, 16, 32)

#: Peaks of memory of a stage, and their columns.
PEAKS = {"command_mb": "own, command", "worker_mb": "own, worker", "worker_rss_mb": "Rss, worker"}

#: Kinds of files whose rows workers divide.
SHARDED = ("X and Y as read", "files of the run")

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
    report_model(next(run for run in others if run["workers"]), results["cores"])
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


def report_model(run, cores):
    """Print the seconds of training that more machines would take, by stages that workers compute and others."""
    stages = {name: stage for name, stage in run["stages"].items() if name not in OUTSIDE}
    divided = {name: stage["workers_s"] / cores for name, stage in stages.items()}
    stays = sum(max(0.0, stage["seconds"] - divided[name]) for name, stage in stages.items())
    rows = [["seconds", *(f"{stays + sum(divided.values()) / machines:.0f}" for machines in MACHINES)]]
    harness.markdown_table(["machines", *map(str, MACHINES)], rows)


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


if __name__ == "__main__":
    main()
