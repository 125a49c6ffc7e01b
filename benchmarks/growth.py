"""Time of learning a batch after ever more points and labels.

    python benchmarks/growth.py [--json FILE]

The function that learns a batch of 2,000 points of 1,000 labels is measured, without reading and writing the folder.
The model before is in weight space and has random parameters, so that nothing has to be trained: the time does not
depend on their values. First its number of labels grows, then that of its earlier points.
"""

import time

import click
import harness  # before NumPy
import numpy as np
import scipy.sparse as sp

from xmlgp.data.dataset import Dataset
from xmlgp.data.features import Features
from xmlgp.gp.bound import Bound
from xmlgp.gp.weight_space import WeightSpace
from xmlgp.label_weights.posterior import PRIOR_VARIANCE
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.mlgpf.weight_space import WeightSpaceMethod
from xmlgp.preprocess.pipeline import Preprocessed, weighting_of_counts
from xmlgp.runs.learn import learn_points
from xmlgp.runs.trained_model import TrainedModel
from xmlgp.training.trained import STATISTICS, statistics_of

#: Earlier points and labels of the models; labels grow first, then points.
SIZES = [(10_000, 1000), (10_000, 10_000), (10_000, 100_000), (100_000, 10_000), (1_000_000, 10_000)]

#: Features of these models, weights of each label, and points and labels of the batch.
FEATURES, WEIGHTS, BATCH, BATCH_LABELS = 50_000, 300, 2000, 1000


@click.command(help=__doc__.replace("\n\n", "\n\n\b\n"))
@harness.json_option
def main(as_json):
    # Compiled functions are loaded before anything is measured.
    learned_after(*SIZES[0])
    rows, table = [], harness.Table("N", "K", "seconds", "processor seconds")
    for N, K in SIZES:
        rows.append({"N": N, "K": K} | learned_after(N, K))
        table.row(*rows[-1].values())
    harness.write_json(as_json, {"rows": rows})


def learned_after(N, K):
    """Return what a batch takes a model with random parameters that has learned N points and K labels."""
    random = np.random.default_rng(0)
    batch = random_batch(K, random)
    settings = MLGPFSettings(inducing="features")
    # Earlier points had features as often as those of the batch, and all labels equally often.
    by_label, by_feature = np.full(K, -(-3 * N // K)), statistics_of(batch.features, batch.labels)[STATISTICS[1]]
    statistics = dict(zip(STATISTICS, (by_label, by_feature * N // BATCH), strict=True))
    method = WeightSpaceMethod(settings)
    parameters = method.trained(Bound(WeightSpace(None)), method.initial([FEATURES], batch.labels, random))
    parameters |= random_label_weights(K, random) | statistics
    preprocessed = Preprocessed(weighting_of_counts(settings.weighting, N, statistics[STATISTICS[1]]), None, None)
    facts = {"N": N, "D": FEATURES, "K": K, "fingerprint": ""}
    known = TrainedModel(settings, facts, preprocessed, parameters, [])
    began = time.perf_counter(), time.process_time()
    learn_points(known, batch)
    return {"seconds": time.perf_counter() - began[0], "processor seconds": time.process_time() - began[1]}


def random_batch(K, random):
    """Return points of 30 features, some of which are frequent, with 3 of the first labels."""
    columns = np.minimum((FEATURES * random.power(0.3, 30 * BATCH)).astype(np.int32), FEATURES - 1)
    chosen = random.integers(0, BATCH_LABELS, 3 * BATCH, np.int32)
    starts = np.arange(BATCH + 1)
    features = np.ones(len(columns), np.float32), columns, 30 * starts
    labels = np.ones(len(chosen), bool), chosen, 3 * starts
    return Dataset(Features(sparse_array(features, (BATCH, FEATURES))), sparse_array(labels, (BATCH, K)))


def random_label_weights(K, random):
    """Return random weights of each label, on features that are spread over all."""
    count, width = K * WEIGHTS, FEATURES / WEIGHTS
    # One feature of each of equal ranges, so that they ascend and none is there twice.
    columns = random.random((K, WEIGHTS), np.float32) * (width - 1) + np.arange(WEIGHTS) * width
    found = {
        "indptr": np.arange(0, count + 1, WEIGHTS),
        "features": columns.astype(np.int32).ravel(),
        "mean": random.standard_normal(count, np.float32),
        "log_variance": np.full(count, -1, np.float32),
        "log_prior": np.full(FEATURES, np.log(PRIOR_VARIANCE), np.float32),
    }
    return {f"label_weights.{name}": value for name, value in found.items()}


def sparse_array(arrays, shape):
    """Return a csr_array without repeated elements."""
    found = sp.csr_array(arrays, shape=shape)
    found.sum_duplicates()
    return found


if __name__ == "__main__":
    main()
