"""Cells of GPC: what a training is measured by, test points, pilots, and how they are laid out."""

import dataclasses
import json

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file

from tests.problems import small_dataset
from xmlgp.errors import CatalogueError, NumericalError
from xmlgp.experiments.catalogue import load_experiment
from xmlgp.experiments.cells import Cell, read_cell, run_cell
from xmlgp.experiments.figures import draw_experiment
from xmlgp.experiments.gpc import _train, quadrature_bound
from xmlgp.experiments.tables import collect, settled_after, write_table
from xmlgp.experiments.watch import Watch
from xmlgp.gpc.settings import GPCSettings
from xmlgp.gpc.train import train_gpc
from xmlgp.preprocess.pipeline import preprocess

SHORT = 0.01


@pytest.fixture
def results(tmp_path):
    (tmp_path / "results" / "cells").mkdir(parents=True)
    return tmp_path / "results"


@pytest.fixture
def german(catalogue, data, results):
    """The experiment with german, its cells finished."""
    experiment = load_experiment(catalogue, "i-figure4", data, ["german"], SHORT)
    for cell in experiment.cells:
        run_cell(cell, results)
    return experiment


def cell_of(experiment, method):
    return next(cells[0] for _, name, _, cells in experiment.rows if name == method)


@pytest.mark.parametrize("inference", ["vi-jj", "vi-jj-full", "vi-jj-hybrid"])
def test_the_bound_is_that_of_training(inference):
    data = small_dataset(K=1)
    settings = GPCSettings(inducing_count=5, iterations=3, inference=inference)
    preprocessed = preprocess(data.features, settings)
    coordinates = preprocessed.coordinates(data.features, settings.dtype)
    found = []

    def after_pass(epoch, parameters):
        found.append(quadrature_bound(parameters(), coordinates, data.labels.toarray()[:, 0], settings.nodes))

    _, history = train_gpc(coordinates, data.labels, preprocessed.inducing, settings, after_pass=after_pass)
    assert found == pytest.approx([epoch["bound"] for epoch in history], rel=1e-9)


def test_every_method_has_a_course_on_the_same_points(german, results):
    methods = [method for _, method, *_ in german.rows]
    assert methods == ["I-svi-adadelta", "I-vi-jj", "I-vi-jj-full", "I-vi-jj-hybrid", "I-vi-taylor", "I-L-BFGS-B"]
    found = [read_cell(cell, results) for cell in german.cells]
    assert [result["full_batch"] for result in found] == [False] * 5 + [True]
    # A fifth of the 16 points is held out.
    assert all(result["sizes"] == {"n": 13, "n_test": 3, "d": 12, "m": 13} for result in found)
    for result in found:
        moments = result["history"]
        assert all({"accuracy", "log_loss", "bound", "seconds", "epoch"} <= moment.keys() for moment in moments)
        assert all(a["seconds"] < b["seconds"] for a, b in zip(moments, moments[1:], strict=False))
        assert moments[-1]["accuracy"] == result["measures"]["accuracy"]
        assert result["seconds_allowed"] == 0.03


def test_minibatches_are_measured_within_a_pass(catalogue, data, results):
    experiment = load_experiment(catalogue, "i-figure4", data, ["svmguide1"], SHORT)
    cell = cell_of(experiment, "I-svi-adadelta")
    cell = dataclasses.replace(cell, settings=dataclasses.replace(cell.settings, batch_size=10))
    run_cell(cell, results)
    # 51 points are 6 minibatches.
    assert read_cell(cell, results)["history"][0]["epoch"] == pytest.approx(1 / 6)


@pytest.mark.parametrize("inference", ["vi-jj", "vi-jj-full", "vi-jj-hybrid", "vi-taylor"])
def test_an_iteration_is_measured_and_ended_in_its_midst(inference):
    data = small_dataset(K=1)
    settings = GPCSettings(inducing_count=5, inference=inference)
    preprocessed = preprocess(data.features, settings)
    positive = data.labels.toarray()[:, 0]
    problem = preprocessed.coordinates(data.features, settings.dtype), positive, preprocessed.inducing, settings
    watch = Watch(1e9, lambda parameters: {"bound": quadrature_bound(parameters, *problem[:2], 10)}, growth=0)
    lap = watch.lap
    watch.lap = lambda *arguments: lap(*arguments) or len(watch.curve) == 4
    assert _train(False, problem, watch) == "time"
    # L-BFGS-B evaluates the bound five times an iteration at least.
    assert [point["epoch"] for point in watch.curve] == [1 - 1 / (1 + n) for n in range(1, 5)]
    bounds = [point["bound"] for point in watch.curve]
    assert bounds == sorted(bounds)


