"""Learning on beside training anew: precision and time after each batch, calls of any size, and new labels.

    python benchmarks/learning.py batches DATA [--order file|labels|random] [OPTIONS]
    python benchmarks/learning.py sizes DATA [--calls 20] [OPTIONS]
    python benchmarks/learning.py one-label DATA [--labels 3] [OPTIONS]
    python benchmarks/learning.py labels DATA [--sample N] [--count 50] [--points 20] [OPTIONS]

OPTIONS are [--seed 0] [--set NAME=VALUE ...] [--keep FOLDER] [--json FILE]. DATA is a folder with train.txt and
test.txt, or with train.jsonl and test.jsonl, or these with .gz, which are used as text; without them it is skipped with
a message. --set gives settings to every training, such as `--set replay=0`, or `--set model=bmlpl`. Rows are printed
and written to the JSON file as they come.

`anew` is a model that `xmlgp train` trained on all points so far. With --keep these models stay in FOLDER with their
seconds. They are used again for the same points in the same order and the same settings, but for those that serve
learning alone, as long as xmlgp trains a model of a small generated set that predicts the same to the last digit.

Measures are of the test points: P@k and PSP@k in percent, log loss over 50 labels.

`batches` trains on the first 80% of the training points, and the rest comes in four batches of 5%: in the order of the
file, sorted by the first label of each point, so that labels shift, or with all points in random order. After each
batch the same commands are measured: `xmlgp learn` with that batch, and `xmlgp train` on all points so far, one after
the other with all cores. `first` is P@k of at most 10,000 points of the first part, MB the size of the model folder.
The last line compares the largest losses after a batch with the goals: differences of P@k, of that of first points and
of ECE@5, shares of PSP@k and log loss, and seconds of learning as a share of those of training anew.

`sizes` takes all points in random order and learns the last tenth of them in calls of 1, 10, 100 and 1,000 points and
in one call, by `xmlgp.learn` of a model in memory, at most so many `--calls` of each size. Seconds are the median of
these calls, and of the next prediction for one point. Rows of equally many points are of the same points, and the last
line compares their largest losses with the goals.

`one-label` learns 50 and 200 points that all have one label: the most frequent one, others of lower ranks, and the last
one that at least 400 points have. The first part has none of these 200 points of each. Probabilities of the label are
the means over the test points that do not have it, and over those that do.

`labels` takes labels with at least twice `--points` training points, and trains on points that have none of them.
`--points` of each then come in a batch with as many other points. `again` is a model trained anew with another seed.
With `--sample` only so many training points are used, drawn at random.
"""

import functools
import hashlib
import json
import os
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import click
import harness  # before NumPy
import numpy as np
import scipy.sparse as sp

import xmlgp
from xmlgp.data.dataset import Dataset
from xmlgp.data.features import Features
from xmlgp.data.repository_format import write_dataset
from xmlgp.data.streams import open_input
from xmlgp.metrics.propensity import propensities
from xmlgp.metrics.ranking import evaluate_ranking

#: Training and test points in a folder, of which the first pair that is there is read.
FILES = [("train.txt", "test.txt"), ("train.jsonl", "test.jsonl"), ("train.jsonl.gz", "test.jsonl.gz")]

KS = 1, 3, 5
MEASURES = (*(f"{name}@{k}" for name in ("P", "PSP") for k in KS), "log_loss", "ECE@5")
COLUMNS = ("P@1 / P@3 / P@5", "PSP@1 / PSP@3 / PSP@5", "log loss", "ECE@5")

#: Labels that are predicted for each point.
TOP = 50

#: Share of the points that `batches` trains on first, batches of the rest, and most points of the first part ranked.
FIRST, BATCHES, KNOWN = 0.8, 4, 10_000

#: The largest losses that are allowed; of P@k more where batches are sorted by label.
GOALS = {f"P@{k}": 0.3 for k in KS} | {f"PSP@{k}": 0.01 for k in KS} | {"log_loss": 0.01, "ECE@5": 0.005}
GOALS |= {f"first P@{k}": 0.3 for k in KS} | {"seconds": 0.2, "processor seconds": 0.2}
SORTED_GOALS = GOALS | {f"P@{k}": 0.5 for k in KS}

#: The most seconds of a call that learns one point.
CALL_GOAL = 0.2

#: Points in a call of `sizes`, beside all of them, and in a batch of `one-label`.
CALL_SIZES, ONE_LABEL_SIZES = (1, 10, 100, 1000), (50, 200)

