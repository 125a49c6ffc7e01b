"""The quality of xmlgp's probabilities, compared with one-vs-rest logistic regression trained in the same run.

    python benchmarks/probabilities.py DATA [DATA ...] [--recipe default] [--set NAME=VALUE ...] [--seeds 1]
        [--strength C ...] [--json FILE]

DATA is a folder with train.txt and test.txt, such as data/bibtex; other folders are skipped with a message. Log loss,
in nats, and expected calibration error are over all labels of all test points; P@1 is in percent; `train s` is seconds
of training from raw features in memory. `frequencies` predicts each label with its training frequency, for every point.
Logistic regression is scikit-learn's with Liblinear, on rows of unit length, without and with idf weights. Labels of
all training points or of none get the probability of the rule of succession.
"""

import time
from pathlib import Path
from typing import NamedTuple

import click
import harness
import numpy as np
import scipy.sparse as sp
from peers import NEVER, OneVsRest
from scipy.special import expit

from xmlgp.metrics.probabilities import log_loss, reliability_curve
from xmlgp.metrics.ranking import evaluate_ranking
from xmlgp.mlgpf.predictor import MLGPFPredictor
from xmlgp.preprocess.weighting import count_points, idf_of_counts, weigh


class Prediction(NamedTuple):
    """Probabilities of all labels, N×K, and seconds of training."""

    probabilities: np.ndarray
    seconds: float


def predict_frequencies(train, test):
    """Predict each label with its training frequency."""
    share = (train.labels.sum(axis=0) + 1) / (train.N + 2)
    return Prediction(np.tile(share, (test.N, 1)), 0.0)


def predict_xmlgp(train, test, settings):
    """Train a model with these settings and predict."""
    start = time.perf_counter()
    model, _ = harness.fit(train, settings)
    seconds = time.perf_counter() - start
    probabilities, _ = MLGPFPredictor(*model, test.D).score(test.features, "probability")
    return Prediction(probabilities, seconds)


def predict_logistic(train, test, strength, idf):
    """Train a logistic regression for each label and predict."""
    start = time.perf_counter()
    weights = idf_of_counts(train.N, count_points(train.features.sparse)) if idf else None
    peer = OneVsRest("linear_model", "LogisticRegression", C=strength, solver="liblinear", random_state=0)
    peer.fit(weigh(train.features.sparse, weights, True).astype(peer.dtype), train.labels, None)
    seconds = time.perf_counter() - start
    # For labels of all points or of none the peer's probability is 0 or 1; one wrong entry would cost 36 nats.
    bias = np.where(np.abs(peer.bias) == abs(NEVER), np.sign(peer.bias) * np.log(train.N + 1), peer.bias)
    return Prediction(expit(weigh(test.features.sparse, weights, True) @ peer.weights + bias), seconds)


def top_labels(scores):
    """Return the first label of each point and its score as a csr_array, N×K, from scores, N×K."""
    points = np.arange(len(scores))
    labels = scores.argmax(axis=1)
    return sp.csr_array((scores[points, labels], (points, labels)), scores.shape)


def measure(prediction, labels):
    """Return the measures of a prediction by name."""
    whole = harness.all_entries(prediction.probabilities)
    return {
        "log_loss": log_loss(whole, labels),
        "ECE": reliability_curve(whole, labels).error,
        "P@1": evaluate_ranking(top_labels(prediction.probabilities), labels, (1,))["P@1"],
        "train_s": prediction.seconds,
    }


def compare(data, recipe, chosen, seeds, strengths):
    """Print and return the measures of all models on a data set."""
    train, test = harness.read_folder(data)
    cases = {"frequencies": lambda: predict_frequencies(train, test)}
    for seed in range(seeds):
        settings = harness.resolve_settings(recipe, train, chosen | {"seed": seed})
        cases[f"xmlgp, seed {seed}"] = lambda settings=settings: predict_xmlgp(train, test, settings)
    for idf in (False, True):
        for strength in strengths:
            name = f"logistic C={strength:g}{', idf' if idf else ''}"
            cases[name] = lambda strength=strength, idf=idf: predict_logistic(train, test, strength, idf)
    harness.warm_up(settings)
    results = {}
    table = harness.Table(data.name, "log loss", "ECE", "P@1", "train s")
    for name, predict in cases.items():
        result = results[name] = measure(predict(), test.labels)
        table.row(name, result["log_loss"], result["ECE"], f"{result['P@1']:.2f}", f"{result['train_s']:.1f}")
    print()
    return results


@click.command(help=__doc__.replace("\n\n", "\n\n\b\n"))
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--recipe", default="default", show_default=True)
@harness.set_option
@click.option("--seeds", type=click.IntRange(1), default=1, show_default=True, help="Number of training runs of xmlgp.")
@click.option(
    "--strength",
    "strengths",
    type=click.FloatRange(min=0, min_open=True),
    multiple=True,
    # The most precise on Bibtex (benchmarks/peers.py), and scikit-learn's default.
    default=[4, 1],
    show_default=True,
    help="C of logistic regression, the inverse regularisation strength.",
)
@harness.json_option
def main(folders, recipe, chosen, seeds, strengths, as_json):
    results = {}
    for data in folders:
        if harness.has_data(data):
            results[data.name] = compare(data, recipe, chosen, seeds, strengths)
    harness.write_json(as_json, results)


if __name__ == "__main__":
    main()
