"""Cells of GPC: the bound, test points, choice of the learning rate, the table, and the stopwatch."""

import dataclasses
import json
import math
from functools import partial

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from sklearn.datasets import dump_svmlight_file

from benchmarks.papers.catalogue import load_experiment, load_papers
from benchmarks.papers.cells import read_result, run_cell
from benchmarks.papers.gpc import FullBatch, GPCCell, Stopwatch, TrainingProblem, _train, quadrature_bound
from benchmarks.papers.report import collect, write_table
from tests.problems import small_dataset
from xmlgp.errors import CatalogueError
from xmlgp.gpc.settings import GPCSettings
from xmlgp.gpc.train import run_inference
from xmlgp.preprocess.pipeline import standardise_features

SHORT = 0.01


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    (folder / "cells").mkdir()
    return folder


@pytest.fixture(scope="module")
def german(data, results):
    """Return the experiment on german after running its cells."""
    experiment = load_experiment(load_papers(), "i-figure4", data, ["german"], SHORT)
    for cell in experiment.cells:
        run_cell(cell, results)
    return experiment


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


def test_every_method_has_a_history_on_the_same_points(german, results):
    methods = [method for dataset, method, *_ in german.rows if dataset == "german"]
    assert methods == ["I-svi-adadelta", "I-vi-jj", "I-vi-jj-full", "I-vi-jj-hybrid", "I-vi-taylor", "I-L-BFGS-B"]
    stored = [read_result(cell, results) for cell in german.cells]
    assert [result["full_batch"] for result in stored] == [False] * 5 + [True]
    # A fifth of the 16 points is held out.
    assert all(result["sizes"] == {"n": 13, "n_test": 3, "d": 12, "m": 13} for result in stored)
    for result in stored:
        moments = result["history"]
        assert all({"accuracy", "log_loss", "bound", "seconds", "epoch"} <= moment.keys() for moment in moments)
        assert all(a["seconds"] < b["seconds"] for a, b in zip(moments, moments[1:], strict=False))
        assert moments[-1]["accuracy"] == result["measures"]["accuracy"]
        assert result["seconds_allowed"] == 0.03


@pytest.mark.parametrize("inference", ["vi-jj", "vi-taylor"])
def test_parameters_are_measured_within_an_iteration_which_the_time_limit_can_end(inference):
    settings = GPCSettings(inducing_count=5, inference=inference)
    coordinates, labels, inducing = problem_of(settings)
    problem = TrainingProblem(coordinates, labels.toarray()[:, 0], inducing, settings)
    stopwatch = Stopwatch(1e9, lambda parameters: {"bound": quadrature_bound(parameters, *problem[:2], 10)}, growth=0)
    lap = stopwatch.lap
    stopwatch.lap = lambda *arguments: lap(*arguments) or len(stopwatch.curve) == 4
    assert _train(False, problem, stopwatch) == "time"
    # L-BFGS-B evaluates the bound five times per iteration or more.
    assert [point["epoch"] for point in stopwatch.curve] == [1 - 1 / (1 + n) for n in range(1, 5)]
    bounds = [point["bound"] for point in stopwatch.curve]
    assert bounds == sorted(bounds)


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


def test_test_files_can_have_fewer_features(tmp_path, results):
    data = small_dataset(D=8, K=1)
    test = small_dataset(N=10, D=5, K=1, seed=4)
    for part, points in (("train", data), ("test", test)):
        signs = 2 * points.labels.toarray()[:, 0] - 1
        dump_svmlight_file(points.features.sparse, signs, str(tmp_path / f"some.{part}.svm"), zero_based=False)
    cell = GPCCell("some", tmp_path, None, GPCSettings(inducing_count=5), seconds=0.01)
    run_cell(cell, results)
    assert read_result(cell, results)["sizes"] == {"n": 40, "n_test": 10, "d": 8, "m": 5}


def test_pilot_runs_choose_the_learning_rate(german, results):
    cell = dataclasses.replace(german.cells[0], learning_rates=(0.01, 3, 1e200))
    run_cell(cell, results)
    result = read_result(cell, results)
    slow, fast, diverged = result["pilots"]
    assert slow["bound"] < fast["bound"]
    assert result["settings"]["learning_rate"] == 3
    assert diverged["ended"].startswith("diverged: ")
    assert "bound" not in diverged


def test_the_table_has_the_time_to_near_best_accuracy(german, catalogue, results):
    rows = collect(german, catalogue.entries, results)
    for row, finals in zip(rows, [(50, 90), (90, 89.6), (89, 89), (90, 90), (90, 90), (90, 90)], strict=True):
        row["history"] = [row["history"][0] | {"seconds": n + 1.5, "accuracy": a} for n, a in enumerate(finals)]
        row["measures"]["accuracy"]["mean"] = finals[-1]
    markdown = write_table(german, rows, results)
    lines = [line.split(" | ") for line in markdown.splitlines() if line.startswith("| german")]
    assert [line[5] for line in lines] == ["2.5", "1.5", "—", "1.5", "1.5", "1.5"]
    assert markdown.count("german, I-svi-adadelta: minibatches of 50; learning rate ") == 1
    kept = json.loads((results / "i-figure4.json").read_text())["rows"]
    assert [len(row["pilots"]) for row in kept] == [5, 0, 0, 0, 0, 0]
    assert kept[0]["history"][1]["accuracy"] == 90


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        ({"seconds": {"german": 1}}, "seconds must have a number for each data set"),
        (
            {"learning_rates": {"I-svi-adadelta": ["fast"]}},
            "learning_rates: I-svi-adadelta 1 must be a positive number",
        ),
        ({"topic_shares": [0.5]}, "unknown key 'topic_shares'"),
        ({"full_batch": {"other": "s-SE"}}, "s-SE is a recipe of mlgpf; kind accuracy needs one of gpc"),
    ],
)
def test_invalid_experiments_are_refused_in_one_sentence(catalogue, data, broken, sentence):
    catalogue.experiments["i-figure4"].update(broken | {"settings": {}})
    with pytest.raises(CatalogueError, match=f"experiment i-figure4: {sentence}"):
        load_experiment(catalogue, "i-figure4", data)


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