#: Settings that change nothing in a model but what it keeps for learning on.
FOR_LEARNING = {"replay"}

#: N, D and K of the generated set that tells versions of xmlgp apart. It has label weights, sampled labels, regression.
SMALL = 500, 3000, 1500


# ---- Points and models


class Points(NamedTuple):
    """Points as a user gives them: texts and lists of names of labels, or matrices, N×D and N×K."""

    features: list | sp.csr_array
    labels: list | sp.csr_array

    @classmethod
    def read(cls, path):
        """Return the points of a file."""
        if path.suffix == ".txt":
            dataset = harness.read_dataset(path, cache=False)
            return cls(dataset.features.sparse, dataset.labels)
        with open_input(str(path)) as stream:
            documents = [json.loads(line) for line in stream]
        return cls(*([document[key] for document in documents] for key in ("text", "labels")))

    @property
    def N(self):
        """Number of points."""
        return self.features.shape[0] if sp.issparse(self.features) else len(self.features)

    def rows(self, chosen):
        """Return some of the points, chosen by their numbers."""
        return Points(*(part[chosen] if sp.issparse(part) else [part[i] for i in chosen] for part in self))

    def label_lists(self):
        """Return the labels of each point, numbers or names."""
        if not sp.issparse(self.labels):
            return self.labels
        return [own.tolist() for own in np.split(self.labels.indices, self.labels.indptr[1:-1])]

    def write(self, path):
        """Write a file, and return its path, which has an ending more."""
        path = Path(f"{path}{'.txt' if sp.issparse(self.features) else '.jsonl'}")
        if sp.issparse(self.features):
            write_dataset(path, Dataset(Features(self.features), self.labels))
        else:
            documents = (dict(zip(("text", "labels"), pair, strict=True)) for pair in zip(*self, strict=True))
            path.write_text("".join(json.dumps(document) + "\n" for document in documents), encoding="utf-8")
        return path


class Runs(NamedTuple):
    """How the models of a comparison are trained: settings by name, a folder for its files, and one for what stays."""

    settings: dict
    folder: Path
    keep: Path

    def run(self, *arguments):
        """Run an xmlgp command with an empty cache, and return its `Usage`."""
        with tempfile.TemporaryDirectory() as cache:
            environment = os.environ | {"XMLGP_CACHE_DIR": cache}
            return harness.run_xmlgp(*arguments, "--quiet", env=environment)

    def train(self, points, model, **settings):
        """Run `xmlgp train` on points or their file, with other settings than usual if any, and return its `Usage`."""
        options = ["--overwrite", "--no-resume"]
        for name, value in (self.settings | settings).items():
            text = value if isinstance(value, str) else json.dumps(value)
            options += ["--model", text] if name == "model" else ["--set", f"{name}={text}"]
        file = points if isinstance(points, Path) else points.write(self.folder / "train")
        return self.run("train", file, model, *options)

    def learn(self, points, model):
        """Run `xmlgp learn` and return its `Usage`."""
        return self.run("learn", model, points.write(self.folder / "batch"))

    def anew(self, points):
        """Return the folder of a model trained on points, now or earlier, and the `Usage` then."""
        file = points.write(self.folder / "all")
        settings = {name: value for name, value in self.settings.items() if name not in FOR_LEARNING}
        key = hashlib.sha256(f"{settings} {version(json.dumps(self.settings))}".encode())
        key.update(file.read_bytes())
        model = self.keep / key.hexdigest()[:16]
        usage = model.with_suffix(".json")
        # It is written last, so what is there is complete.
        if not usage.exists():
            usage.write_text(json.dumps(self.train(file, model)))
        return model, harness.Usage(*json.loads(usage.read_text()))


@functools.cache
def version(settings):
    """Return what tells versions of xmlgp apart: the predictions of a small model with these settings, as JSON."""
    small = harness.generate(*SMALL)
    predicted = xmlgp.train(small, settings=json.loads(settings)).predictor.score(small.features, "probability")[0]
    return hashlib.sha256(predicted.tobytes()).hexdigest()


def measured(model, test):
    """Return the measures of a model, in memory or in a folder, by name."""
    found = xmlgp.predict(model, test.features, k=TOP, output="probability")
    found = xmlgp.evaluate(found, test.labels, train=model, calibration=True).measures
    return {name: round(found[name], 4) for name in MEASURES}


