"""Training and prediction on a Dask cluster of this machine: time and precision.

    python -m benchmarks cluster DATA [--workers 2 ...] [--epochs E] [--seeds 1] [--options TEXT] [--json FILE]

The same commands run on one process with all cores and then with `--workers W`, W processes that share these cores:
`xmlgp train` on DATA/train.txt with an empty cache, `xmlgp predict` and `xmlgp evaluate` on DATA/test.txt. The seconds
of epochs and sweeps are those of the history of the model. With several --seeds the local run is repeated with other
seeds, which shows how much precision varies. The model of the local run also predicts with W workers; the scores files
are compared byte by byte.
"""

import filecmp
import os
import shlex
import tempfile
from pathlib import Path

import click

from benchmarks import harness
from xmlgp.model_folder.folder import ModelFolder

MEASURES = ("P@1", "P@3", "P@5")


def on_workers(workers):
    return ["--workers", workers] if workers else []


def run_name(workers):
    """Return the name of a run with some workers."""
    return f"{workers} worker{'s' * (workers != 1)}" if workers else "local"


@click.command()
@click.argument("data", type=click.Path(path_type=Path))
@click.option("--workers", "counts", multiple=True, type=click.IntRange(0), default=[2], show_default=True)
@click.option("--epochs", type=click.IntRange(1), help="Most epochs.  [default: that of the settings]")
@click.option("--seeds", type=click.IntRange(1), default=1, show_default=True, help="Local runs with other seeds.")
@click.option("--options", default="", metavar="TEXT", help="Further options of `xmlgp train`.")
@harness.json_option
def main(data, counts, epochs, seeds, options, as_json):
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


if __name__ == "__main__":
    main()
