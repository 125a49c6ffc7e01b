"""How time and memory of the default grow with the number of points, and what a cluster of this machine makes of it.

    python -m benchmarks scaling [--shape calls] [--points N ...] [--workers 2] [--folder FOLDER] [--picture FILE]
        [--json FILE]

Generates data of a shape (`benchmarks/generate.py`) with each number of points; the numbers of features and labels grow
with the square root of it. `xmlgp train` and `xmlgp predict` run as commands. Of the whole time of training, the table
has that of the stochastic steps and of the sweeps over the labels, as the history of the model says; building the index
of training points is timed in a process of its own. Points a second are those of the whole `xmlgp predict`, from text
to text. The last row has the exponents p of time and memory ∝ N^p: the slopes of the lines in the --picture, whose axes
are logarithmic (it needs Matplotlib). With --workers W, training on the most points is repeated with W worker
processes, whose memory is not in the table.
"""

import tempfile
import time
from pathlib import Path

import click

from benchmarks import generate, harness
from xmlgp.data.formats import read_dataset
from xmlgp.features.pipeline import weight_features
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.models.mlgpf.settings import MLGPFSettings
from xmlgp.neighbours.search import build_index

#: What grows: the name of a column, and its unit.
GROWING = {
    "training": "s",
    "steps": "s",
    "sweeps": "s",
    "index": "s",
    "prediction": "s",
    "memory of training": "MB",
    "memory of prediction": "MB",
    "index on disk": "MB",
}

MEASURES = ("P@1", "P@3", "P@5")


def time_index(data):
    """Return the seconds in which the index of the points of a file is built."""
    features = read_dataset(data).features
    rows = weight_features(features, MLGPFSettings()).weigh(features).sparse
    start = time.perf_counter()
    build_index(rows)
    return time.perf_counter() - start


def measure(data, folder, workers=0):
    """Return the numbers of GROWING and the precision on the data of a folder; files are written to another one."""
    model, scores, test = folder / "model", folder / "scores", data / "test.txt"
    on_workers = ["--workers", workers] if workers else []
    training = harness.run_xmlgp("train", "-q", "--overwrite", data / "train.txt", model, *on_workers)
    prediction = harness.run_xmlgp("predict", "-q", model, test, "-k", 5, "-o", scores)
    history = ModelFolder(model).description["history"]
    steps = max(entry["seconds"] for entry in history if "sweep" not in entry)
    arrays = sum(file.stat().st_size for file in (model / "arrays").glob("parameters.neighbours.*"))
    grown = {
        "training": training.seconds,
        "steps": steps,
        "sweeps": sum(stage_seconds(history)),
        "index": harness.in_fresh_process(time_index, data / "train.txt"),
        "prediction": prediction.seconds,
        "memory of training": training.peak_mb,
        "memory of prediction": prediction.peak_mb,
        "index on disk": arrays / 1e6,
    }
    rate = harness.sizes(test)["N"] / prediction.seconds
    return grown | {"points/s": rate} | harness.evaluate(scores, data, MEASURES)


def stage_seconds(history):
    """Yield the seconds of each sweep; the choices on held-out points count in the one after them."""
    ends = [0.0, *(entry["seconds"] for entry in history)]
    for start, end, entry in zip(ends, ends[1:], history, strict=False):
        if "sweep" in entry:
            yield end - start


def draw(path, shape, results):
    """Draw what grows over the number of points, seconds and megabytes beside each other."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    counts = list(results)
    for axes, unit in zip(figure.subplots(1, 2), ("s", "MB"), strict=True):
        for name in (name for name, of_name in GROWING.items() if of_name == unit):
            values = [numbers[name] for numbers in results.values()]
            slope = f", N^{harness.exponent(counts, values):.2f}" if len(counts) > 1 else ""
            axes.loglog(counts, values, marker="o", label=name + slope)
        axes.set(xlabel="points, N", ylabel={"s": "seconds", "MB": "megabytes"}[unit], title=f"shape {shape}")
        axes.grid(which="major", alpha=0.3)
        axes.legend(fontsize="small")
    figure.savefig(path)


@click.command(help=__doc__.replace("\n\n", "\n\n\b\n"))
@click.option("--shape", type=click.Choice(sorted(generate.SHAPES)), default="calls", show_default=True)
@click.option(
    "--points", "counts", multiple=True, type=click.IntRange(100), show_default=True,
    default=(10_000, 31_623, 100_000, 316_228, 1_000_000),
)  # fmt: skip
@click.option("--workers", type=click.IntRange(0), default=2, show_default=True, help="0 for none.")
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), help="For generated data.")
@click.option("--picture", type=click.Path(dir_okay=False), help="Draw it into this file, such as scale.svg.")
@harness.json_option
def main(shape, counts, workers, folder, picture, as_json):
    results = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = folder or Path(temporary)
        whole = generate.SHAPES[shape]
        for N in counts:
            data = folder / f"{shape}-{N}"
            if not (data / "test.txt").exists():
                harness.in_fresh_process(generate.write, whole.scaled(N / whole.N), data)
            with tempfile.TemporaryDirectory() as files:
                results[N] = measure(data, Path(files))
        columns = [*(f"{name} {unit}" for name, unit in GROWING.items()), "points/s", *MEASURES]
        rows = [[f"{N:,}", *numbers.values()] for N, numbers in results.items()]
        if len(results) > 1:
            exponents = [
                f"N^{harness.exponent(list(results), [numbers[name] for numbers in results.values()]):.2f}"
                for name in GROWING
            ]
            rows.append(["", *exponents, *[""] * (1 + len(MEASURES))])
        if workers:
            with tempfile.TemporaryDirectory() as files:
                clustered = measure(folder / f"{shape}-{counts[-1]}", Path(files), workers)
            rows.append([f"{counts[-1]:,}, {workers} workers", *clustered.values()])
    harness.print_table(["N", *columns], rows)
    if picture:
        draw(picture, shape, results)
    harness.write_json(as_json, {"shape": shape, "results": results} | ({"workers": clustered} if workers else {}))


if __name__ == "__main__":
    main()
