"""Ablations of BMLPL's defaults on points held out from training, with MLGPF's default recipe for comparison.

    python benchmarks/topics.py DATA ... [--seeds 2] [--only NAME ...] [--readable] [--json FILE]

DATA is a folder with train.txt. Each seed holds out another fifth of the training points; test points are not used. A
Markdown table has precision, propensity-scored precision and the three averages of AUC on the held-out points, in
percent, and the seconds of training, as means over the seeds.

With --readable, the variants are numbers of topics, and the table has what a reader gets from `xmlgp topics`, beside
precision and ECE@5: the median over topics of the effective number of labels, the exponential of the entropy of the
topic; the percentage of topics with a label above 0.9; and coherence, the mean NPMI of pairs of the five labels of
highest weight on the held-out points, −1 for labels that never occur together. Labels that no held-out point has are
left out. The columns "joined" are of the groups that `xmlgp show --topics` prints. CPU seconds are of training.
"""

import dataclasses
import time
from fnmatch import fnmatchcase

import click
import harness
import numpy as np

from xmlgp.bmlpl.parameters import list_topics
from xmlgp.bmlpl.settings import BMLPLSettings
from xmlgp.cli.show import READABLE as JOINED
from xmlgp.data.dataset import Dataset
from xmlgp.data.repository_format import read_dataset
from xmlgp.metrics.auc import multilabel_roc_auc
from xmlgp.metrics.probabilities import top_calibration_errors
from xmlgp.metrics.propensity import propensities
from xmlgp.metrics.ranking import evaluate_ranking
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.models import MODELS
from xmlgp.runtime.progress import silent
from xmlgp.training.minibatches import hold_out

#: Settings that differ from the defaults. To measure another choice, add a line.
VARIANTS = {
    "default": {},
    "precision=0.03": {"precision": 0.03},
    "precision=0.1": {"precision": 0.1},
    "precision=1": {"precision": 1.0},
    "precision=3": {"precision": 3.0},
    "learn-precision": {"learn_precision": True},
    "concentration=0.001": {"concentration": 0.001},
    "concentration=0.1": {"concentration": 0.1},
    "concentration=1": {"concentration": 1.0},
    "topics=25": {"topics": 25},
    "topics=50": {"topics": 50},
    "topics=100": {"topics": 100},
    "topics=400": {"topics": 400},
    "weighting=idf": {"weighting": "idf"},
    "weighting=unit": {"weighting": "unit"},
    "weighting=none, precision=10": {"weighting": "none", "precision": 10.0},
    "iterations=20": {"iterations": 20},
    "iterations=50": {"iterations": 50},
    "iterations=300": {"iterations": 300},
    "cg-steps=1": {"cg_steps": 1},
    "cg-steps=5": {"cg_steps": 5},
    "online-em": {"inference": "online-em"},
}

#: Numbers of topics for --readable.
COUNTS = (20, 40, 60, 80, 100, 150, 200)

#: Labels of a topic that a reader sees, and the weight above which a topic is one label.
SHOWN, SINGLE = 5, 0.9

READABLE = ("P@1", "P@3", "P@5", "ECE@5", "labels", "single %", "NPMI", "joined labels", "joined NPMI", "CPU s")

MEASURES = ("P@1", "P@3", "P@5", "PSP@1", "PSP@5", "AUC_instance", "AUC_micro", "AUC_macro")


def fit(settings, train):
    """Return the predictor and the parameters of a model."""
    model, settings = MODELS[settings.model], settings.for_shape(train.N, train.D, train.K)
    preprocessed = model.preprocess(train.features, settings, silent)
    trained = model.train(train.features, train.labels, preprocessed, settings, silent, None)
    return model.load_predictor()(settings, preprocessed, trained.parameters, train.D), trained.parameters


def measure(settings, train, held, propensity):
    """Train, and return the measures on the held-out points and the seconds of training."""
    start = time.perf_counter()
    predictor, _ = fit(settings, train)
    seconds = time.perf_counter() - start
    scores = harness.stack_scores(predictor.top(held.features, None))
    found = evaluate_ranking(scores, held.labels, (1, 3, 5), propensity)
    found |= {name: 100 * area for name, area in multilabel_roc_auc(scores, held.labels).items()}
    return [found[name] for name in MEASURES] + [seconds]


