"""Training and prediction on a Dask cluster of this machine: time, precision and memory.

    python benchmarks/cluster.py time DATA [--workers 2 ...] [--epochs E] [--seeds 1] [--options TEXT] [--json FILE]
    python benchmarks/cluster.py memory --folder FOLDER [--shape amazoncat] [--scale 0.1] [--workers 1 ...]
        [--options TEXT] [--json FILE]

`time` runs the same commands on one process with all cores and then with `--workers W`, W processes that share these
cores: `xmlgp train` on DATA/train.txt with an empty cache, `xmlgp predict` and `xmlgp evaluate` on DATA/test.txt. The
seconds of epochs and sweeps are those of the history of the model. With several --seeds the local run is repeated with
other seeds, which shows how much precision varies. The model of the local run also predicts with W workers; the scores
files are compared byte by byte.

`memory` generates a data set (benchmarks/generate.py), trains in weight space, and looks at all processes every 0.2 s.
With 0 workers it trains on one process without Dask. Own memory is that which is not mapped from files (`Anonymous` in
/proc); Rss has the pages of mapped files as well, of which the processes of a machine share one copy. The peak is that
of one worker.
"""

import filecmp
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click
import generate
import harness  # before NumPy
import psutil

from xmlgp.model_folder.folder import ModelFolder

MEASURES = ("P@1", "P@3", "P@5")

#: Peaks of memory, and their columns.
PEAKS = {"command_mb": "own, command", "worker_mb": "own, worker", "worker_rss_mb": "Rss, worker"}

#: Seconds from one look at the processes to the next.
SAMPLE_SECONDS = 0.2


@click.group()
def main():
    """Measure training and prediction on a Dask cluster."""


def workers_option(default):
    """Return the option for numbers of workers."""
    return click.option(
        "--workers", "counts", multiple=True, type=click.IntRange(0), default=default, show_default=True
    )


options_option = click.option("--options", default="", metavar="TEXT", help="Further options of `xmlgp train`.")


def on_workers(workers):
    return ["--workers", workers] if workers else []


def run_name(workers):
    """Return the name of a run with some workers."""
    return f"{workers} worker{'s' * (workers != 1)}" if workers else "local"


# ---- Time


@main.command("time")
@click.argument("data", type=click.Path(path_type=Path))
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
    runs, predictions = [], []
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        for workers, seed in [(0, 0), *((count, 0) for count in counts), *((0, seed) for seed in range(1, seeds))]:
            model, scores = folder / f"model-{workers}-{seed}", folder / f"scores-{workers}-{seed}"
            empty = os.environ | {"XMLGP_CACHE_DIR": str(folder / f"cache-{workers}-{seed}")}
            command = ["train", "-q", data, model, "--seed", seed, *chosen, *on_workers(workers)]
            run = {"workers": workers, "seed": seed} | harness.run_xmlgp(*command, env=empty)._asdict()
            seconds = harness.run_xmlgp("predict", "-q", model, data, "-k", 5, "-o", scores).seconds
            history = ModelFolder(model).description["history"]
            run["epochs_s"] = max((entry["seconds"] for entry in history if "sweep" not in entry), default=0.0)
            run["sweeps_s"] = history[-1]["seconds"] - run["epochs_s"]
            runs.append(run | harness.evaluate(scores, data, MEASURES))
            if not (workers or seed):
                predictions.append({"workers": 0, "seconds": seconds})
        for workers in counts:
            command = ["predict", "-q", folder / "model-0-0", data, "-k", 5, "-o", folder / "scores"]
            seconds = harness.run_xmlgp(*command, *on_workers(workers)).seconds
            equal = filecmp.cmp(folder / "scores-0-0", folder / "scores", shallow=False)
            predictions.append({"workers": workers, "seconds": seconds, "equal": equal})
    report_time(data.name, chosen, runs, predictions)
    harness.write_json(as_json, {"data": data.name, "options": chosen, "runs": runs, "predictions": predictions})


