"""Where precision is lost: the default recipe with one choice changed at a time, on points held out of training.

    python benchmarks/precision.py [--data DIR ...] [--only PATTERN ...] [--seeds 2] [--folds 4] [--fold-count 1]
        [--set NAME=VALUE ...] [--cache FILE] [--json FILE]

DIR is a folder with train.txt, whose points are dealt into so many folds; the first ones are held out in turn. Test
points are never looked at. For each data set a Markdown table has the measures on the points held out, in percent: mean
and, over the seeds, standard deviation; and the seconds of preprocessing and training. Columns with a Δ are differences
to the default on the same points with the same seeds, and their standard errors: over points, of each point's
difference, averaged over the seeds. Differences of more than two standard errors are bold; the others may be noise. Of
dozens of differences one or two are bold by chance.

With --cache what was predicted is kept in FILE, and what is there already is not trained again. It knows the data, the
split and the settings, but not the program: name another file when that has changed. Settings of --set hold for every
variant, the default as well, where the variant does not say otherwise.
"""

import dataclasses
import json
import time
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import click
import harness
import numpy as np
from peers import TOP

from xmlgp.data.catalogue import load_catalogue
from xmlgp.data.dataset import Dataset
from xmlgp.data.locate import locate
from xmlgp.data.repository_format import read_dataset
from xmlgp.data.streams import open_output
from xmlgp.errors import NumericalError, XmlgpError
from xmlgp.metrics.propensity import DEFAULT_A, DEFAULT_B, propensities
from xmlgp.mlgpf.predictor import MLGPFPredictor
from xmlgp.mlgpf.settings import MLGPFSettings

__all__ = ["MEASURES", "VARIANTS", "Variant", "by_point", "compare"]


class Variant(NamedTuple):
    """A change of the default recipe: its name, the group it is printed in, and settings."""

    name: str
    group: str
    settings: dict


DEFAULT = Variant("default", "", {})

#: To measure another choice, add a line; a group is printed where its first line stands.
VARIANTS = [
    DEFAULT,
    Variant("weighting=idf", "feature weighting", {"weighting": "idf"}),
    Variant("weighting=unit", "feature weighting", {"weighting": "unit"}),
    Variant("weighting=none", "feature weighting", {"weighting": "none"}),
    Variant("subspace-500", "inducing inputs", {"inducing": "subspace", "basis_size": 500}),
    Variant("subspace-1000", "inducing inputs", {"inducing": "subspace", "basis_size": 1000}),
    Variant("start=kmeans", "inducing inputs", {"inducing_start": "kmeans"}),
    Variant("fixed", "inducing inputs", {"inducing_fixed": True}),
    Variant("inducing=50", "inducing inputs", {"inducing_count": 50}),
    Variant("inducing=100", "inducing inputs", {"inducing_count": 100}),
    Variant("inducing=500", "inducing inputs", {"inducing_count": 500}),
    Variant("kernel=se", "kernel", {"kernel": "se"}),
    Variant("kernel=se+linear", "kernel", {"kernel": "se+linear"}),
    Variant("no-ard", "kernel", {"ard": False}),
    Variant("posterior=diagonal", "posterior", {"posterior": "diagonal"}),
    Variant("posterior=cholesky", "posterior", {"posterior": "cholesky"}),
    Variant("start=random", "start", {"start": "random"}),
    Variant("no-label-weights", "label weights", {"label_weights": False}),
    Variant("label-weights", "label weights", {"label_weights": True}),
    Variant("no-regression", "regression", {"regression_points": 0}),
    Variant("validation=0", "stopping", {"validation": 0}),
    Variant("no-refit", "stopping", {"refit": False}),
    Variant("factors=30", "factors", {"factors": 30}),
    Variant("factors=50", "factors", {"factors": 50}),
    Variant("factors=200", "factors", {"factors": 200}),
    Variant("epochs=10", "optimisation", {"epochs": 10}),
    Variant("epochs=20", "optimisation", {"epochs": 20}),
    Variant("epochs=80", "optimisation", {"epochs": 80}),
    Variant("batch=250", "optimisation", {"batch_size": 250}),
    Variant("batch=1000", "optimisation", {"batch_size": 1000}),
    Variant("rate=0.01", "optimisation", {"learning_rate": 0.01}),
    Variant("rate=0.005", "optimisation", {"learning_rate": 0.005}),
]

