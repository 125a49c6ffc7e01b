"""Closed-form updates of the means of q(u_p): they raise the bound and converge where its gradient is zero."""

import numpy as np
import pytest
from click.testing import CliRunner
from means import Quadratic, harness, main

from tests.problems import small_dataset
from xmlgp.data.repository_format import write_dataset
from xmlgp.mlgpf.model import MLGPF
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.mlgpf.train import run_inference
from xmlgp.preprocess.pipeline import find_inducing_inputs
from xmlgp.training.minibatches import make_batch


@pytest.fixture(params=[False, True], ids=["", "own"])
def trained(request):
    """A model trained for two epochs, its parameters and all points."""
    dataset = small_dataset()
    settings = MLGPFSettings(
        expectations="jj", factors=3, inducing_count=6, epochs=2, label_weights=request.param, dtype="float64"
    )
    preprocessed = find_inducing_inputs(dataset.features, settings)
    coordinates = preprocessed.coordinates(dataset.features, settings.dtype)
    parameters, _ = run_inference(coordinates, dataset.labels, preprocessed.inducing, settings)
    return MLGPF(settings), parameters, make_batch(coordinates, dataset.labels, np.arange(dataset.N), weighted=True)


@pytest.mark.parametrize("update", [Quadratic.sweep, Quadratic.joint_step])
def test_updates_raise_the_bound_to_a_stationary_point(trained, update):
    model, parameters, batch = trained
    value, gradients = model.bound.value_and_gradients(parameters, batch)
    steepest = np.abs(gradients["posterior.mean"]).max()
    for _ in range(60):
        parameters = parameters | {"posterior.mean": update(Quadratic(model, parameters, batch))}
        before, (value, gradients) = value, model.bound.value_and_gradients(parameters, batch)
        # The bound has no jitter.
        assert value > before - 1e-4
    assert np.abs(gradients["posterior.mean"]).max() < 1e-3 * steepest


def test_the_table_has_a_row_for_each_update(tmp_path):
    for name, points in (("train", small_dataset()), ("test", small_dataset(20, seed=7))):
        write_dataset(tmp_path / f"{name}.txt", points)
    options = ["--epochs", "1", "--set", "factors=3", "--set", "inducing_count=6"]
    result = CliRunner().invoke(main, [str(tmp_path), *options], catch_exceptions=False)
    lines = [[cell.strip() for cell in line.split("|")] for line in result.stdout.splitlines() if line]
    assert [cells[2] for cells in lines[2:8]] == ["", "one more epoch", "sweep", "2 of them", "joint step", "2 of them"]
    # The gain is the difference of two bounds in the table.
    before = float(lines[2][4])
    assert all(float(cells[5]) == pytest.approx(float(cells[4]) - before, abs=2e-4) for cells in lines[3:8])
    assert [cells[1] for cells in lines[10:]] == ["1 epochs", "a joint step after each", "2 epochs"]
    assert lines[10][3] != lines[11][3]


@pytest.mark.parametrize("ends", [[0.0], [0.0, 0.0], [0.004, 0.004, 0.004]])
def test_the_time_of_a_very_short_epoch_is_not_zero(ends):
    assert harness.epoch_seconds([{"seconds": end} for end in ends]) > 0
