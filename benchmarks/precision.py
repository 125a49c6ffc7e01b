"""Ablations: the default recipe with one choice changed at a time, on points held out from training.

    python -m benchmarks precision --data DIR [--data DIR ...] [--only PATTERN ...] [--seeds 2] [--folds 4]
        [--fold-count 1] [--set NAME=VALUE ...] [--json FILE]

DIR is a folder with train.txt; its points are divided into folds, and the first folds are held out in turn. Test points
are not used. For each data set a Markdown table has measures on the held-out points in percent, mean and standard
deviation over the seeds, and the seconds of preprocessing and training. Columns with a Δ are differences from the
default on the same points with the same seeds, with their standard errors over points. Differences of more than two
standard errors are bold; others may be noise. Among dozens of differences, one or two are bold by chance.

--set applies to every variant, including the default, unless the variant has its own value.
"""

import time
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np

from benchmarks import harness
from benchmarks.peers import TOP
from xmlgp.data.catalogue import load_catalogue
from xmlgp.data.dataset import Dataset
from xmlgp.data.files import locate
from xmlgp.data.formats import read_dataset
from xmlgp.metrics.propensity import DEFAULT_A, DEFAULT_B, propensities_of_counts
from xmlgp.models.mlgpf.predictor import MLGPFPredictor
from xmlgp.runtime.errors import NumericalError, XmlgpError

__all__ = ["MEASURES", "VARIANTS", "Variant", "by_point", "compare"]


class Variant(NamedTuple):
    """A change of the default recipe: its name, its group in the table, and settings."""

    name: str
    group: str
    settings: dict


DEFAULT = Variant("default", "", {})

#: Settings of variants without effect in weight space, which is the default; their own baseline is the variant `free`.
FREE = {"inducing": "free"}

