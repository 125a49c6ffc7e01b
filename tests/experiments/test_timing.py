"""The times of the bound and of its KL divergences."""

from tests.problems import small_dataset
from xmlgp.experiments.timing import time_bound
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.mlgpf.train import run_inference
from xmlgp.preprocess.pipeline import find_inducing_inputs


def test_the_bound_can_be_timed():
    data = small_dataset()
    settings = MLGPFSettings(factors=2, inducing_count=5, epochs=1)
    preprocessed = find_inducing_inputs(data.features, settings)
    coordinates = preprocessed.inputs(data.features, settings.dtype)
    parameters, _ = run_inference(coordinates, data.labels, preprocessed.inducing, settings)
    times = time_bound(settings, parameters, coordinates, data.labels)
    assert times.keys() == {"bound_s", "kl_s"}
    assert min(times.values()) > 0
