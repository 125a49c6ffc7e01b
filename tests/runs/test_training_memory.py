"""What models say that training needs is never more than it takes, so nothing that fits is refused."""

import tracemalloc

import numpy as np
import pytest
from scipy.sparse import csr_array

from tests.mlgpf.test_memory import wide_dataset
from xmlgp.data.dataset import Dataset
from xmlgp.models import MODELS
from xmlgp.runtime.progress import silent

RUNS = [
    ("bmlpl", {"inference": "em-cg", "iterations": 2}),
    ("bmlpl", {"inference": "online-em", "iterations": 1}),
    ("bmlpl", {"inference": "gibbs", "iterations": 2}),
    ("gpc", {"inference": "vi-jj", "iterations": 1}),
    ("mlgpf", {"inducing": "subspace", "factors": 5, "epochs": 1, "start": "random", "calibration": False}),
]


@pytest.mark.parametrize(("name", "options"), RUNS, ids=str)
def test_no_more_is_asked_for_than_training_takes(name, options):
    model = MODELS[name]
    settings = model.settings(**options)
    dataset = wide_dataset(N=5, D=20_000, K=500)
    if name == "gpc":
        dataset = Dataset(dataset.features, csr_array(np.array([[True], [False]] * 2 + [[True]])))
    tracemalloc.start()
    try:
        preprocessed = model.preprocess(dataset.features, settings, silent)
        model.train(dataset.features, dataset.labels, preprocessed, settings)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 0 < sum(part.size for part in model.memory(settings, dataset)) <= peak