#: To measure another choice, add a line. A group is printed in the position of its first variant.
VARIANTS = [
    DEFAULT,
    Variant("weighting=idf", "feature weighting", {"weighting": "idf"}),
    Variant("weighting=unit", "feature weighting", {"weighting": "unit"}),
    Variant("weighting=none", "feature weighting", {"weighting": "none"}),
    Variant("free", "inducing inputs", FREE),
    Variant("subspace-500", "inducing inputs", {"inducing": "subspace", "basis_size": 500}),
    Variant("subspace-1000", "inducing inputs", {"inducing": "subspace", "basis_size": 1000}),
    Variant("start=kmeans", "inducing inputs", FREE | {"inducing_start": "kmeans"}),
    Variant("fixed", "inducing inputs", FREE | {"inducing_fixed": True}),
    Variant("inducing=50", "inducing inputs", FREE | {"inducing_count": 50}),
    Variant("inducing=100", "inducing inputs", FREE | {"inducing_count": 100}),
    Variant("inducing=500", "inducing inputs", FREE | {"inducing_count": 500}),
    Variant("kernel=se", "kernel", FREE | {"kernel": "se"}),
    Variant("kernel=se+linear", "kernel", FREE | {"kernel": "se+linear"}),
    Variant("no-ard", "kernel", FREE | {"ard": False}),
    Variant("posterior=diagonal", "posterior", FREE | {"posterior": "diagonal"}),
    Variant("posterior=cholesky", "posterior", FREE | {"posterior": "cholesky"}),
    Variant("start=random", "start", FREE | {"start": "random"}),
    Variant("no-label-weights", "label weights", {"label_weights": False}),
    Variant("label-weights", "label weights", {"label_weights": True}),
    Variant("no-calibration", "calibration", {"calibration": False}),
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

#: Differences are bold beyond this number of standard errors.
NOTABLE = 2


class Fold(NamedTuple):
    """Training points and held-out points, and inverse propensities, K."""

    train: Dataset
    held_out: Dataset
    weights: np.ndarray


# ---- Splits


def make_folds(dataset, folds, count):
    """Divide points into folds and return the first ones; the division does not depend on the training seed."""
    entry = load_catalogue().find_by_shape(dataset.N, dataset.D, dataset.K)
    known = entry and entry.propensity
    a, b = (known.A, known.B) if known else (DEFAULT_A, DEFAULT_B)
    place = np.random.default_rng(0).permutation(dataset.N) % folds
    made = []
    for number in range(count):
        train, held_out = dataset.rows(place != number), dataset.rows(place == number)
        if not held_out.labels.nnz:
            raise XmlgpError(f"no held-out point has a label, of {dataset.N} points in {folds} folds")
        made.append(Fold(train, held_out, 1 / propensities_of_counts(train.labels.sum(axis=0), train.N, a, b)))
    return made


# ---- Measures


def by_point(predicted, labels, weights):
    """Return `MEASURES` in percent of the points, N×5, with the same means as `ranking_statistics`.

    `predicted` has the k ≤ 5 best labels of each point, best first, N×k; weights are inverse propensities, K. PSP@5 is
    a quotient of sums over points with a denominator that does not depend on the ranking. A point's value is its term
    of the numerator, divided by the mean term of the denominator.
    """
    N, K = labels.shape
    counts = np.diff(labels.indptr)
    points = np.repeat(np.arange(N), counts)
    hits = np.isin(predicted + K * np.arange(N)[:, None], labels.indices + K * points)
    discounts = 1 / np.log2(np.arange(TOP) + 2)
    ideal_dcg = np.cumsum(discounts)[np.minimum(np.maximum(counts, 1), TOP) - 1]
    # Descending weights within each point.
    best = np.lexsort((-weights[labels.indices], points))
    first = np.arange(labels.nnz) - np.repeat(labels.indptr[:-1], counts) < TOP
    ideal_psp = weights[labels.indices[best[first]]].sum() / N
    columns = [hits[:, :k].sum(axis=1) / k for k in (1, 3, 5)]
    columns.append((hits * weights[predicted]).sum(axis=1) / ideal_psp)
    columns.append(hits @ discounts[: hits.shape[1]] / ideal_dcg)
    return 100 * np.stack(columns, axis=1)


def compare(runs, baseline):
    """Compare the runs of a variant with those of the default, both S×n×5 with S seeds on the same n points.

    For each measure: the `mean`, its standard `deviation` over seeds, the `difference` from the default and its
    standard `error` over points.
    """
    paired = (runs - baseline).mean(axis=0)
    seeds, points = runs.shape[:2]
    return {
        "mean": runs.mean(axis=(0, 1)).tolist(),
        "deviation": runs.mean(axis=1).std(axis=0, ddof=min(1, seeds - 1)).tolist(),
        "difference": paired.mean(axis=0).tolist(),
        "error": (paired.std(axis=0, ddof=min(1, points - 1)) / points**0.5).tolist(),
    }


# ---- Runs


def run(fold, settings):
    """Train, and return the measures of the held-out points, n×5, and the seconds of training."""
    harness.warm_up(settings)
    start = time.perf_counter()
    model, _ = harness.fit(fold.train, settings)
    seconds = time.perf_counter() - start
    k = min(TOP, fold.train.K)
    scores = MLGPFPredictor(*model, fold.train.D).top(fold.held_out.features, k)
    labels = np.concatenate([block.labels.reshape(-1, k) for block in scores])
    return by_point(labels, fold.held_out.labels, fold.weights), seconds


def measure(folds, seeds):
    """Return the measures of a variant, S×n×5, and its mean seconds."""
    runs = [[run(fold, settings) for fold in folds] for settings in seeds]
    values = np.array([np.concatenate([values for values, _ in of_folds]) for of_folds in runs])
    return values, float(np.mean([seconds for of_folds in runs for _, seconds in of_folds]))


# ---- Tables


def table_row(variant, result):
    """Return the row of a variant: empty if it failed, without differences for the default."""
    first, width = [variant.group, variant.name], len(MEASURES)
    if "failed" in result:
        return [*first, *[""] * 2 * width, f"failed {result['failed']}"]
    spread = "{:.2f} ± {:.2f}" if result["seeds"] > 1 else "{:.2f}"
    means = [spread.format(*pair) for pair in zip(result["mean"], result["deviation"], strict=True)]
    changes = [change(*pair) for pair in zip(result["difference"], result["error"], strict=True)]
    return [*first, *means, *([""] * width if variant == DEFAULT else changes), f"{result['seconds']:.1f}"]


def change(difference, error):
    """Format a difference from the default."""
    mark = "**" if abs(difference) > NOTABLE * error else ""
    return f"{mark}{difference:+.2f}{mark} ± {error:.2f}"


def report(data, variants, chosen, seeds, folds, fold_count):
    """Print the table of a data set and return its numbers by the name of the variant."""
    dataset = read_dataset(locate(data, "train"))
    # Resolved before the first training, so that an invalid setting does not fail after an hour.
    settings = {
        variant.name: [
            harness.resolve_settings("default", dataset, chosen | variant.settings | {"seed": seed})
            for seed in range(seeds)
        ]
        for variant in variants
    }
    chosen_folds = make_folds(dataset, folds, fold_count)
    held_out = sum(fold.held_out.N for fold in chosen_folds)
    print(f"{data.name}: {held_out} of {dataset.N} points held out, {fold_count} of {folds} folds, {seeds} seeds\n")
    table = harness.Table("group", "variant", *MEASURES, *(f"Δ {name}" for name in MEASURES), "seconds")
    results = {}
    for variant in variants:
        try:
            values, seconds = measure(chosen_folds, settings[variant.name])
            if variant == DEFAULT:
                baseline = values
            result = compare(values, baseline) | {"seeds": seeds, "seconds": seconds}
        except NumericalError as error:
            if variant == DEFAULT:
                raise
            result = {"failed": str(error)}
        table.row(*table_row(variant, result))
        results[variant.name] = variant._asdict() | result
    print()
    return results


# ---- Options


def choose(patterns):
    """Return the default and the variants whose names match a pattern, sorted by group."""
    unmatched = [p for p in patterns if not any(fnmatchcase(variant.name, p) for variant in VARIANTS)]
    if unmatched:
        raise click.UsageError(f"{unmatched[0]} matches no variant; choose from {', '.join(v.name for v in VARIANTS)}.")
    groups = [variant.group for variant in VARIANTS]
    chosen = [v for v in VARIANTS if v == DEFAULT or any(fnmatchcase(v.name, p) for p in patterns)]
    return sorted(chosen, key=lambda variant: groups.index(variant.group))


_folder = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command(help=__doc__.replace("\n\n", "\n\n\b\n"))
@click.option("--data", "folders", multiple=True, required=True, type=_folder, help="A data set.")
@click.option(
    "--only", "patterns", multiple=True, default=["*"], help="Variants to measure besides the default, by name."
)
@click.option("--seeds", type=click.IntRange(1), default=2, show_default=True)
@click.option("--folds", type=click.IntRange(2), default=4, show_default=True, help="Number of folds.")
@click.option(
    "--fold-count", type=click.IntRange(1), default=1, show_default=True, help="Number of folds to hold out in turn."
)
@harness.set_option
@harness.json_option
def main(folders, patterns, seeds, folds, fold_count, chosen, as_json):
    if fold_count > folds:
        raise click.UsageError(f"--fold-count {fold_count} is more than --folds {folds}.")
    variants = choose(patterns)
    try:
        results = {data.name: report(data, variants, chosen, seeds, folds, fold_count) for data in folders}
        harness.write_json(as_json, results)
    except (OSError, XmlgpError) as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
