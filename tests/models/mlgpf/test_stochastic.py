"""Inference of MLGPF: the bound increases, the seed determines the result, divergence is reported."""

import numpy as np
import pytest

from tests.grids import each_value
from tests.problems import small_dataset
from xmlgp.features.pipeline import find_inducing_inputs
from xmlgp.gp.bound import Bound
from xmlgp.gp.posteriors import POSTERIORS
from xmlgp.models.mlgpf.methods import InducingMethod, Problem
from xmlgp.models.mlgpf.settings import MLGPFSettings
from xmlgp.models.mlgpf.train import run_inference
from xmlgp.runtime.errors import NumericalError
from xmlgp.training.minibatches import make_batch

#: Smaller than the sizes of `small_dataset`, N = 40, D = 25 and K = 7.
SMALL = {
    "inducing": "free", "inducing_start": "rows", "inducing_count": 6, "basis_size": 9, "factors": 3,
    "epochs": 8, "batch_size": 16, "learning_rate": 0.05,
}  # fmt: skip


def run(dataset, **chosen):
    """Preprocess and train; return settings, coordinates, initial inducing inputs, parameters and history."""
    settings = MLGPFSettings(**SMALL | chosen)
    preprocessed = find_inducing_inputs(dataset.features, settings)
    coordinates = preprocessed.inputs(dataset.features, settings.dtype)
    found = run_inference(Problem(settings, dataset.features, dataset.labels, preprocessed, coordinates))
    return settings, coordinates, preprocessed.inducing, *found


def full_bound(settings, coordinates, labels, parameters):
    """Return the bound for all points and all labels in double precision."""
    batch = make_batch(coordinates, labels, np.arange(labels.shape[0]))
    points = type(batch.points)(*(values.astype(np.float64) for values in batch.points))
    parameters = {name: value.astype(np.float64) for name, value in parameters.items()}
    method = InducingMethod(settings)
    return Bound(method.latent, method.quadrature).value_and_gradients(parameters, batch._replace(points=points))[0]


def initial_of(settings, coordinates, inducing, labels):
    return InducingMethod(settings).initial(coordinates, labels, inducing, np.random.default_rng(settings.seed))


@each_value(
    posterior=list(POSTERIORS), kernel=["linear", "se", "se+linear"], ard=[True, False], inducing=["subspace", "free"]
)
def test_training_increases_the_bound(kernel, ard, posterior, inducing):
    dataset = small_dataset()
    settings, coordinates, inducing, parameters, history = run(
        dataset, kernel=kernel, ard=ard, posterior=posterior, inducing=inducing, batch_size=40
    )
    initial = initial_of(settings, coordinates, inducing, dataset.labels)
    before, after = (full_bound(settings, coordinates, dataset.labels, values) for values in (initial, parameters))
    # With all points in one batch the first entry of the history is the initial bound.
    assert history[0]["bound"] == pytest.approx(before, rel=1e-3)
    assert after > history[-1]["bound"] > before
    # The gain is a substantial part of the entropy of the label frequencies.
    frequency = dataset.labels.toarray().mean(axis=0).clip(1e-9, 1 - 1e-9)
    entropy = -40 * (frequency * np.log(frequency) + (1 - frequency) * np.log(1 - frequency)).sum()
    assert after - before > 0.05 * entropy
    assert parameters.keys() == initial.keys()
    for name, value in parameters.items():
        assert value.dtype == np.float32
        assert value.shape == initial[name].shape
        assert not np.array_equal(value, initial[name]), name


@pytest.mark.parametrize(
    "chosen",
    [
        {"negatives": 2},
        {"optimiser": "adadelta", "learning_rate": 1.0, "epochs": 20},
        {"dtype": "float64", "weighting": "idf"},
        {"weighting": "none"},
        {"nodes": 1, "weighting": "unit"},
    ],
    ids=str,
)
def test_training_increases_the_bound_with_other_settings(chosen):
    dataset = small_dataset()
    settings, coordinates, inducing, parameters, _ = run(dataset, **chosen)
    evaluation = MLGPFSettings()  # the bound depends only on the kernel and the posterior
    before = full_bound(
        evaluation, coordinates, dataset.labels, initial_of(settings, coordinates, inducing, dataset.labels)
    )
    assert full_bound(evaluation, coordinates, dataset.labels, parameters) > before + 2
    assert {value.dtype for value in parameters.values()} == {np.dtype(settings.dtype)}


@each_value(inducing=["subspace", "free"], kernel=["linear", "se"])
def test_fixed_inducing_inputs_are_not_trained(inducing, kernel):
    dataset = small_dataset()
    settings, coordinates, given, parameters, _ = run(dataset, inducing=inducing, kernel=kernel, inducing_fixed=True)
    initial = initial_of(settings, coordinates, given, dataset.labels)
    for name, value in parameters.items():
        assert np.array_equal(value, initial[name]) == (name == "inducing"), name
    np.testing.assert_array_equal(parameters["inducing"], given)


@pytest.mark.parametrize(("posterior", "start"), [("cholesky", "newton"), ("diagonal", "random")])
def test_the_bound_rises_from_the_start_with_more_inducing_inputs_than_dimensions(posterior, start):
    # Without whitening, the bound of the full posterior falls to five times its first value in the second epoch.
    sizes = {"inducing_count": 60, "factors": 10, "batch_size": 50, "learning_rate": 0.02, "epochs": 16}
    _, _, _, _, history = run(small_dataset(N=300), posterior=posterior, start=start, **sizes)
    bounds = [entry["bound"] for entry in history]
    assert min(bounds[1:]) > bounds[0]
    assert bounds[-1] > 0.8 * bounds[0]


@each_value(inducing=["subspace", "free"], kernel=["linear", "se"], optimiser=["adam", "adagrad"])
def test_a_step_moves_inducing_inputs_by_the_rate_times_their_length(inducing, kernel, optimiser):
    """A step of the rate in each of 900 coordinates would move them 30 times as far, beyond a lengthscale."""
    dataset = small_dataset(D=900)
    chosen = {"inducing": inducing, "kernel": kernel, "optimiser": optimiser, "epochs": 1, "batch_size": 40}
    _, _, initial, parameters, _ = run(dataset, learning_rate=0.1, **chosen)
    moved = np.linalg.norm(parameters["inducing"] - initial)
    assert 0.03 < moved / np.linalg.norm(initial) < 0.101


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"learning_rate": 1e20, "kernel": "se"}, "try a lower learning_rate or another weighting$"),
        # There are so few steps that the bound is computed at the first only.
        ({"learning_rate": 1e38, "epochs": 1}, "try a lower learning_rate or another weighting$"),
        ({"kernel": "se", "lengthscale": 1e-300}, "^training diverged before the first step: .*lengthscale"),
        ({"kernel": "se", "lengthscale": 1e30}, "^training diverged before the first step: the lengthscale .*; try"),
    ],
    ids=str,
)
def test_divergence_raises_an_error_with_advice(chosen, message):
    with pytest.raises(NumericalError, match=message):
        run(small_dataset(), **chosen)
