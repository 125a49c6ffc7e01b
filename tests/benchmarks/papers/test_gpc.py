"""Cells of GPC: the bound, test points, choice of the learning rate, and the stopwatch."""

import itertools
import math
from functools import partial

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from sklearn.datasets import dump_svmlight_file

from benchmarks.papers.cells import run_cell
from benchmarks.papers.gpc import FullBatch, GPCCell, Stopwatch, quadrature_bound
from tests.problems import small_dataset
from xmlgp.features.pipeline import standardise_features
from xmlgp.models.gpc.settings import GPCSettings
from xmlgp.models.gpc.train import run_inference


def problem_of(settings, **sizes):
    """Return the coordinates, the labels and Z of a small data set."""
    data = small_dataset(K=1, **sizes)
    preprocessed = standardise_features(data.features, settings)
    return preprocessed.inputs(data.features, settings.dtype), data.labels, preprocessed.inducing


def test_the_quadrature_bound_is_the_bound_of_training():
    settings = GPCSettings(inducing_count=5, iterations=3, inference="vi-jj-hybrid")
    coordinates, labels, inducing = problem_of(settings)
    bounds = []

    def after_epoch(epoch, parameters):
        bounds.append(quadrature_bound(parameters(), coordinates, labels.toarray()[:, 0], settings.nodes))

    _, history = run_inference(coordinates, labels, inducing, settings, after_epoch=after_epoch)
    assert bounds == pytest.approx([epoch["bound"] for epoch in history], rel=1e-9)


@pytest.fixture
def full_batch(monkeypatch):
    monkeypatch.setattr("benchmarks.papers.gpc.BLOCK", 7)
    settings = GPCSettings(inducing_count=4, nodes=40)
    coordinates, labels, inducing = problem_of(settings, D=6)
    positive = labels.toarray()[:, 0]
    bound = partial(quadrature_bound, coordinates=coordinates, positive=positive, nodes=settings.nodes)
    return FullBatch(coordinates, positive, inducing, settings), bound


def test_the_bound_of_all_points_is_that_by_quadrature_and_its_gradient_agrees_with_finite_differences(full_batch):
    full_batch, bound = full_batch
    x = full_batch.start + 0.1 * np.random.default_rng(0).normal(size=len(full_batch.start))
    value, gradient = full_batch.value_and_gradient(x)
    assert value == pytest.approx(bound(full_batch.parameters(x)), rel=1e-12)
    slopes = approx_fprime(x, lambda x: full_batch.value_and_gradient(x)[0], 1e-6)
    np.testing.assert_allclose(gradient, slopes, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("seconds", "ended"), [(0.0, "time"), (math.inf, "converged")])
def test_training_on_all_points_raises_the_bound_until_it_ends(full_batch, seconds, ended):
    full_batch, bound = full_batch
    stopwatch = Stopwatch(seconds, lambda parameters: {"bound": bound(parameters)})
    assert full_batch.maximise(stopwatch) == ended
    assert (stopwatch.curve[-1]["epoch"] == 1) == (ended == "time")
    assert stopwatch.curve[-1]["bound"] > bound(full_batch.parameters(full_batch.start))


def test_pilot_runs_choose_the_learning_rate(tmp_path, monkeypatch):
    # Each look at the clock takes a second, so that runs are as long on every machine.
    monkeypatch.setattr("benchmarks.papers.gpc.time.perf_counter", itertools.count(0.0).__next__)
    data = small_dataset(D=8, K=1)
    test = small_dataset(N=10, D=5, K=1, seed=4)
    for part, points in (("train", data), ("test", test)):
        signs = 2 * points.labels.toarray()[:, 0] - 1
        dump_svmlight_file(points.features.sparse, signs, str(tmp_path / f"some.{part}.svm"), zero_based=False)
    settings = GPCSettings(inducing_count=5, inference="svi-adadelta", learning_rate=1.0)
    cell = GPCCell("some", tmp_path, None, settings, seconds=200, learning_rates=(0.01, 3, 1e200))
    result = run_cell(cell)
    # Test files can have fewer features.
    assert result["sizes"] == {"n": 40, "n_test": 10, "d": 8, "m": 5}
    slow, fast, diverged = result["pilots"]
    assert slow["bound"] < fast["bound"]
    assert result["settings"]["learning_rate"] == 3
    assert diverged["ended"].startswith("diverged: ")
    assert "bound" not in diverged


@pytest.fixture
def clock(monkeypatch):
    """A clock that only the test moves."""

    class Clock:
        now = 100.0

    monkeypatch.setattr("benchmarks.papers.gpc.time.perf_counter", lambda: Clock.now)
    return Clock


def laps(stopwatch, clock, steps, seconds=1.0):
    """Make steps of the given seconds; return what `lap` returned."""
    answers = []
    for step in steps:
        clock.now += seconds
        answers.append(stopwatch.lap(step, lambda step=step: step))
    return answers


def test_the_time_of_measuring_does_not_count(clock):
    def measure(parameters):
        clock.now += 50
        return {"of": parameters}

    stopwatch = Stopwatch(3.5, measure, growth=1)
    assert laps(stopwatch, clock, [1, 2, 3, 4]) == [False, False, False, True]
    assert stopwatch.curve == [{"epoch": n, "seconds": float(n), "of": n} for n in (1, 2, 3, 4)]


def test_intervals_grow_and_the_last_lap_is_measured(clock):
    stopwatch = Stopwatch(9, lambda parameters: {}, growth=2)
    assert laps(stopwatch, clock, range(1, 10))[-2:] == [False, True]
    assert [moment["epoch"] for moment in stopwatch.curve] == [1, 2, 4, 8, 9]
