"""L-BFGS-B over all points at once: the bound, its gradient and the optimum."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from tests.problems import small_dataset
from xmlgp.experiments.gpc import FullBatch, Stopwatch, quadrature_bound
from xmlgp.gpc.settings import GPCSettings
from xmlgp.preprocess.pipeline import standardise_features

SETTINGS = GPCSettings(inducing_count=4, nodes=40, inference="vi-jj")


@pytest.fixture
def problem():
    data = small_dataset(D=6, K=1)
    preprocessed = standardise_features(data.features, SETTINGS)
    coordinates = preprocessed.inputs(data.features, SETTINGS.dtype)
    return coordinates, data.labels, preprocessed.inducing


@pytest.fixture
def full_batch(problem):
    coordinates, labels, inducing = problem
    return FullBatch(coordinates, labels.toarray()[:, 0], inducing, SETTINGS)


@pytest.mark.parametrize("block", [7, 4096])
def test_value_is_the_quadrature_bound_and_gradient_agrees_with_finite_differences(problem, block, monkeypatch):
    monkeypatch.setattr("xmlgp.experiments.gpc.BLOCK", block)
    coordinates, labels, inducing = problem
    positive = labels.toarray()[:, 0]
    full_batch = FullBatch(coordinates, positive, inducing, SETTINGS)
    x = full_batch.start + 0.1 * np.random.default_rng(0).normal(size=len(full_batch.start))
    value, gradient = full_batch.value_and_gradient(x)
    expected = quadrature_bound(full_batch.parameters(x), coordinates, positive, SETTINGS.nodes)
    assert value == pytest.approx(expected, rel=1e-12)
    slopes = approx_fprime(x, lambda x: full_batch.value_and_gradient(x)[0], 1e-6)
    np.testing.assert_allclose(gradient, slopes, rtol=1e-4, atol=1e-4)


def test_it_ends_at_the_time_limit(full_batch):
    stopwatch = Stopwatch(0.0, lambda parameters: {"mean": parameters["posterior.mean"]})
    assert full_batch.maximise(stopwatch) == "time"
    (moment,) = stopwatch.curve
    assert moment["epoch"] == 1
    assert moment["mean"].any()