def measured_in(folder, test, first, usage):
    """Return the measures of the model in a folder, with those of points of the first part, its size and its time."""
    found = xmlgp.evaluate(
        xmlgp.predict(folder, first.features, k=max(KS), output="probability"), first.labels
    ).measures
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    ranked = {f"first P@{k}": round(found[f"P@{k}"], 4) for k in KS}
    taken = {"seconds": round(usage.seconds, 2), "processor seconds": round(usage.processor_seconds, 2)}
    return measured(folder, test) | ranked | {"MB": round(size / 1e6, 1)} | taken


def cells(measures):
    """Return the cells of a table below `COLUMNS`."""
    ranked = (" / ".join(f"{measures[f'{name}@{k}']:.2f}" for k in KS) for name in ("P", "PSP"))
    return *ranked, f"{measures['log_loss']:.4f}", f"{measures['ECE@5']:.4f}"


class Rows:
    """A table whose rows are printed, and written to a JSON file if its path is given, as they come."""

    def __init__(self, path, *columns):
        self._path, self._rows, self._table = path, [], harness.Table(*columns)

    def add(self, row, *shown):
        """Add a row, of which these cells are shown."""
        self._table.row(*shown)
        self._rows.append(row)
        harness.write_json(self._path, {"rows": self._rows})

    def end(self, summary, shown):
        """Add a summary, which is shown as a line."""
        click.echo(f"\n{shown}")
        harness.write_json(self._path, {"rows": self._rows, "summary": summary})


# ---- Commands


@click.group()
def main():
    """Compare learning on with training anew."""


def comparison(command):
    """Make a function a command that gets the training and the test points of DATA, `Runs` and a random generator."""

    @functools.wraps(command)
    def called(data, seed, chosen, keep, **options):
        names = next((names for names in FILES if all((data / name).is_file() for name in names)), FILES[0])
        if not harness.has_data(data, names):
            return
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            runs = Runs({"seed": seed} | chosen, folder, Path(keep or folder / "anew"))
            runs.keep.mkdir(parents=True, exist_ok=True)
            train, test = (Points.read(data / name) for name in names)
            command(train, test, runs, np.random.default_rng(seed), **options)

    for option in (
        harness.json_option,
        click.option("--keep", type=click.Path(file_okay=False), help="Keep models trained anew in this folder."),
        harness.set_option,
        click.option("--seed", default=0, show_default=True),
        click.argument("data", type=click.Path(path_type=Path)),
    ):
        called = option(called)
    return main.command()(called)


@comparison
@click.option("--order", type=click.Choice(["file", "labels", "random"]), default="file", show_default=True)
def batches(train, test, runs, random, order, as_json):
    """Learn the last fifth of DATA in four batches, beside training anew."""
    start = int(FIRST * train.N)
    known = np.sort(random.choice(start, min(start, KNOWN), replace=False))
    places = np.arange(train.N)
    if order == "random":
        places = random.permutation(train.N)
    elif order == "labels":
        labels = train.label_lists()
        places[start:] = sorted(places[start:], key=lambda place: (not labels[place], sorted(labels[place])[:1]))
    first = train.rows(places[known])
    ends = start + np.round((train.N - start) * np.arange(BATCHES + 1) / BATCHES).astype(int)
    model = runs.folder / "learned"
    columns = "batch", "model", *COLUMNS, "first P@1 / P@3 / P@5", "MB", "seconds", "processor seconds"
    rows, goals, pairs = Rows(as_json, *columns), SORTED_GOALS if order == "labels" else GOALS, []

    def add(batch, name, folder, usage):
        found = measured_in(folder, test, first, usage)
        of_first = " / ".join(f"{found[f'first P@{k}']:.2f}" for k in KS)
        row = {"batch": batch, "model": name} | found
        taken = (f"{found[column]:.1f}" for column in columns[-3:])
        rows.add(row, batch, name, *cells(found), of_first, *taken)
        return found

    add(0, "first part", model, runs.train(train.rows(places[:start]), model))
    for batch in range(1, BATCHES + 1):
        usage = runs.learn(train.rows(places[ends[batch - 1] : ends[batch]]), model)
        learned = add(batch, "learned", model, usage)
        anew = add(batch, "anew", *runs.anew(train.rows(places[: ends[batch]])))
        pairs.append((learned, anew))
    rows.end(*judged(largest_losses(pairs, goals), goals))