MEASURES = ("P@1", "P@3", "P@5", "PSP@5", "nDCG@5")

#: Where data sets are looked for that are not named.
FOLDERS, USUAL = ("data", "../shared/datasets"), ("bibtex", "delicious")

#: Differences of more standard errors than this are bold.
NOTABLE = 2


class Fold(NamedTuple):
    """Points to train on and points held out.

    `split` tells the fold from others, as a mapping that JSON keeps; `weights` are inverse propensities, K.
    """

    split: dict
    train: Dataset
    held_out: Dataset
    weights: np.ndarray


# ---- Splits


def make_folds(dataset, folds, count):
    """Return the first of the folds into which points are dealt, the same ones whatever the seed of a training.

    Parameters
    ----------
    dataset : Dataset
    folds, count : int
        How many there are, and how many of them are returned.

    Raises
    ------
    XmlgpError
        Where no point held out has a label.
    """
    entry = load_catalogue().find_by_shape(dataset.N, dataset.D, dataset.K)
    known = entry and entry.propensity
    a, b = (known.A, known.B) if known else (DEFAULT_A, DEFAULT_B)
    content = dataset.fingerprint
    place = np.random.default_rng(0).permutation(dataset.N) % folds
    made = []
    for number in range(count):
        train, held_out = dataset.rows(place != number), dataset.rows(place == number)
        if not held_out.labels.nnz:
            raise XmlgpError(f"of {dataset.N} points in {folds} folds none that is held out has a label")
        split = {"data": content, "folds": folds, "fold": number}
        made.append(Fold(split, train, held_out, 1 / propensities(train.labels, a, b)))
    return made


# ---- Measures


def by_point(predicted, labels, weights):
    """Return `MEASURES` of single points in percent, whose means are those of `evaluate_ranking`.

    PSP@5 is a quotient of sums over points, the lower one the same for all rankings; each point has its share of the
    upper one, divided by the mean of the lower one.

    Parameters
    ----------
    predicted : ndarray of int, N×k
        The k ≤ 5 best labels of each point, the best first.
    labels : csr_array of bool, N×K
        The true labels.
    weights : ndarray, K
        Inverse propensities.

    Returns
    -------
    ndarray, n×5
        Of the n points that have a label.
    """
    N, K = labels.shape
    counts = np.diff(labels.indptr)
    points = np.repeat(np.arange(N), counts)
    hits = np.isin(predicted + K * np.arange(N)[:, None], labels.indices + K * points)
    discounts = 1 / np.log2(np.arange(TOP) + 2)
    ideal_dcg = np.cumsum(discounts)[np.minimum(np.maximum(counts, 1), TOP) - 1]
    # The greatest weights first within each point.
    best = np.lexsort((-weights[labels.indices], points))
    first = np.arange(labels.nnz) - np.repeat(labels.indptr[:-1], counts) < TOP
    ideal_psp = weights[labels.indices[best[first]]].sum() / np.count_nonzero(counts)
    columns = [hits[:, :k].sum(axis=1) / k for k in (1, 3, 5)]
    columns.append((hits * weights[predicted]).sum(axis=1) / ideal_psp)
    columns.append(hits @ discounts[: hits.shape[1]] / ideal_dcg)
    return 100 * np.stack(columns, axis=1)[counts > 0]


def compare(runs, usual):
    """Return what runs of a variant tell beside those of the default.

    Parameters
    ----------
    runs, usual : ndarray, S×n×5
        Measures with S seeds on the same n points.

    Returns
    -------
    dict of str to list of float
        Five each, one a measure:
        `mean`, its standard `deviation` over seeds, the `difference` to the default and its standard `error` over
        points.
    """
    paired = (runs - usual).mean(axis=0)
    seeds, points = runs.shape[:2]
    return {
        "mean": runs.mean(axis=(0, 1)).tolist(),
        "deviation": runs.mean(axis=1).std(axis=0, ddof=min(1, seeds - 1)).tolist(),
        "difference": paired.mean(axis=0).tolist(),
        "error": (paired.std(axis=0, ddof=min(1, points - 1)) / points**0.5).tolist(),
    }