def test_test_points_without_the_last_features_are_test_points(tmp_path, results):
    data, test = small_dataset(D=8, K=1), small_dataset(N=10, D=5, K=1, seed=4)
    for part, points in (("train", data), ("test", test)):
        signs = 2 * points.labels.toarray()[:, 0] - 1
        dump_svmlight_file(points.features, signs, str(tmp_path / f"some.{part}.svm"), zero_based=False)
    cell = Cell("some", tmp_path, None, GPCSettings(inducing_count=5), seconds=0.01)
    run_cell(cell, results)
    assert read_cell(cell, results)["sizes"] == {"n": 40, "n_test": 10, "d": 8, "m": 5}


def test_pilots_choose_the_learning_rate(german, results):
    cell = dataclasses.replace(cell_of(german, "I-svi-adadelta"), learning_rates=(0.01, 3, 1e200))
    run_cell(cell, results)
    found = read_cell(cell, results)
    slow, fast, lost = found["pilots"]
    assert slow["bound"] < fast["bound"]
    assert found["settings"]["learning_rate"] == 3
    assert lost["ended"].startswith("numbers lost: ")
    assert "bound" not in lost


def test_a_training_that_is_lost_at_once_says_so(german, results):
    cell = dataclasses.replace(cell_of(german, "I-svi-adadelta"), learning_rates=(1e200,))
    with pytest.raises(NumericalError, match="^german, svi-adadelta: numbers lost: "):
        run_cell(cell, results)


def test_what_ends_or_steers_a_training_is_in_the_name_of_its_cell(tmp_path):
    plain = Cell("some", tmp_path, None, GPCSettings())
    others = {"held_out": 0.2, "seconds": 1.0, "learning_rates": (1, 2), "full_batch": True}
    names = {dataclasses.replace(plain, **{name: value}).name for name, value in others.items()}
    assert len(names | {plain.name}) == 5


def test_it_has_settled_where_it_does_not_fall_back():
    history = [{"seconds": float(n), "accuracy": value} for n, value in enumerate([70, 80, 75, 79, 81, 79.5], 1)]
    assert settled_after(history, 79) == 4
    assert settled_after(history, 60) == 1
    assert settled_after(history, 79.6) is None


def test_the_table_says_when_methods_are_near_the_best(german, catalogue, results):
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


def test_the_figure_has_the_title_of_the_paper_and_all_methods(german, results, drawn):
    draw_experiment(german, results)
    (axis,) = drawn[0].axes
    assert axis.get_title() == "german, n = 13, d = 12, m = 13"
    assert (axis.get_xscale(), axis.get_xlabel()) == ("log", "seconds of training")
    for line, (_, method, _, cells) in zip(axis.get_lines(), german.rows, strict=True):
        history = read_cell(cells[0], results)["history"]
        assert line.get_label() == method
        np.testing.assert_array_equal(line.get_ydata(), [moment["accuracy"] for moment in history])
        # One point alone would not be seen without.
        assert line.get_markevery()[-1] == len(history) - 1


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        ({"seconds": {"german": 1}}, "seconds must have a number for each data set"),
        (
            {"seconds": {"german": 1, "svmguide1": 0}},
            "learning_rates, and seconds of data sets, must be numbers above 0",
        ),
        ({"learning_rates": ["fast"]}, "learning_rates, and seconds of data sets, must be numbers above 0"),
        ({"full_batch": ["I-vi-jj"]}, "full_batch is missing or not as it should be"),
        ({"full_batch": {"other": "s-SE"}}, "s-SE is a recipe of mlgpf; kind accuracy is of gpc"),
    ],
)
def test_mistakes_are_one_sentence(catalogue, data, broken, sentence):
    catalogue.experiments["i-figure4"].update(broken | {"settings": {}})
    with pytest.raises(CatalogueError, match=f"experiment i-figure4: {sentence}$"):
        load_experiment(catalogue, "i-figure4", data)
