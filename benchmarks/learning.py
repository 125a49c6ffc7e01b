"""Learning on beside training anew: precision and time after each batch, new labels, and growth.

    python benchmarks/learning.py batches DATA [--order file|labels] [--model NAME] [--seed 0] [--json FILE]
    python benchmarks/learning.py labels DATA [--sample N] [--count 50] [--points 20] [--seed 0] [--json FILE]
    python benchmarks/learning.py growth [--json FILE]

`batches` takes train.txt and test.txt of the folder DATA; without them it is skipped with a message. The first 80% of
the training points are trained on, and the rest comes in four batches of 5%: in the order of the file, or sorted by the
first label of each point, so that labels shift. After each batch the same commands are measured: `xmlgp learn` with
that batch, and `xmlgp train` on all points so far, one after the other with all cores. Precision is in percent on the
test points, log loss over 50 labels; `first` is precision on at most 10,000
points of the first part.

`labels` takes labels with at least twice `--points` training points. In one half of the runs of each, all training
points of the label are in the first part; in the other, the first part has no point with any of these labels, and a
batch has `--points` of each. Both models see the same points of these labels. With `--sample` only so many training
points are used, drawn at random.

`growth` measures the function that learns a batch of 2,000 points of 1,000 labels, without reading and writing the
folder. The model before is in weight space and has random parameters, so that nothing has to be trained: the time does
not depend on their values. First its number of labels grows, then that of its earlier points.
"""

import json
import tempfile
import time
from pathlib import Path

import click
import harness  # before NumPy
import numpy as np
import scipy.sparse as sp

from xmlgp.data.dataset import Dataset
from xmlgp.data.repository_format import write_dataset
from xmlgp.gp.bound import Bound
from xmlgp.gp.weight_space import WeightSpace
from xmlgp.label_weights.posterior import PRIOR_VARIANCE
from xmlgp.metrics.probabilities import log_loss
from xmlgp.metrics.propensity import propensities
from xmlgp.metrics.ranking import evaluate_ranking
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.mlgpf.weight_space import WeightSpaceMethod
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.prediction.scores_file import Scores
from xmlgp.preprocess.pipeline import Preprocessed, weighting_of_counts
from xmlgp.runs.learn import learn_points
from xmlgp.runs.trained_model import TrainedModel, open_predictor
from xmlgp.training.trained import STATISTICS, statistics_of

#: Share of the points that is trained on first, and batches of the rest.
FIRST, BATCHES = 0.8, 4

#: Labels that are predicted, and most points of the first part that are ranked.
TOP, KNOWN = 50, 10_000

#: Earlier points and labels of the models of `growth`; labels grow first, then points.
SIZES = [(10_000, 1000), (10_000, 10_000), (10_000, 100_000), (100_000, 10_000), (1_000_000, 10_000)]

#: Features of these models, weights of each label, and points and labels of the batch.
FEATURES, WEIGHTS, BATCH, BATCH_LABELS = 50_000, 300, 2000, 1000

MEASURES = ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5", "log_loss")


def run(*arguments):
    """Run an xmlgp command and return its seconds."""
    return harness.run_xmlgp(*arguments, "--quiet").seconds


def measures(model, test, trained):
    """Return the measures of a model in a folder on test points, by name."""
    predictor = ModelFolder.read(model, open_predictor)
    scores = Scores.stack(list(predictor.top(test.features, min(TOP, test.K), "probability"))).matrix
    found = evaluate_ranking(scores, test.labels, propensities=propensities(trained.labels))
    found["log_loss"] = log_loss(scores, test.labels)
    return {name: round(found[name], 4) for name in MEASURES}


def precision(model, points):
    """Return P@1, P@3 and P@5 of a model in a folder."""
    predictor = ModelFolder.read(model, open_predictor)
    scores = Scores.stack(list(predictor.top(points.features, 5, "probability"))).matrix
    found = evaluate_ranking(scores, points.labels)
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
@click.argument("data", type=click.Path(path_type=Path))
@click.option("--order", type=click.Choice(["file", "labels"]), default="file")
@click.option("--model", default="mlgpf")
@click.option("--seed", default=0)
@harness.json_option
def batches(data, order, model, seed, as_json):
    """Learn the last fifth of DATA in four batches, beside training anew."""
    if not harness.has_data(data):
        return
    train, test = harness.read_folder(data)
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
            seconds.append(run("train", write("all.txt", so_far), folder / "anew", *options, "--overwrite"))
            row = {"batch": number, "points": len(part)}
            for name, spent in zip(("learned", "anew"), seconds, strict=True):
                row[name] = measures(folder / name, test, train.rows(so_far)) | {"seconds": round(spent, 1)}
                row[name]["first"] = precision(folder / name, first)
            rows.append(row)
            show(row)
    rows.append({"first before": known})
    show(rows[-1])
    harness.write_json(as_json, {"rows": rows})