def report_time(name, options, runs, predictions):
    """Print tables of training and of prediction."""
    print(f"{name}, `xmlgp train {shlex.join(map(str, options))}`:\n")
    rows = []
    for run in runs:
        label = run_name(run["workers"]) + (f", seed {run['seed']}" if run["seed"] else "")
        ratio = f"×{run['seconds'] / runs[0]['seconds']:.2f}"
        precision = [f"{run[measure]:.2f}" for measure in MEASURES]
        rows.append([label, run["seconds"], ratio, run["epochs_s"], run["sweeps_s"], *precision])
    harness.print_table(["", "training s", "× local", "epochs s", "sweeps s", *MEASURES], rows)
    answers = {None: "", True: "yes", False: "no"}
    rows = [[run_name(run["workers"]), run["seconds"], answers[run.get("equal")]] for run in predictions]
    harness.print_table(["", "prediction s", "equal byte for byte"], rows)


# ---- Memory


@main.command()
@click.option("--shape", type=click.Choice(sorted(generate.SHAPES)), default="amazoncat", show_default=True)
@click.option("--scale", type=click.FloatRange(0, 1, min_open=True), default=0.1, show_default=True)
@workers_option([1, 2, 4])
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), required=True)
@options_option
@harness.json_option
def memory(shape, scale, counts, folder, options, as_json):
    """Measure the memory of workers."""
    whole = generate.SHAPES[shape].scaled(scale)
    data, model = folder / f"{shape}-{scale:g}", folder / "model"
    if not (data / "test.txt").exists():
        harness.in_fresh_process(generate.write, whole, data)
    chosen = ["--inducing", "features", "--epochs", 1, *shlex.split(options)]
    print(f"{shape}, N={whole.N:,}, D={whole.D:,}, K={whole.K:,}, `xmlgp train {shlex.join(map(str, chosen))}`:\n")
    runs = []
    for workers in counts:
        shutil.rmtree(model, ignore_errors=True)
        command = ["train", "-q", data, model, *chosen, *on_workers(workers)]
        runs.append({"workers": workers} | peaks_of(command))
    rows = [[run_name(run["workers"]), *(f"{run[key]:.0f}" for key in PEAKS)] for run in runs]
    harness.print_table(["peak MB", *PEAKS.values()], rows)
    harness.write_json(as_json, {"shape": shape, "scale": scale, "sizes": vars(whole), "options": chosen, "runs": runs})


def peaks_of(arguments):
    """Run an xmlgp command with an empty cache and return its `PEAKS`; exit with its status if it fails."""
    peaks = dict.fromkeys(PEAKS, 0.0)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "xmlgp", *map(str, arguments)]
        process = subprocess.Popen(command, env=os.environ | {"XMLGP_CACHE_DIR": folder})
        while process.poll() is None:
            for pid in (process.pid, *workers_of(process.pid)):
                rss, own = resident_mb(pid)
                found = {"command_mb": own} if pid == process.pid else {"worker_mb": own, "worker_rss_mb": rss}
                peaks |= {key: max(peaks[key], value) for key, value in found.items()}
            time.sleep(SAMPLE_SECONDS)
    if process.returncode:
        raise SystemExit(process.returncode)
    return peaks


def workers_of(pid):
    """Return the process numbers of the workers that a command has started."""
    try:
        children = psutil.Process(pid).children(recursive=True)
        # Python's own tracker of resources is a child as well.
        return [child.pid for child in children if any("spawn_main" in part for part in child.cmdline())]
    except psutil.Error:
        return []


def resident_mb(pid):
    """Return Rss and own memory of a process in megabytes; zeros if it has ended."""
    fields = {"Rss": 0.0, "Anonymous": 0.0}
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        name, _, rest = line.partition(":")
        if name in fields:
            fields[name] = int(rest.split()[0]) * 1024 / 1e6
    return fields["Rss"], fields["Anonymous"]


if __name__ == "__main__":
    main()