def largest_losses(pairs, names):
    """Return the largest loss of each measure, given pairs of measures: those of learning and of training anew."""
    return {name: max(loss(name, learned[name], anew[name]) for learned, anew in pairs) for name in names}


def loss(name, learned, anew):
    """Return how much worse a measure is: a difference, or a share of that of training anew."""
    if "seconds" in name:
        return learned / anew
    if name.startswith("PSP"):
        return 1 - learned / anew
    if name == "log_loss":
        return learned / anew - 1
    return learned - anew if name == "ECE@5" else anew - learned


def judged(largest, goals):
    """Return the largest losses with the goals and whether they are met, by name, and the same as a line."""
    found = {
        name: {"largest": round(value, 4), "goal": goals[name], "met": value <= goals[name]}
        for name, value in largest.items()
    }
    verdicts = (
        f"{name} {own['largest']:g} of {own['goal']:g} {'met' if own['met'] else 'MISSED'}"
        for name, own in found.items()
    )
    return found, "largest losses: " + ", ".join(verdicts)


@comparison
@click.option("--calls", default=20, show_default=True, help="Most calls of each size.")
def sizes(train, test, runs, random, calls, as_json):
    """Learn points of DATA in calls of several sizes, in memory."""
    tenth, places = train.N // 10, random.permutation(train.N)
    first, rest = train.rows(places[:-tenth]), places[-tenth:]
    trained = xmlgp.train(first.features, labels=first.labels, settings=runs.settings)
    sizes = [size for size in CALL_SIZES if size < tenth] + [tenth]
    ends = sorted({min(size * calls, tenth) for size in sizes})
    rows = Rows(as_json, "points", "model", *COLUMNS, "seconds of a call", "seconds of the next prediction")
    learned, pairs = [], []

    def add(points, name, model, call="", prediction=""):
        found = {"points": points, "model": name} | measured(model, test) | {"call": call, "prediction": prediction}
        rows.add(found, points, name, *cells(found), call, prediction)
        return found

    add(0, "first part", trained)
    for size in sizes:
        model, seconds, end = trained, [], min(size * calls, tenth)
        for start in range(0, end, size):
            points = train.rows(rest[start : min(start + size, end)])
            began = time.perf_counter()
            model = xmlgp.learn(model, points.features, labels=points.labels)
            between = time.perf_counter()
            list(xmlgp.predict(model, points.features[:1]))
            seconds.append((between - began, time.perf_counter() - between))
            if start + points.N in ends:
                medians = np.round(np.median(seconds, axis=0), 4).tolist()
                learned.append(add(start + points.N, f"calls of {size}", model, *medians))
    for end in ends:
        anew = add(end, "anew", runs.anew(train.rows(np.concatenate([places[:-tenth], rest[:end]])))[0])
        pairs += [(own, anew) for own in learned if own["points"] == end]
    largest = largest_losses(pairs, MEASURES) | {"seconds of a call of 1": learned[0]["call"]}
    rows.end(*judged(largest, GOALS | {"seconds of a call of 1": CALL_GOAL}))


@comparison
@click.option("--labels", "count", default=3, show_default=True, help="Labels to choose.")
def one_label(train, test, runs, random, count, as_json):
    """Learn batches of DATA of which all points have one label, in memory."""
    most = max(ONE_LABEL_SIZES)
    by_label = train.label_lists()
    counts = Counter(label for own in by_label for label in own)
    able = [label for label, points in counts.most_common() if points >= 2 * most]
    if not able:
        raise click.ClickException(f"no label has {2 * most} training points")
    chosen = [able[place] for place in np.unique(np.linspace(0, len(able) - 1, count).astype(int))]
    having = {label: [place for place, own in enumerate(by_label) if label in own] for label in chosen}
    batches = {label: random.choice(places, most, replace=False) for label, places in having.items()}
    others = np.setdiff1d(np.arange(train.N), np.concatenate(list(batches.values())))
    first = train.rows(others)
    trained = xmlgp.train(first.features, labels=first.labels, settings=runs.settings)
    rows = Rows(as_json, "label", "points", "test points", "before", "learned", "anew")
    for label, batch in batches.items():
        has = np.array([label in own for own in test.label_lists()])
        for size in ONE_LABEL_SIZES:
            points = train.rows(batch[:size])
            models = {
                "before": trained,
                "learned": xmlgp.learn(trained, points.features, labels=points.labels),
                "anew": runs.anew(train.rows(np.sort(np.concatenate([others, batch[:size]]))))[0],
            }
            found = {name: probabilities(model, test, label) for name, model in models.items()}
            for which, name in (~has, "without"), (has, "with"):
                means = {model: round(float(p[which].mean()), 5) for model, p in found.items()}
                rows.add({"label": label, "points": size, "test": name} | means, label, size, name, *means.values())