def coherence(topics, labels):
    """Return the mean NPMI of pairs of the labels of highest weight in each topic, K×T, on points with these labels."""
    N = labels.shape[0]
    columns = labels.astype(np.float64).tocsc()
    shares = columns.sum(axis=0) / N
    means = []
    for topic in topics.T:
        best = np.argsort(-topic, kind="stable")[:SHOWN]
        best = best[shares[best] > 0]
        if len(best) < 2:
            continue
        together = (columns[:, best].T @ columns[:, best]).toarray() / N
        first, second = np.tril_indices(len(best), -1)
        both = together[first, second]
        with np.errstate(divide="ignore", invalid="ignore"):
            npmi = np.log(both / (shares[best[first]] * shares[best[second]])) / -np.log(both)
        means.append(np.where(both == 0, -1, np.where(both == 1, 1, npmi)).mean())
    return float(np.mean(means))


def effective_labels(topics):
    """Return the median over topics, K×T, of the exponential of the entropy."""
    return float(np.median(np.exp(-(topics * np.log(np.maximum(topics, 1e-300))).sum(axis=0))))


def read_topics(parameters, held):
    """Return what a reader gets from topics, and from those that are joined."""
    K = len(parameters["topics"])
    topics = parameters["topics"].astype(np.float64)
    joined = np.zeros((K, 0))
    for topic in list_topics(parameters, K, JOINED):
        column = np.zeros((K, 1))
        column[topic.labels, 0] = topic.weights
        joined = np.hstack([joined, column])
    single = 100 * float((topics.max(axis=0) > SINGLE).mean())
    values = [effective_labels(topics), single, coherence(topics, held.labels)]
    return [*values, effective_labels(joined), coherence(joined, held.labels)]


def compare_counts(data, seeds):
    """Print and return the precision and the readability of each number of topics."""
    whole = read_dataset(data / "train.txt", cache=False)
    table, results = harness.Table(data.name, *READABLE), {}
    for count in COUNTS:
        runs = []
        for seed in range(seeds):
            rows, others = hold_out(whole.N, 0.2, np.random.default_rng([seed, 7]))
            train, held = (Dataset(whole.features[part], whole.labels[part]) for part in (rows, others))
            start = time.process_time()
            predictor, parameters = fit(BMLPLSettings(topics=count, seed=seed), train)
            seconds = time.process_time() - start
            scores = harness.stack_scores(predictor.top(held.features, 5, output="probability"))
            found = evaluate_ranking(scores, held.labels, (1, 3, 5)) | top_calibration_errors(scores, held.labels, (5,))
            runs.append([found[name] for name in READABLE[:4]] + [*read_topics(parameters, held), seconds])
        means = dict(zip(READABLE, np.mean(runs, axis=0).tolist(), strict=True))
        three = ("ECE@5", "NPMI", "joined NPMI")
        texts = [f"{value:.{3 if name in three else 2}f}" for name, value in list(means.items())[:-1]]
        table.row(f"{count} topics", *texts, f"{means['CPU s']:.0f}")
        results[count] = means
    print()
    return results


def compare(data, seeds, patterns):
    """Print and return the measures of each variant."""
    whole, _ = harness.read_folder(data)
    table, results = harness.Table(data.name, *MEASURES, "seconds"), {}
    variants = {name: BMLPLSettings(**chosen) for name, chosen in VARIANTS.items()} | {"mlgpf": MLGPFSettings()}
    for name, settings in variants.items():
        if patterns and not any(fnmatchcase(name, pattern) for pattern in patterns):
            continue
        runs = []
        for seed in range(seeds):
            rows, held = hold_out(whole.N, 0.2, np.random.default_rng([seed, 7]))
            train, others = (Dataset(whole.features[part], whole.labels[part]) for part in (rows, held))
            propensity = propensities(train.labels)
            runs.append(measure(dataclasses.replace(settings, seed=seed), train, others, propensity))
        means = np.mean(runs, axis=0)
        table.row(name, *(f"{value:.2f}" for value in means[:-1]), f"{means[-1]:.1f}")
        results[name] = dict(zip((*MEASURES, "seconds"), np.transpose(runs).tolist(), strict=True))
    print()
    return results


@click.command(help=__doc__.replace("\n\n", "\n\n\b\n"))
@harness.folders_argument()
@click.option("--seeds", default=2, show_default=True)
@click.option("--only", "patterns", multiple=True, metavar="NAME", help="Variants, by patterns such as topics=*.")
@click.option("--readable", is_flag=True, help="Measure what a reader gets from the topics, by their number.")
@harness.json_option
def main(folders, seeds, patterns, readable, as_json):
    measured = {
        data.name: compare_counts(data, seeds) if readable else compare(data, seeds, patterns) for data in folders
    }
    harness.write_json(as_json, measured)


if __name__ == "__main__":
    main()
