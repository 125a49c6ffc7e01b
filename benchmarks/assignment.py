"""F1 of assigned labels by a threshold, a fixed number, a tuned rule and the expected F1, beside omikuji.

    python -m benchmarks assignment DATA [DATA ...] [--recipe default] [--set NAME=VALUE ...] [--held-out 0.1]
        [--peers NAME,...] [--json FILE]

DATA is a folder with train.txt and test.txt; other folders are skipped with a message. A Markdown table has the F1 of
the test points, in percent: over all pairs of point and label (micro), the mean over labels (macro) and over points
(point). In parentheses are the threshold or the number of labels; in each column they are those for its own F1.

- `p ≥ 0.5`: the labels whose probability is at least one half.
- `fixed k, best`: the same number of labels for every point, the one that is best on the test points.
- `tuned`: the threshold and the limit that are best on held-out training points, whose probabilities are those of a
  model trained on the other ones. The model of the test points is trained on all training points, as in the other rows.
- `expected F1`: `xmlgp predict --assign`, the labels of highest expected F1 of each point.
- `threshold, best`: the threshold and the limit that are best on the test points. No tuned pair can be better.
- The last row of a peer is the same by its scores: the best threshold and limit on the test points. This favours the
  peer. Only omikuji has scores here, trained on the features that xmlgp's default weighting gives.
"""

import sys
import tempfile
import time
from pathlib import Path

import click
import numpy as np

from benchmarks import harness, peers
from benchmarks.many_labels import write_weighted
from xmlgp.metrics.assignment import evaluate_assignment
from xmlgp.mlgpf.predictor import MLGPFPredictor
from xmlgp.prediction.assignment import AssignmentRule, assign
from xmlgp.prediction.scores_file import Scores, read_scores
from xmlgp.prediction.tuning import LONGEST, METRICS, best_rule
from xmlgp.training.minibatches import hold_out


def top(predictor, points):
    """Return the best labels of points, of which all rules but the expected F1 choose."""
    return Scores.stack(list(predictor.top(points.features, min(LONGEST, points.K), "probability")))


def select(scores, rule):
    """Return the scores of the labels that a rule assigns, of scores listed best first."""
    lengths = np.diff(scores.indptr)
    points = np.repeat(np.arange(scores.N), lengths)
    chosen = np.arange(len(points)) - scores.indptr[points] < (rule.limit or lengths.max())
    if rule.threshold is not None:
        chosen &= scores.scores >= np.float64(rule.threshold)
    return scores.first(np.bincount(points[chosen], minlength=scores.N))


def f1(scores, labels):
    """Return each F1 of assigned labels, in percent, by the name of the metric."""
    measures = evaluate_assignment(scores.matrix, labels)
    return {metric: 100 * measures[measure] for metric, measure in METRICS.items()}


def best_fixed(scores, labels):
    """Return for each metric the best number of labels for every point, with its F1."""
    sizes = range(1, int(np.diff(scores.indptr).max()) + 1)
    measured = {k: f1(select(scores, AssignmentRule(limit=k)), labels) for k in sizes}
    best = {metric: max(sizes, key=lambda k: measured[k][metric]) for metric in METRICS}
    return {metric: [measured[k][metric], f"k={k}"] for metric, k in best.items()}


def tuned(chosen_on, truth, scores, labels):
    """Return for each metric the F1 by the threshold and the limit that are best on other points."""
    found = {}
    for metric in METRICS:
        threshold, limit, _ = best_rule(chosen_on, truth, metric)
        rule = AssignmentRule(threshold=threshold, limit=limit)
        found[metric] = [f1(select(scores, rule), labels)[metric], f"{threshold:.3f}, ≤{limit}"]
    return found


def plain(values):
    return {metric: [value, ""] for metric, value in values.items()}


def compare(data, recipe, chosen, share, names):
    """Return the rows of a data set: for each metric the F1 and how labels were chosen."""
    train, test = harness.read_folder(data)
    others, held = (train.rows(rows) for rows in hold_out(train.N, share, np.random.default_rng(0)))

    def fit(dataset):
        start = time.perf_counter()
        model, _ = harness.fit(dataset, harness.resolve_settings(recipe, dataset, chosen))
        print(f"{data.name}: trained on {dataset.N} points, {time.perf_counter() - start:.0f} s", file=sys.stderr)
        return MLGPFPredictor(*model, dataset.D)

    held_scores = top(fit(others), held)
    predictor = fit(train)
    scores = top(predictor, test)
    start = time.perf_counter()
    expected = Scores.stack(list(assign(predictor, test.features, AssignmentRule(expected_f1=True))))
    print(f"{data.name}: expected F1, {test.N / (time.perf_counter() - start):.0f} points/s", file=sys.stderr)
    rows = {
        "p ≥ 0.5": plain(f1(select(scores, AssignmentRule(0.5)), test.labels)),
        "fixed k, best": best_fixed(scores, test.labels),
        "tuned": tuned(held_scores, held.labels, scores, test.labels),
        "expected F1": plain(f1(expected, test.labels)),
        "threshold, best": tuned(scores, test.labels, scores, test.labels),
    }
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        write_weighted(data, folder / "weighted")
        for name in peers.measure(folder / "weighted", names, scores=folder, listed=LONGEST):
            theirs = read_scores(folder / f"{name}.scores").descending()
            rows[f"{name}: fixed k, best"] = best_fixed(theirs, test.labels)
            rows[f"{name}: threshold, best"] = tuned(theirs, test.labels, theirs, test.labels)
    return rows


def report(name, rows):
    """Print the table of a data set."""
    print(f"{name}:\n")
    cells = [
        [row, *(f"{value:.2f}" + (f" ({choice})" if choice else "") for value, choice in found.values())]
        for row, found in rows.items()
    ]
    harness.print_table(["", *(metric.removeprefix("f1-") for metric in METRICS)], cells)


@click.command(help=__doc__.replace("\n\n", "\n\n\b\n"))
@harness.folders_argument()
@click.option("--recipe", default="default", show_default=True)
@harness.set_option
@click.option("--held-out", "share", default=0.1, show_default=True, help="Share of the training points to tune on.")
@harness.peers_option(default=["omikuji"])
@harness.json_option
def main(folders, recipe, chosen, share, names, as_json):
    results = {}
    for data in folders:
        if harness.has_data(data):
            results[data.name] = compare(data, recipe, chosen, share, names)
            report(data.name, results[data.name])
    harness.write_json(as_json, results)


if __name__ == "__main__":
    main()