def probabilities(model, test, label):
    """Return the probability that a model gives one label for each test point."""
    return xmlgp.predict(model, test.features, only=[label], k=1, output="probability").matrix().sum(axis=1)


@comparison
@click.option("--sample", type=click.IntRange(1), help="Use so many random training points.  [default: all]")
@click.option("--count", default=50, show_default=True, help="Labels to draw.")
@click.option("--points", default=20, show_default=True, help="Points of each label in the batch.")
def labels(train, test, runs, random, sample, count, points, as_json):
    """Rank labels that came with a batch of DATA, which are numbers, beside the same labels known from the start."""
    if not sp.issparse(train.labels):
        raise click.ClickException("new labels need train.txt and test.txt")
    if sample:
        train = train.rows(np.sort(random.choice(train.N, min(sample, train.N), replace=False)))
    counts, tested = (part.labels.sum(axis=0) for part in (train, test))
    able = np.flatnonzero((counts >= 2 * points) & (counts <= 20 * points) & (tested >= 5))
    chosen = np.sort(random.choice(able, min(count, len(able)), replace=False))
    by_label = train.labels[:, chosen].tocsc()
    having = np.split(by_label.indices, by_label.indptr[1:-1])
    kept = np.unique(np.concatenate([random.choice(own, points, replace=False) for own in having]))
    # The other points with these labels are left out.
    others = np.setdiff1d(np.arange(train.N), by_label.indices)
    batch = np.sort(np.concatenate([kept, random.choice(others, len(kept), replace=False)]))
    first = np.setdiff1d(others, batch)
    everything = train.rows(np.sort(np.concatenate([first, batch])))
    wanted = test.labels[:, chosen].sum(axis=1) > 0
    with_labels, without = test.rows(wanted), test.rows(~wanted)
    p = propensities(everything.labels)[chosen]
    new = "new labels P@1 / P@3 / P@5", "PSP@1 / PSP@3 / PSP@5", "% in the first five of all"
    rows = Rows(as_json, "model", *new, *(f"all {name}" for name in COLUMNS))

    def add(name, model):
        found = {"new": new_label_measures(model, with_labels, chosen, p), "all": measured(model, test)}
        shown = (" / ".join(f"{found['new'][f'{kind}@{k}']:.2f}" for k in KS) for kind in ("P", "PSP"))
        rows.add({"model": name} | found, name, *shown, f"{found['new']['recall']:.1f}", *cells(found["all"]))

    model, again = runs.folder / "learned", runs.folder / "again"
    runs.train(train.rows(first), model)
    before = utilities(model, without)
    runs.learn(train.rows(batch), model)
    change = utilities(model, without) - before
    add("learned", model)
    add("anew", runs.anew(everything)[0])
    runs.train(everything, again, seed=runs.settings["seed"] + 1)
    add("again", again)
    known = np.setdiff1d(train.rows(first).labels.indices, chosen)
    change, before = np.abs(change[:, known]), before[:, known]
    summary = {
        "labels": len(chosen), "new points": len(kept), "batch": len(batch), "first": len(first),
        "change of utilities, median": float(np.median(change)), "99%": float(np.quantile(change, 0.99)),
        "their standard deviation": float(before.std()),
    }  # fmt: skip
    rows.end(summary, ", ".join(f"{name} {value:.4g}" for name, value in summary.items()))


def utilities(model, points, most=500):
    """Return the utilities of all labels for the first points."""
    return xmlgp.predict(model, points.features[:most], k="all", output="utility").matrix().toarray()


def new_label_measures(model, points, chosen, p):
    """Return P@k and PSP@k of some labels, of propensities p, ranked among themselves, and their recall among all."""
    ranked, among_all = (
        xmlgp.predict(model, points.features, only=only, k=max(KS), output="probability").matrix()[:, chosen]
        for only in (chosen.tolist(), None)
    )
    true = points.labels[:, chosen]
    hits = among_all.astype(bool).multiply(true)
    return evaluate_ranking(ranked, true, KS, p) | {"recall": 100 * hits.nnz / true.nnz}


if __name__ == "__main__":
    main()
