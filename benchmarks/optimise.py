"""Labels chosen for a measure of all points: `xmlgp predict --optimise`, beside omikuji's scores by the same rule.

    python benchmarks/optimise.py DATA [DATA ...] [-k 5] [--points 20000] [--models FOLDER] [--set NAME=VALUE ...]
        [--peers NAME,...] [--peers-python PATH] [--json FILE]

DATA is a folder with train.txt and test.txt; other folders are skipped with a message. A Markdown table has the
measures of the test points, the first ones if there are more than `--points`, with their 95 % intervals:

- `top k`: the most probable labels.
- `macro-F1`, `coverage`, `PSP`: the labels that `--optimise` chooses for this measure.
- `macro-F1, Frank–Wolfe`: a weight and an offset of each label, found on the same test points by the Frank–Wolfe method
  from their probabilities. It shows what is possible. An error says so if it finds a choice of higher expected macro-F1
  than `macro-F1` by more than 1 %.
- `macro-F1, from other points`: such weights and offsets, found on a random half of the test points for the other half.
  There, the F1 of each label has one more true point: labels that the half hardly has would be chosen too often.
- The rows of a peer are the first ones by its scores, which are between 0 and 1, but not calibrated. It is trained on
  the features that xmlgp's default weighting gives.

With `--models`, trained models are kept in FOLDER, and used again.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

import click
import harness
import numpy as np
import peers
from many_labels import write_weighted

import xmlgp
from xmlgp.data.repository_format import read_dataset, write_dataset
from xmlgp.metrics.intervals import intervals
from xmlgp.metrics.macro import macro_statistics
from xmlgp.metrics.propensity import estimate_propensities
from xmlgp.metrics.ranking import ranking_statistics
from xmlgp.prediction.label_choice import LISTED, LabelChoice
from xmlgp.prediction.scores_file import Scores, read_scores

#: The rows of a table by what `--optimise` has.
CHOICES = {"macro-F1": "macro-f1", "coverage": "coverage", "PSP": "psp"}

STEPS = 30


def chosen_by(gains, scores, k):
    """Return the k labels of each point that have the highest gains, of those listed."""
    ranks = np.arange(len(gains)) - scores.indptr[scores.points]
    chosen = np.zeros(len(gains), bool)
    chosen[np.lexsort((-gains, scores.points))[ranks < k]] = True
    return scores.where(chosen)


def sums_of(scores):
    """Return the expected hits and the number of points of each label, 2×K."""
    return np.array([np.bincount(scores.labels, weight, scores.K) for weight in (scores.scores, None)])


def expected_f1(sums, true):
    """Return the sum over labels of the F1 of expected counts."""
    return (2 * sums[0] / (sums[1] + true)).sum()


def frank_wolfe(scores, k, more=1e-9):
    """Return weights and offsets of labels, 2×K, by which the best k labels of a point are those for macro-F1@k.

    Each label counts as true of `more` points that it is not chosen for.
    """
    true = sums_of(scores)[0] + more
    sums = sums_of(chosen_by(scores.scores, scores, k))
    fractions = np.linspace(0, 1, 101)
    for _ in range(STEPS):
        rule = slopes(sums, true)
        step = sums_of(apply(rule, scores, k)) - sums
        fraction = max(fractions, key=lambda fraction: expected_f1(sums + fraction * step, true))
        sums = sums + fraction * step
        if not fraction:
            break
    return slopes(sums, true)


def slopes(sums, true):
    """Return the derivatives of the expected F1 by hits, and their negatives by points, 2×K."""
    below = sums[1] + true
    return np.array([2 / below, 2 * sums[0] / below**2])


def apply(rule, scores, k):
    """Return the labels of each point that weights and offsets choose."""
    weights, offsets = rule[:, scores.labels]
    return chosen_by(weights * scores.scores - offsets, scores, k)


def choices(scores, k, propensities):
    """Return the chosen labels of the rows of a table that every tool has."""
    found = {f"top {k}": chosen_by(scores.scores, scores, k)}
    for row, measure in CHOICES.items():
        start = time.perf_counter()
        found[row] = LabelChoice(measure, k, propensities if measure == "psp" else None).of_scores(scores)
        print(f"{row}: {scores.N} points in {time.perf_counter() - start:.2f} s", file=sys.stderr)
    return found


def by_rules(scores, k, ascended):
    """Return the labels that rules of single points choose, compared with those of the ascent."""
    best = apply(frank_wolfe(scores, k), scores, k)
    true = sums_of(scores)[0] + 1e-9
    ours, theirs = (expected_f1(sums_of(found), true) for found in (ascended, best))
    print(f"expected macro-F1, times K: {ours:.2f}, by Frank–Wolfe {theirs:.2f}", file=sys.stderr)
    if theirs > 1.01 * ours:
        raise click.ClickException("Frank–Wolfe finds a better choice.")
    order = np.random.default_rng(0).permutation(scores.N)
    one, two = (rows_of(scores, rows) for rows in np.array_split(order, 2))
    crossed = Scores.stack([apply(frank_wolfe(two, k, 1), one, k), apply(frank_wolfe(one, k, 1), two, k)])
    return {"macro-F1, Frank–Wolfe": best, "macro-F1, from other points": rows_of(crossed, np.argsort(order))}


def rows_of(scores, rows):
    """Return the scores of points in another order."""
    return scores.gather(scores.indptr[rows], np.diff(scores.indptr)[rows])


def measured(scores, labels, k, propensities):
    """Return the measures of a choice with their intervals."""
    statistics = ranking_statistics(scores.matrix, labels, (1, k), propensities)
    statistics |= macro_statistics(scores.matrix, labels, (k,))
    names = [f"macro-F1@{k}", f"coverage@{k}", f"PSP@{k}", f"P@{k}", "P@1"]
    ends = intervals({name: statistics[name] for name in names})
    return {name: [statistics[name].value, *ends[name]] for name in names}


def compare(data, k, points, models, chosen, names, python):
    """Return the measures of each row of a data set."""
    train = read_dataset(data / "train.txt", cache=False)
    test = read_dataset(data / "test.txt", cache=False)
    test = test.rows(slice(0, min(points, test.N)))
    propensities = estimate_propensities(train.labels.sum(axis=0), train.N, train.D).values
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        model = (models or folder) / data.name
        if not (model / "model.json").exists():
            xmlgp.train(data / "train.txt", model, settings=chosen)
        scores = xmlgp.predict(model, test.features.sparse, k=max(LISTED, 4 * k), output="probability")
        scores = scores.named_scores().scores
        rows = choices(scores, k, propensities)
        rows |= by_rules(scores, k, rows["macro-F1"])
        (folder / "first").mkdir()
        os.symlink((data / "train.txt").absolute(), folder / "first" / "train.txt")
        write_dataset(folder / "first" / "test.txt", test)
        write_weighted(folder / "first", folder / "weighted")
        for name in peers.measure(folder / "weighted", names, python, scores=folder, listed=LISTED):
            theirs = read_scores(folder / f"{name}.scores").descending()
            rows |= {f"{name}: {row}": found for row, found in choices(theirs, k, propensities).items()}
    return {row: measured(found, test.labels, k, propensities) for row, found in rows.items()}


def report(name, rows):
    """Print the table of a data set."""
    print(f"{name}:\n")
    cells = [
        [row, *(f"{value:.2f} [{low:.2f}, {min(high, 100):.2f}]" for value, low, high in measures.values())]
        for row, measures in rows.items()
    ]
    harness.print_table(["", *next(iter(rows.values()))], cells)


@click.command(help=__doc__.replace("\n\n", "\n\n\b\n"))
@harness.folders_argument()
@click.option("-k", default=5, show_default=True, help="Labels of each point.")
@click.option("--points", default=20_000, show_default=True, help="Most test points.")
@click.option("--models", type=click.Path(path_type=Path), help="Keep trained models in this folder.")
@harness.set_option
@harness.peers_option(default=["omikuji"])
@harness.peers_python_option
@harness.json_option
def main(folders, k, points, models, chosen, names, peers_python, as_json):
    results = {}
    for data in folders:
        if harness.has_data(data):
            results[data.name] = compare(data, k, points, models, chosen, names, peers_python)
            report(data.name, results[data.name])
    harness.write_json(as_json, results)


if __name__ == "__main__":
    main()
