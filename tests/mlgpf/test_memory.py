"""The memory that training needs at least, beside what its arrays take."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from tests.problems import small_dataset
from xmlgp.data.dataset import Dataset
from xmlgp.data.features import Features
from xmlgp.mlgpf import indexing, sweep_data
from xmlgp.mlgpf.record import MLGPF
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.mlgpf.train import train
from xmlgp.preprocess.pipeline import find_inducing_inputs

IN_WEIGHT_SPACE = {"inducing": "features", "epochs": 1, "factors": 50, "batch_size": 100}
SAMPLED = IN_WEIGHT_SPACE | {"optimiser": "adagrad", "label_sample": 50}
INDUCING = {"inducing": "free", "inducing_count": 10, "epochs": 1, "factors": 50, "negatives": 10, "start": "random"}


def wide_dataset(N=600, D=5000, K=6000):
    """Return points with 20 features and 3 labels each."""
    random = np.random.default_rng(0)

    def draw(per_point, columns, dtype):
        rows = np.repeat(np.arange(N), per_point)
        drawn = random.integers(0, columns, len(rows))
        matrix = sp.csr_array((np.ones(len(rows), dtype), (rows, drawn)), shape=(N, columns))
        matrix.sum_duplicates()
        return matrix.astype(dtype)

    return Dataset(Features(draw(20, D, np.float32)), draw(3, K, bool))


def total(settings, dataset):
    return sum(part.size for part in MLGPF.memory(settings, dataset))


@pytest.mark.parametrize("options", [SAMPLED | {"label_weights": False, "regression_points": 0}, INDUCING], ids=str)
def test_it_is_most_of_the_peak_and_never_more(options, monkeypatch):
    # An index of labels takes a constant ten megabytes, more than all of a model that is this small.
    monkeypatch.setattr(indexing, "FEWEST_LABELS", 10_000)
    monkeypatch.setattr(sweep_data, "FEWEST_LABELS", 10_000)
    # Without predictions, which would be compiled for the first time.
    settings = MLGPFSettings(**options | {"calibration": False})
    for dataset in wide_dataset(N=300, D=800), wide_dataset():
        # The first training compiles functions.
        tracemalloc.start()
        try:
            train(dataset.features, dataset.labels, find_inducing_inputs(dataset.features, settings), settings)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert 0.4 * peak < total(settings, dataset) <= peak


def test_covariances_of_the_regression_count_if_they_need_most():
    dataset, settings = small_dataset(N=300), MLGPFSettings(**IN_WEIGHT_SPACE)
    (part,) = MLGPF.memory(settings, dataset)
    assert (part.size, part.advice) == (4 * 300**2, "regression_points=0 avoids that")
    assert "regression" in part.purpose
    # There is no regression for more points, or with other inducing inputs.
    for others in (MLGPFSettings(**IN_WEIGHT_SPACE, regression_points=299), MLGPFSettings(**INDUCING)):
        assert 0 < total(others, dataset) < part.size


def test_the_parts_name_the_options_that_lower_them():
    parts = MLGPF.memory(MLGPFSettings(**SAMPLED), wide_dataset())
    assert [(part.purpose, part.advice) for part in parts] == [
        ("the latent functions", "fewer factors lower that"),
        ("label weights", "label_weights=false avoids that"),
        ("weighted features", None),
    ]
