"""The quality of xmlgp's probabilities, compared with other tools trained in the same run.

    python -m benchmarks probabilities DATA [DATA ...] [--recipe default] [--set NAME=VALUE ...] [--seeds 1]
        [--strength C ...] [--peers NAME,...] [--json FILE]

DATA is a folder with train.txt and test.txt, such as data/bibtex; other folders are skipped with a message. Log loss,
in nats, and expected calibration error (ECE) are over all labels of all test points; ECE@5 and log loss@5 are over the
five labels of each point that the tool gives the highest scores. P@1 is in percent; `train s` is seconds of training
from raw features in memory. `frequencies` predicts each label with its training frequency, for every point.
Logistic regression is scikit-learn's with Liblinear, on rows of unit length, without and with idf weights. Labels of
all training points or of none get the probability of the rule of succession. Peers (see peers.py) list five labels of
each point, and their scores, from 0 to 1, count as probabilities.
"""

import functools
import itertools
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
from scipy.special import expit

from benchmarks import harness, peers
from benchmarks.peers import NEVER, TOP, OneVsRest
from xmlgp.features.weighting import Weighting, count_points, inverse_frequencies, weigh
from xmlgp.metrics.probabilities import calibration_statistics, top_calibration_statistics
from xmlgp.metrics.ranking import ranking_statistics, top_entries
from xmlgp.models.mlgpf.predictor import MLGPFPredictor
from xmlgp.prediction.scores_file import read_scores

#: The peers whose scores are from 0 to 1.
PEERS = ["omikuji", "napkinxc", "pecos"]


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
    name = "idf" if idf else "unit"
    weighting = Weighting.named(name, inverse_frequencies(name, train.N, count_points(train.features.sparse)))
    peer = OneVsRest("linear_model", "LogisticRegression", C=strength, solver="liblinear", random_state=0)
    peer.fit(weigh(train.features.sparse, weighting).astype(peer.dtype), train.labels, None)
    seconds = time.perf_counter() - start
    # For labels of all points or of none the peer's probability is 0 or 1; one wrong entry would cost 36 nats.
    bias = np.where(np.abs(peer.bias) == abs(NEVER), np.sign(peer.bias) * np.log(train.N + 1), peer.bias)
    return Prediction(expit(weigh(test.features.sparse, weighting) @ peer.weights + bias), seconds)


def measure_top(probabilities, labels):
    """Return the measures of the labels with the highest probabilities, N×K, by name."""
    best = top_entries(probabilities, TOP)
    return {
        f"ECE@{TOP}": top_calibration_statistics(best, labels, [TOP])[f"ECE@{TOP}"].value,
        f"log_loss@{TOP}": calibration_statistics(best, labels)["log_loss"].value,
        "P@1": ranking_statistics(best, labels, (1,))["P@1"].value,
    }


def measure(prediction, labels):
    """Return the measures of a prediction by name."""
    whole = harness.all_entries(prediction.probabilities)
    overall = {name: statistic.value for name, statistic in calibration_statistics(whole, labels).items()}
    return overall | measure_top(whole, labels) | {"train_s": prediction.seconds}


def measure_peers(data, labels, names):
    """Yield each peer's name and the measures of its scores."""
    with tempfile.TemporaryDirectory() as folder:
        for name, result in peers.measure(data, names, scores=Path(folder), listed=TOP).items():
            scores = read_scores(Path(folder, f"{name}.scores")).matrix
            yield name, measure_top(scores, labels) | {"train_s": result["train_s"]}


def cases_of(train, recipe, chosen, seeds, strengths):
    """Return the functions of training and test points that predict, by the names of the rows, and xmlgp's settings."""
    cases = {"frequencies": predict_frequencies}
    for seed in range(seeds):
        settings = harness.resolve_settings(recipe, train, chosen | {"seed": seed})
        cases[f"xmlgp, seed {seed}"] = functools.partial(predict_xmlgp, settings=settings)
    for idf in (False, True):
        for strength in strengths:
            name = f"logistic C={strength:g}{', idf' if idf else ''}"
            cases[name] = functools.partial(predict_logistic, strength=strength, idf=idf)
    return cases, settings


def compare(data, choices, names):
    """Print and return the measures of all models on a data set."""
    train, test = harness.read_folder(data)
    cases, settings = cases_of(train, *choices)
    harness.warm_up(settings)
    columns = ("log_loss", "ECE", f"log_loss@{TOP}", f"ECE@{TOP}", "P@1", "train_s")
    table = harness.Table(data.name, *(column.replace("_", " ") for column in columns))
    own = ((name, measure(predict(train, test), test.labels)) for name, predict in cases.items())
    results = {}
    for name, result in itertools.chain(own, measure_peers(data, test.labels, names)):
        results[name] = result
        table.row(name, *(result.get(column, "") for column in columns))
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
@harness.peers_option(default=PEERS)
@harness.json_option
def main(folders, recipe, chosen, seeds, strengths, names, as_json):
    results = {}
    for data in folders:
        if harness.has_data(data):
            results[data.name] = compare(data, (recipe, chosen, seeds, strengths), names)
    harness.write_json(as_json, results)


if __name__ == "__main__":
    main()
