"""The times of the bound and of its KL divergences."""

import pytest

from tests.problems import small_dataset
from xmlgp.experiments.timing import time_bound
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.mlgpf.train import run_inference
from xmlgp.preprocess.pipeline import find_inducing_inputs


@pytest.mark.parametrize("label_weights", [False, True])
def test_every_bound_can_be_timed(label_weights):
    data = small_dataset()
    settings = MLGPFSettings(factors=2, inducing_count=5, epochs=1, label_weights=label_weights)
    preprocessed = find_inducing_inputs(data.features, settings)
    coordinates = preprocessed.coordinates(data.features, settings.dtype)
    parameters, _ = run_inference(coordinates, data.labels, preprocessed.inducing, settings)
    assert ("label_weights.mean" in parameters) == label_weights
    times = time_bound(settings, parameters, coordinates, data.labels)
    assert times.keys() == {"bound_s", "kl_s"}
    assert min(times.values()) > 0
