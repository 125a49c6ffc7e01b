"""Learning on beside training anew: precision and time after each batch, new labels, and growth.

    python benchmarks/learning.py batches DATA [--order file|labels] [--model NAME] [--seed 0] [--json FILE]
    python benchmarks/learning.py labels DATA [--count 50] [--points 20] [--seed 0] [--json FILE]
    python benchmarks/learning.py growth [--labels 1000 10000 100000] [--points 10000 100000 1000000] [--json FILE]

`batches` takes train.txt and test.txt of the folder DATA; without them it is skipped with a message. The first 80% of
the training points are trained on, and the rest comes in four batches of 5%: in the order of the file, or sorted by the
first label of each point, so that labels shift. After each batch the same commands are measured: `xmlgp learn` with
that batch, and `xmlgp train` on all points so far, one after the other with all cores. Precision is in percent on the
test points, log loss over 50 labels; `first` is precision on at most 10,000
points of the first part.

`labels` takes labels with at least twice `--points` training points. In one half of the runs of each, all training
points of the label are in the first part; in the other, the first part has no point with any of these labels, and a
batch has `--points` of each. Both models see the same points of these labels.

`growth` generates points (30 features each, 3 labels each), trains on them for one epoch, and then measures `xmlgp
learn` with a batch of 2,000 points of 1,000 labels, and how much of that is reading and writing the folder.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click
import numpy as np
import scipy.sparse as sp

from xmlgp.data.dataset import Dataset
from xmlgp.data.repository_format import read_dataset, write_dataset
from xmlgp.metrics.evaluation import evaluate_scores
from xmlgp.metrics.propensity import propensities
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.prediction.scores_file import Scores
from xmlgp.runs.stored import open_predictor

#: Share of the points that is trained on first, and batches of the rest.
FIRST, BATCHES = 0.8, 4

#: Labels that are predicted, and most points of the first part that are ranked.
TOP, KNOWN = 50, 10_000

MEASURES = ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5", "log_loss")


def run(*arguments):
    """Run an xmlgp command and return its seconds."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "xmlgp", *map(str, arguments), "--quiet"], check=True)
    return time.perf_counter() - began


def read_pair(data):
    """Return training and test data, or exit with a message where they are absent."""
    files = [Path(data) / f"{part}.txt" for part in ("train", "test")]
    if not all(file.is_file() for file in files):
        click.echo(f"skipped: {data} has no train.txt and test.txt", err=True)
        raise SystemExit(0)
    return [read_dataset(file) for file in files]


def measures(model, test, trained):
    """Return the measures of a model in a folder on test points, by name."""
    predictor = ModelFolder.read(model, open_predictor)
    scores = Scores.stack(list(predictor.top(test.features, min(TOP, test.K), "probability"))).matrix
    found = evaluate_scores(scores, test.labels, propensities=propensities(trained.labels), calibration=True)
    return {name: round(found[name], 4) for name in MEASURES}


def precision(model, points):
    """Return P@1, P@3 and P@5 of a model in a folder."""
    predictor = ModelFolder.read(model, open_predictor)
    scores = Scores.stack(list(predictor.top(points.features, 5, "probability"))).matrix
    found = evaluate_scores(scores, points.labels)
    return [round(found[f"P@{k}"], 2) for k in (1, 3, 5)]


def first_labels(labels):
    """Return the lowest label of each point; K for points without."""
    lengths = np.diff(labels.indptr)
    first = np.full(len(lengths), labels.shape[1])
    has = lengths > 0
    first[has] = np.minimum.reduceat(labels.indices, labels.indptr[:-1][has])
    return first


@click.group()
def main():
    """Compare learning on with training anew."""


