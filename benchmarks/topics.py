"""Ablations of BMLPL's defaults on points held out from training, with MLGPF's default recipe for comparison.

    python benchmarks/topics.py DATA ... [--seeds 2] [--only NAME ...] [--json FILE]

DATA is a folder with train.txt. Each seed holds out another fifth of the training points; test points are not used. A
Markdown table has precision, propensity-scored precision and the three averages of AUC on the held-out points, in
percent, and the seconds of training, as means over the seeds.
"""

import dataclasses
import time
from fnmatch import fnmatchcase

import click
import harness
import numpy as np

from xmlgp.bmlpl.settings import BMLPLSettings
from xmlgp.data.dataset import Dataset
from xmlgp.metrics.auc import multilabel_roc_auc
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

MEASURES = ("P@1", "P@3", "P@5", "PSP@1", "PSP@5", "AUC_instance", "AUC_micro", "AUC_macro")


def measure(settings, train, held, propensity):
    """Train, and return the measures on the held-out points and the seconds of training."""
    start = time.perf_counter()
    model, settings = MODELS[settings.model], settings.for_shape(train.N, train.D, train.K)
    preprocessed = model.preprocess(train.features, settings, silent)
    trained = model.train(train.features, train.labels, preprocessed, settings, silent, None)
    predictor = model.load_predictor()(settings, preprocessed, trained.parameters, train.D)
    seconds = time.perf_counter() - start
    scores = harness.stack_scores(predictor.top(held.features, None))
    found = evaluate_ranking(scores, held.labels, (1, 3, 5), propensity)
    found |= {name: 100 * area for name, area in multilabel_roc_auc(scores, held.labels).items()}
    return [found[name] for name in MEASURES] + [seconds]


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
@harness.json_option
def main(folders, seeds, patterns, as_json):
    harness.write_json(as_json, {data.name: compare(data, seeds, patterns) for data in folders})


if __name__ == "__main__":
    main()