@main.command()
@click.argument("data", type=click.Path(path_type=Path))
@click.option("--sample", type=click.IntRange(1), help="Use so many random training points.  [default: all]")
@click.option("--count", default=50)
@click.option("--points", default=20)
@click.option("--seed", default=0)
@harness.json_option
def labels(data, sample, count, points, seed, as_json):
    """Rank labels that came with a batch beside the same labels known from the start."""
    if not harness.has_data(data):
        return
    train, test = harness.read_folder(data)
    random = np.random.default_rng(seed)
    if sample:
        train = train.rows(np.sort(random.choice(train.N, min(sample, train.N), replace=False)))
    counts, tested = (np.bincount(part.labels.indices, minlength=train.K) for part in (train, test))
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
    harness.write_json(as_json, result)


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
@harness.json_option
def growth(as_json):
    """Measure a batch after different numbers of points and labels."""
    # Compiled functions are loaded before anything is measured.
    learned_after(*SIZES[0])
    rows = []
    for N, K in SIZES:
        seconds, busy = learned_after(N, K)
        rows.append({"N": N, "K": K, "seconds": round(seconds, 2), "processor seconds": round(busy, 2)})
        show(rows[-1])
    harness.write_json(as_json, {"rows": rows})


def learned_after(N, K):
    """Return what a batch takes a model with random parameters that has learned N points and K labels."""
    random = np.random.default_rng(0)
    batch = random_batch(K, random)
    settings = MLGPFSettings(inducing="features")
    # Earlier points had features as often as those of the batch, and all labels equally often.
    by_label, by_feature = np.full(K, -(-3 * N // K)), statistics_of(batch.features, batch.labels)[STATISTICS[1]]
    statistics = dict(zip(STATISTICS, (by_label, by_feature * N // BATCH), strict=True))
    method = WeightSpaceMethod(settings)
    parameters = method.trained(Bound(WeightSpace(None)), method.initial(FEATURES, batch.labels, random))
    parameters |= random_label_weights(K, random) | statistics
    preprocessed = Preprocessed(weighting_of_counts(settings.weighting, N, statistics[STATISTICS[1]]), None, None)
    facts = {"N": N, "D": FEATURES, "K": K, "fingerprint": ""}
    known = TrainedModel(settings, facts, preprocessed, parameters, [])
    began = time.perf_counter(), time.process_time()
    learn_points(known, batch)
    return time.perf_counter() - began[0], time.process_time() - began[1]


def random_batch(K, random):
    """Return points of 30 features, some of which are frequent, with 3 of the first labels."""
    columns = np.minimum((FEATURES * random.power(0.3, 30 * BATCH)).astype(np.int32), FEATURES - 1)
    chosen = random.integers(0, BATCH_LABELS, 3 * BATCH, np.int32)
    starts = np.arange(BATCH + 1)
    features = np.ones(len(columns), np.float32), columns, 30 * starts
    labels = np.ones(len(chosen), bool), chosen, 3 * starts
    return Dataset(sparse_array(features, (BATCH, FEATURES)), sparse_array(labels, (BATCH, K)))


def random_label_weights(K, random):
    """Return random weights of each label, on features that are spread over all."""
    count, width = K * WEIGHTS, FEATURES / WEIGHTS
    # One feature of each of equal ranges, so that they ascend and none is there twice.
    columns = random.random((K, WEIGHTS), np.float32) * (width - 1) + np.arange(WEIGHTS) * width
    found = {
        "indptr": np.arange(0, count + 1, WEIGHTS),
        "features": columns.astype(np.int32).ravel(),
        "mean": random.standard_normal(count, np.float32),
        "log_variance": np.full(count, -1, np.float32),
        "log_prior": np.full(FEATURES, np.log(PRIOR_VARIANCE), np.float32),
    }
    return {f"label_weights.{name}": value for name, value in found.items()}


def sparse_array(arrays, shape):
    """Return a csr_array without repeated elements."""
    found = sp.csr_array(arrays, shape=shape)
    found.sum_duplicates()
    return found


def show(row):
    """Print a result as JSON."""
    click.echo(json.dumps(row))


if __name__ == "__main__":
    main()