# ---- Runs


def predict(fold, settings):
    """Return the best labels of the points held out, N×k, and the seconds of training."""
    harness.warm_up(settings)
    start = time.perf_counter()
    model, _ = harness.fit(fold.train, settings)
    seconds = time.perf_counter() - start
    k = min(TOP, fold.train.K)
    scores = MLGPFPredictor(*model, fold.train.D).top(fold.held_out.features, k)
    return np.concatenate([block.labels.reshape(-1, k) for block in scores]), seconds


class Runs:
    """Finished runs, in a JSON file where one is given.

    Parameters
    ----------
    path : path or None
        The file; made where missing.

    Raises
    ------
    XmlgpError
        Where it holds something else.
    """

    def __init__(self, path):
        self._path, self._runs = path, []
        if path and Path(path).exists():
            try:
                self._runs = json.loads(Path(path).read_text(encoding="utf-8"))["runs"]
            except (ValueError, LookupError, TypeError):
                raise XmlgpError(f"{path}: this is no cache of runs; name another file") from None

    def find(self, split, settings):
        """Return a run on a split of data with these settings, or None.

        Settings that did not exist at the time of the run were at what is their default now.
        """
        wanted, usual = dataclasses.asdict(settings), dataclasses.asdict(MLGPFSettings())
        return next((r for r in self._runs if r["split"] == split and usual | r["settings"] == wanted), None)

    def add(self, split, settings, result):
        """Keep and return a run."""
        run = {"split": split, "settings": dataclasses.asdict(settings)} | result
        self._runs.append(run)
        if self._path:
            with open_output(self._path) as stream:
                stream.write(json.dumps({"runs": self._runs}).encode() + b"\n")
        return run


def run(fold, settings, runs):
    """Return a run, one of those that are there or a new one.

    Raises
    ------
    NumericalError
        Where training diverges, now or then.
    """
    found = runs.find(fold.split, settings)
    if not found:
        try:
            labels, seconds = predict(fold, settings)
            result = {"labels": labels.tolist(), "seconds": seconds}
        except NumericalError as error:
            result = {"failed": str(error)}
        found = runs.add(fold.split, settings, result)
    if "failed" in found:
        raise NumericalError(found["failed"])
    return found


def measure(folds, seeds, runs):
    """Return the measures of a variant, S×n×5, and its mean seconds.

    Parameters
    ----------
    folds : list of Fold
        With n points held out, in all, that have a label.
    seeds : list of MLGPFSettings
        Of S trainings that differ in their seeds.
    runs : Runs
    """
    values, seconds = [], []
    for settings in seeds:
        finished = [run(fold, settings, runs) for fold in folds]
        pairs = zip(finished, folds, strict=True)
        values.append([by_point(np.array(one["labels"]), fold.held_out.labels, fold.weights) for one, fold in pairs])
        seconds += [one["seconds"] for one in finished]
    return np.array([np.concatenate(of_folds) for of_folds in values]), float(np.mean(seconds))


# ---- Tables


def line(cells):
    """Return a line of a Markdown table."""
    return "| " + " | ".join(cells) + " |"


def table_row(variant, result):
    """Return the line of a variant: empty where it failed, without differences where it is the default."""
    start, width = [variant.group, variant.name], len(MEASURES)
    if "failed" in result:
        return line([*start, *[""] * 2 * width, f"failed {result['failed']}"])
    spread = "{:.2f} ± {:.2f}" if result["seeds"] > 1 else "{:.2f}"
    means = [spread.format(*pair) for pair in zip(result["mean"], result["deviation"], strict=True)]
    changes = [change(*pair) for pair in zip(result["difference"], result["error"], strict=True)]
    return line([*start, *means, *([""] * width if variant == DEFAULT else changes), f"{result['seconds']:.1f}"])