@main.command()
@click.argument("data", type=click.Path())
@click.option("--order", type=click.Choice(["file", "labels"]), default="file")
@click.option("--model", default="mlgpf")
@click.option("--seed", default=0)
@click.option("--json", "json_file", type=click.Path())
def batches(data, order, model, seed, json_file):
    """Learn the last fifth of DATA in four batches, beside training anew."""
    train, test = read_pair(data)
    start = int(FIRST * train.N)
    rest = np.arange(start, train.N)
    if order == "labels":
        rest = rest[np.argsort(first_labels(train.labels[rest]), kind="stable")]
    order = np.concatenate([np.arange(start), rest])
    ends = start + np.round((train.N - start) * np.arange(BATCHES + 1) / BATCHES).astype(int)
    options = "--model", model, "--seed", seed
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)

        def write(name, points):
            write_dataset(folder / name, train.rows(points))
            return folder / name

        first = train.rows(np.sort(np.random.default_rng(seed).choice(start, min(start, KNOWN), replace=False)))
        seconds = run("train", write("first.txt", order[:start]), folder / "learned", *options)
        known = precision(folder / "learned", first)
        rows.append({"batch": 0, "anew": measures(folder / "learned", test, first) | {"seconds": round(seconds, 1)}})
        show(rows[-1])
        for number in range(1, BATCHES + 1):
            part, so_far = order[ends[number - 1] : ends[number]], order[: ends[number]]
            seconds = [run("learn", folder / "learned", write("batch.txt", part))]
            seconds.append(run("train", write("all.txt", so_far), folder / "anew", *options, "--no-resume"))
            row = {"batch": number, "points": len(part)}
            for name, spent in zip(("learned", "anew"), seconds, strict=True):
                row[name] = measures(folder / name, test, train.rows(so_far)) | {"seconds": round(spent, 1)}
                row[name]["first"] = precision(folder / name, first)
            rows.append(row)
            show(row)
    rows.append({"first before": known})
    show(rows[-1])
    write_json(json_file, rows)


@main.command()
@click.argument("data", type=click.Path())
@click.option("--count", default=50)
@click.option("--points", default=20)
@click.option("--seed", default=0)
@click.option("--json", "json_file", type=click.Path())
def labels(data, count, points, seed, json_file):
    """Rank labels that came with a batch beside the same labels known from the start."""
    train, test = read_pair(data)
    counts, tested = (np.bincount(part.labels.indices, minlength=train.K) for part in (train, test))
    random = np.random.default_rng(seed)
    able = np.flatnonzero((counts >= 2 * points) & (counts <= 20 * points) & (tested >= 5))
    chosen = np.sort(random.choice(able, min(count, len(able)), replace=False))
    # All points with these labels are left out but for some of each.
    has = np.asarray(train.labels[:, chosen].sum(axis=1)).ravel() > 0
    by_label = train.labels[:, chosen].tocsc()
    kept = np.unique(
        np.concatenate(
            [
                random.choice(by_label.indices[by_label.indptr[j] : by_label.indptr[j + 1]], points, replace=False)
                for j in range(len(chosen))
            ]
        )
    )
    others = np.flatnonzero(~has)
    batch = np.sort(np.concatenate([kept, random.choice(others, len(kept), replace=False)]))
    first = np.setdiff1d(others, batch)
    wanted = np.asarray(test.labels[:, chosen].sum(axis=1)).ravel() > 0
    with_labels, without = test.rows(wanted), test.rows(~wanted)
    result = {"labels": len(chosen), "points": len(kept), "batch": len(batch), "first": len(first)}
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        for name, rows in ("first", first), ("batch", batch), ("all", np.sort(np.concatenate([first, batch]))):
            write_dataset(folder / f"{name}.txt", train.rows(rows))
        run("train", folder / "first.txt", folder / "learned", "--seed", seed)
        before = utilities(folder / "learned", without)
        run("learn", folder / "learned", folder / "batch.txt")
        after = utilities(folder / "learned", without)
        run("train", folder / "all.txt", folder / "anew", "--seed", seed)
        run("train", folder / "all.txt", folder / "again", "--seed", seed + 1)
        everything = train.rows(np.concatenate([first, batch]))
        for name in ("learned", "anew", "again"):
            result[name] = new_label_measures(folder / name, with_labels, chosen, everything)
            result[name] |= {"all": measures(folder / name, test, everything)}
        known = np.setdiff1d(np.flatnonzero(np.bincount(train.labels[first].indices, minlength=train.K)), chosen)
        change = np.abs(after[:, known] - before[:, known])
        result["change of utilities"] = {
            "median": float(np.median(change)), "99%": float(np.quantile(change, 0.99)),
            "spread of utilities": float(before[:, known].std()),
        }  # fmt: skip
    show(result)
    write_json(json_file, result)


