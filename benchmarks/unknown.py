"""What the mask of unknown labels is worth: models that leave unjudged pairs out, or take them as negative.

    python benchmarks/unknown.py DATA [DATA ...] [--share 0.2 ...] [--model mlgpf ...] [--seeds 1] [--set NAME=VALUE]
        [--json FILE]

DATA is a folder with train.txt and test.txt, such as data/bibtex; other folders are skipped with a message. A share of
all pairs of a training point and a label, drawn at random, is unjudged, and the positive ones among them are hidden.
`unknown` gives the model all unjudged pairs, `negative` none of them, and `all known` has no unjudged pairs. The mask
does not tell which of its pairs were positive. Each draw of the pairs is also the seed of the model.

All measures are over all labels of all test points: precision and PSP in percent, log loss in nats a point, `labels` is
the sum of the probabilities of a point, `AUC` the mean over points, and `CPU s` seconds of processor time, of all cores
together, for training from raw features in memory. Rows are means over the draws, with the standard deviation of P@1
and of the log loss.
"""

import dataclasses
import time
from pathlib import Path

import click
import harness
import numpy as np
import scipy.sparse as sp

import xmlgp
from xmlgp.data.dataset import Dataset
from xmlgp.metrics.auc import multilabel_roc_auc
from xmlgp.metrics.probabilities import log_loss
from xmlgp.metrics.propensity import propensities
from xmlgp.metrics.ranking import evaluate_ranking

#: What the models are given.
CASES = ("all known", "unknown", "negative")

#: Columns of the table beside P@1 and the log loss, which have deviations, and their format.
COLUMNS = {"P@3": ".2f", "P@5": ".2f", "PSP@5": ".2f", "AUC": ".4f", "labels": ".2f", "CPU s": ".0f"}


def hide(train, share, seed):
    """Return the training data without the positives of a random share of all pairs, and with these pairs as unknown.

    Rows are drawn one by one, so memory grows with the unjudged pairs alone.
    """
    random = np.random.default_rng(seed)
    rows = [np.flatnonzero(random.random(train.K) < share) for _ in range(train.N)]
    indptr = np.cumsum([0, *map(len, rows)])
    indices = np.concatenate(rows).astype(np.int32)
    unjudged = sp.csr_array((np.ones(len(indices), bool), indices, indptr), shape=(train.N, train.K))
    hidden = train.labels.multiply(unjudged).tocsr().astype(bool)
    labels = sp.csr_array(train.labels.astype(np.int8) - hidden.astype(np.int8)).astype(bool)
    labels.eliminate_zeros()
    return Dataset(train.features, labels, unjudged), hidden.nnz


def measure(train, test, truth, settings):
    """Train a model and return its measures on the test points by name; PSP has the propensities of `truth`."""
    began = time.process_time()
    model = xmlgp.train(train, settings=settings)
    seconds = time.process_time() - began
    probabilities = model.predictor.score(test.features, "probability")[0]
    whole = harness.all_entries(probabilities)
    top = (
        np.argpartition(-probabilities, 10, axis=1)[:, :10] if test.K > 10 else np.tile(np.arange(test.K), (test.N, 1))
    )
    scores = np.take_along_axis(probabilities, top, axis=1)
    ranked = sp.csr_array((scores.ravel(), top.ravel(), np.arange(0, top.size + 1, top.shape[1])), whole.shape)
    measures = evaluate_ranking(ranked, test.labels, propensities=propensities(truth.labels))
    return {
        **{name: measures[name] for name in ("P@1", "P@3", "P@5", "PSP@5")},
        "log_loss": log_loss(whole, test.labels) * test.K,
        "AUC": multilabel_roc_auc(whole, test.labels)["AUC_instance"],
        "labels": float(probabilities.sum(dtype=np.float64) / test.N),
        "CPU s": seconds,
    }


def compare(data, share, model, chosen, seeds):
    """Print and return the measures of all cases on a data set, a list for each with an entry for each draw."""
    train, test = harness.read_folder(data)
    results = {case: [] for case in CASES}
    hidden_count = 0
    for seed in range(seeds):
        masked, hidden_count = hide(train, share, seed)
        settings = {"model": model, "seed": seed} | chosen
        given = {"all known": train, "unknown": masked, "negative": dataclasses.replace(masked, unknown=None)}
        for case in CASES:
            results[case].append(measure(given[case], test, train, settings))
    title = f"{data.name}, {model}, {share:.0%} unjudged ({hidden_count} of {train.labels.nnz} labels hidden)"
    table = harness.Table(title, "P@1", "log loss", *COLUMNS)
    for case, runs in results.items():
        columns = {name: np.array([run[name] for run in runs]) for name in runs[0]}
        spread = [f"{columns['P@1'].mean():.2f} ± {columns['P@1'].std():.2f}"]
        spread.append(f"{columns['log_loss'].mean():.3f} ± {columns['log_loss'].std():.3f}")
        table.row(case, *spread, *(format(columns[name].mean(), style) for name, style in COLUMNS.items()))
    print(f"\nA test point has {test.labels.nnz / test.N:.2f} labels.\n", flush=True)
    return results


@click.command(help=__doc__.replace("\n\n", "\n\n\b\n"))
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--share",
    "shares",
    type=click.FloatRange(0, 1, max_open=True),
    multiple=True,
    default=[0.2],
    show_default=True,
    help="Share of the pairs that nobody judged.",
)
@click.option(
    "--model",
    "models",
    type=click.Choice(["mlgpf", "bmlpl"]),
    multiple=True,
    default=["mlgpf", "bmlpl"],
    show_default=True,
)
@harness.set_option
@click.option("--seeds", type=click.IntRange(1), default=1, show_default=True, help="Number of draws.")
@harness.json_option
def main(folders, shares, models, chosen, seeds, as_json):
    results = {}
    for data in folders:
        if not harness.has_data(data):
            continue
        # Loading libraries and compiling are not measured.
        few = harness.read_folder(data)[0].rows(slice(0, 200))
        for model in models:
            masked, _ = hide(few, 0.2, 0)
            for dataset in few, masked:
                xmlgp.train(dataset, settings={"model": model} | {"epochs" if model == "mlgpf" else "iterations": 1})
            for share in shares:
                results[f"{data.name} {model} {share:g}"] = compare(data, share, model, chosen, seeds)
    harness.write_json(as_json, results)


if __name__ == "__main__":
    main()
