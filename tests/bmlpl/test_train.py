"""Training of BMLPL by every inference method: history, reproducibility, hidden labels, divergence."""

import numpy as np
import pytest

from tests.problems import small_dataset
from tests.training.interrupting import (
    assert_same_result,
)
from xmlgp.bmlpl import train as module
from xmlgp.bmlpl.parameters import are_valid_parameters
from xmlgp.bmlpl.settings import INFERENCES, BMLPLSettings
from xmlgp.bmlpl.train import run_inference
from xmlgp.preprocess.pipeline import weight_features

N, D, K, T = 40, 25, 7, 4
DATASET = small_dataset(N, D, K)
SMALL = {"topics": T, "iterations": 5, "batch_size": 16, "burn_in": 1, "thinning": 2}

any_inference = pytest.mark.parametrize("inference", INFERENCES)


def prepared(**chosen):
    """Return coordinates, labels and settings: the arguments of `run_inference`."""
    settings = BMLPLSettings(**SMALL | chosen)
    coordinates = weight_features(DATASET.features, settings).coordinates(DATASET.features, settings.dtype)
    return coordinates, DATASET.labels, settings


@any_inference
def test_history_and_parameters_are_complete(inference):
    parameters, history = run_inference(*prepared(inference=inference))
    assert [set(epoch) for epoch in history] == [{"epoch", "log_posterior", "seconds"}] * 5
    assert [epoch["epoch"] for epoch in history] == [1, 2, 3, 4, 5]
    assert all(type(epoch["log_posterior"]) is float and epoch["log_posterior"] < 0 for epoch in history)
    seconds = [epoch["seconds"] for epoch in history]
    assert seconds == sorted(seconds)
    assert are_valid_parameters(parameters, (D, K, T))
    assert {value.dtype for value in parameters.values()} == {np.dtype(np.float32)}


@any_inference
def test_the_default_number_of_iterations(inference):
    settings = prepared(inference=inference, iterations=None)
    _, history = run_inference(*settings)
    assert len(history) == settings[2].passes >= 20


@any_inference
def test_hidden_labels_are_treated_as_negatives(inference):
    coordinates, labels, settings = prepared(inference=inference, revealed=0.5)
    seen = module.reveal_labels(labels, 0.5, np.random.default_rng([0, 1]))
    assert 0.3 * labels.nnz < seen.nnz < 0.7 * labels.nnz
    before = labels.copy()
    found = run_inference(coordinates, labels, settings)
    assert (before != labels).nnz == 0
    assert_same_result(found, run_inference(coordinates, seen, prepared(inference=inference)[2]))