def utilities(model, points, most=500):
    """Return the utilities of all labels for the first points."""
    predictor = ModelFolder.read(model, open_predictor)
    return predictor.score(points.features[:most], "utility")[0]


def new_label_measures(model, points, chosen, trained):
    """Return P@1, P@3, P@5 and PSP@k where only some labels are ranked, and how often they are in the first five."""
    predictor = ModelFolder.read(model, open_predictor)
    scores = Scores.stack(list(predictor.top(points.features, 5, "probability"))).matrix
    hits = scores.astype(bool).multiply(points.labels).tocsr()[:, chosen]
    probabilities = predictor.score(points.features, "probability")[0][:, chosen]
    order = np.argsort(-probabilities, axis=1)
    dense = points.labels[:, chosen].toarray()
    ranked = np.take_along_axis(dense, order, axis=1)
    p = propensities(trained.labels)[chosen]
    weighted = np.take_along_axis(dense / p, order, axis=1)
    best = -np.sort(-(dense / p), axis=1)
    found = {f"P@{k}": round(100 * float(ranked[:, :k].mean()), 2) for k in (1, 3, 5)}
    found |= {
        f"PSP@{k}": round(100 * float(weighted[:, :k].sum() / best[:, :k].sum()), 2) for k in (1, 3, 5)
    }  # fmt: skip
    return found | {"recall in the first five of all": round(100 * float(hits.sum() / dense.sum()), 2)}


@main.command()
@click.option("--labels", "label_counts", multiple=True, type=int, default=[1000, 10_000, 100_000])
@click.option("--points", "point_counts", multiple=True, type=int, default=[10_000, 100_000, 1_000_000])
@click.option("--json", "json_file", type=click.Path())
def growth(label_counts, point_counts, json_file):
    """Measure a batch after different numbers of points and labels."""
    rows = []
    for K in label_counts:
        for N in point_counts:
            if (point_counts[0], K) != (N, K) and label_counts[1] != K:
                continue
            rows.append(grown(N, K))
            show(rows[-1])
    write_json(json_file, rows)


def grown(N, K, D=50_000, batch=2000, labels=1000):
    """Return what a batch takes after N points and K labels."""
    random = np.random.default_rng(0)

    def points(count, most):
        starts = np.arange(0, 30 * count + 1, 30)
        columns = np.minimum((D * random.power(0.3, 30 * count)).astype(np.int32), D - 1)
        chosen = random.integers(0, most, 3 * count, np.int32)
        shapes = (count, D), (count, K)
        arrays = [
            (np.ones(len(columns), np.float32), columns, starts),
            (np.ones(len(chosen), bool), chosen, starts // 10),
        ]
        found = [sparse_array(part, shape) for part, shape in zip(arrays, shapes, strict=True)]
        return Dataset(*found)

    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        write_dataset(folder / "train.txt", points(N, K))
        write_dataset(folder / "batch.txt", points(batch, labels))
        trained = run(
            "train", folder / "train.txt", folder / "model", "--inducing", "features", "--epochs", 1, "--no-calibration"
        )
        seconds = run("learn", folder / "model", folder / "batch.txt")
        description = json.loads((folder / "model" / "model.json").read_text())
        history = description["learned"][-1]["history"]
        size = sum(file.stat().st_size for file in (folder / "model").rglob("*") if file.is_file())
    return {
        "N": N, "K": K, "train": round(trained, 1), "learn": round(seconds, 2),
        "steps and sweep": round(history[-1]["seconds"], 2), "model MB": round(size / 1e6),
    }  # fmt: skip


def sparse_array(arrays, shape):
    """Return a csr_array without repeated elements."""
    found = sp.csr_array(arrays, shape=shape)
    found.sum_duplicates()
    return found


def show(row):
    """Print a result as JSON."""
    click.echo(json.dumps(row))


def write_json(file, rows):
    """Write results to a file, if one is given."""
    if file:
        Path(file).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