def change(difference, error):
    """Return the text of a difference to the default."""
    mark = "**" if abs(difference) > NOTABLE * error else ""
    return f"{mark}{difference:+.2f}{mark} ± {error:.2f}"


def report(data, variants, chosen, seeds, folds, fold_count, runs):
    """Print the table of a data set and return its numbers, by name of the variant."""
    dataset = read_dataset(locate(data, "train"), cache=False)
    # Before the first training, as a setting that is not allowed should not come up after an hour.
    settings = {
        variant.name: [
            harness.resolve_settings("default", dataset, chosen | variant.settings | {"seed": seed})
            for seed in range(seeds)
        ]
        for variant in variants
    }
    made = make_folds(dataset, folds, fold_count)
    held_out = sum(fold.held_out.N for fold in made)
    print(f"{data.name}: {held_out} of {dataset.N} points held out, {fold_count} of {folds} folds, {seeds} seeds\n")
    print(line(["group", "variant", *MEASURES, *(f"Δ {name}" for name in MEASURES), "seconds"]))
    print(line(["---"] * (3 + 2 * len(MEASURES))), flush=True)
    results = {}
    for variant in variants:
        try:
            values, seconds = measure(made, settings[variant.name], runs)
            if variant == DEFAULT:
                usual = values
            result = compare(values, usual) | {"seeds": seeds, "seconds": seconds}
        except NumericalError as error:
            if variant == DEFAULT:
                raise
            result = {"failed": str(error)}
        print(table_row(variant, result), flush=True)
        results[variant.name] = variant._asdict() | result
    print()
    return results


# ---- Options


def choose(patterns):
    """Return the default and the variants whose names match one of the patterns, those of a group together."""
    unmatched = [p for p in patterns if not any(fnmatchcase(variant.name, p) for variant in VARIANTS)]
    if unmatched:
        raise click.UsageError(f"{unmatched[0]} matches no variant; there are {', '.join(v.name for v in VARIANTS)}.")
    groups = [variant.group for variant in VARIANTS]
    chosen = [v for v in VARIANTS if v == DEFAULT or any(fnmatchcase(v.name, p) for p in patterns)]
    return sorted(chosen, key=lambda variant: groups.index(variant.group))


def usual_data():
    """Return the folders of the usual data sets, wherever they are."""
    places = [[Path(folder, name) for folder in FOLDERS] for name in USUAL]
    found = [next((path for path in paths if path.is_dir()), None) for paths in places]
    if None in found:
        paths = places[found.index(None)]
        raise click.UsageError(f"There is neither {' nor '.join(map(str, paths))}; name data sets with --data.")
    return found


_folder = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command(help=__doc__.replace("\n\n", "\n\n\b\n"))
@click.option("--data", "folders", multiple=True, type=_folder, help="A data set.  [default: bibtex and delicious]")
@click.option(
    "--only", "patterns", multiple=True, default=["*"], help="Variants whose names match, beside the default."
)
@click.option("--seeds", type=click.IntRange(1), default=2, show_default=True)
@click.option("--folds", type=click.IntRange(2), default=4, show_default=True, help="Parts that points are dealt into.")
@click.option(
    "--fold-count", type=click.IntRange(1), default=1, show_default=True, help="How many are held out in turn."
)
@click.option("--cache", type=click.Path(dir_okay=False), help="Keep finished runs here, and use those that are there.")
@harness.set_option
@harness.json_option
def main(folders, patterns, seeds, folds, fold_count, cache, chosen, as_json):
    if fold_count > folds:
        raise click.UsageError(f"--fold-count {fold_count} is more than --folds {folds}.")
    variants = choose(patterns)
    try:
        runs = Runs(cache)
        results = {}
        for data in folders or usual_data():
            results[data.name] = report(data, variants, chosen, seeds, folds, fold_count, runs)
        harness.write_json(as_json, results)
    except (OSError, XmlgpError) as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
