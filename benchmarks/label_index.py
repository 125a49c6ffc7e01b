"""Recall of the index of labels against points per second.

    python benchmarks/label_index.py MODEL DATA [--points 4096] [--figure FILE.svg] [--json FILE]

MODEL is a model of MLGPF with many labels, and DATA a folder whose test points it predicts in memory, five labels each.
A model without an index gets one, in memory, whose recall is measured on 500 other test points. For each recall that is
asked for, the table has the recall that was found, beside an exact ranking, P@1 and P@5 if the labels are those of the
model, and points per second on all cores, from processor time, so that other work on the machine matters little; the
best of some repeats counts. The figure has recall against points per second.
"""

import time
from pathlib import Path

import click
import harness
import numpy as np

from xmlgp.data.repository_format import read_dataset
from xmlgp.label_index.clusters import LabelIndex
from xmlgp.metrics.ranking import evaluate_ranking
from xmlgp.mlgpf import indexing
from xmlgp.mlgpf.predictor import MLGPFPredictor
from xmlgp.prediction.scores_file import Scores
from xmlgp.runs.trained_model import load
from xmlgp.runtime.threads import core_count

#: Labels of a point.
TOP = 5

RECALLS = (0.8, 0.9, 0.95, 0.98, 0.99, 0.995)


def ranking(predictor, features):
    """Return the best labels of all points."""
    return Scores.stack(list(predictor.top(features, TOP)), predictor.label_count)


def processor_seconds(predictor, features):
    """Return the processor time of a ranking, of all cores together."""
    start = time.process_time()
    ranking(predictor, features)
    return time.process_time() - start


def measure(predictor, dataset, exact, repeats):
    """Return the recall beside an exact ranking, precision, and points per second."""
    found = ranking(predictor, dataset.features)
    shape = dataset.N, -1
    recall = (exact.labels.reshape(shape)[:, :, None] == found.labels.reshape(shape)[:, None]).any(axis=2).mean()
    seconds = min(processor_seconds(predictor, dataset.features) for _ in range(repeats))
    result = {"recall": float(recall), "rate": core_count() * dataset.N / seconds}
    if predictor.label_count == dataset.K:
        precision = evaluate_ranking(found.matrix, dataset.labels, ks=(1, TOP))
        result |= {name: precision[name] for name in ("P@1", f"P@{TOP}")}
    return result


def draw(results, path):
    """Write the figure."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    approximate = [result for name, result in results.items() if name != "exact"]
    axes.plot([result["rate"] for result in approximate], [result["recall"] for result in approximate], marker="o")
    axes.plot(results["exact"]["rate"], 1, marker="s", linestyle="", color="black", label="exact")
    axes.set(xlabel="points per second", ylabel=f"recall of the {TOP} best labels", xscale="log")
    axes.legend()
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


@click.command(help=__doc__.replace("\n\n", "\n\n\b\n"))
@click.argument("model", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("data", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--points", default=4096, show_default=True)
@click.option("--repeats", default=3, show_default=True)
@click.option("--figure", type=click.Path(dir_okay=False, path_type=Path))
@harness.json_option
def main(model, data, points, repeats, figure, as_json):
    trained = load(model)
    dataset = read_dataset(data / "test.txt", cache=False)
    order = np.random.default_rng(0).permutation(dataset.N)
    parameters = trained.parameters
    if LabelIndex.of(parameters) is None:
        measured = dataset.features[np.sort(order[points:][: indexing.MEASURED])]
        parameters = indexing.with_index(trained.settings, trained.preprocessed, parameters, measured)
    dataset = dataset.rows(np.sort(order[:points]))
    predictor = MLGPFPredictor(trained.settings, trained.preprocessed, parameters, dataset.D)
    exact = ranking(predictor, dataset.features)
    predictors = {"exact": predictor} | {f"{recall:g}": predictor.searching(recall) for recall in RECALLS}
    results = {}
    table = harness.Table("asked for", "recall", "P@1", f"P@{TOP}", "points/s")
    for name, searching in predictors.items():
        if searching is not None:
            results[name] = measure(searching, dataset, exact, repeats)
            result = results[name]
            table.row(name, result["recall"], *(result.get(f"P@{k}", "") for k in (1, TOP)), result["rate"])
    if figure:
        draw(results, figure)
    harness.write_json(as_json, results)


if __name__ == "__main__":
    main()
