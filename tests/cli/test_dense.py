"""Dense features beside those of DATA: what they are worth, and what is said where they do not fit."""

import json
from pathlib import Path

import numpy as np
import pytest

import xmlgp
from tests.cli.command import SMALL, run, said
from xmlgp.data.formats import read_dataset
from xmlgp.models.mlgpf import held_out
from xmlgp.runtime.errors import SettingsError

TRAINED = ["--label-weights"]


@pytest.fixture
def dense(workdir, monkeypatch):
    """Write train.npy and test.npy, which determine the labels, beside the data, and return both."""
    monkeypatch.setattr(held_out, "CALIBRATION_LEAST", 1)
    arrays = {}
    for name in ("train", "test"):
        labels = read_dataset(f"data/{name}.txt").labels
        weights = np.random.default_rng(0).normal(size=(labels.shape[1], 4))
        arrays[name] = (labels @ weights + 0.1 * np.random.default_rng(1).normal(size=(labels.shape[0], 4))).astype(
            "f2"
        )
        np.save(f"data/{name}.npy", arrays[name])
    return arrays


@pytest.fixture
def model(dense, trained):
    trained("dense", "data/train.txt", "model", *SMALL, *TRAINED, "--dense", "data/train.npy")
    return dense


def scores(*arguments):
    result = run("predict", "model", *arguments, "-k", "3")
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def test_predictions_of_files_are_those_of_arrays(model):
    expected = scores("data/test.txt", "--dense", "data/test.npy")
    test, array = read_dataset("data/test.txt"), model["test"]
    for values in array, array.astype("f4"), "data/test.npy":
        xmlgp.write(xmlgp.predict("model", xmlgp.Source(test.features.sparse, dense=values), k=3), "again.scores")
        assert Path("again.scores").read_text() == expected
    piped = run("predict", "model", "-", "-k", "3", "--dense", "data/test.npy", stdin=Path("data/test.txt").read_text())
    assert (piped.exit_code, piped.stdout) == (0, expected)
    np.save("data/test.npy", array[::-1])
    assert scores("data/test.txt", "--dense", "data/test.npy") != expected


def test_a_model_of_arrays_is_that_of_files(model):
    train = read_dataset("data/train.txt")
    loaded = xmlgp.load("model")
    own = xmlgp.train(xmlgp.Source(train.features.sparse, train.labels, model["train"]), settings=loaded.settings)
    assert own.data | {"first_feature": 0} == loaded.data
    assert own.data["dense"] == 4
    assert "neighbours.dense_values" in own.parameters
    assert all(np.array_equal(value, loaded.parameters[name]) for name, value in own.parameters.items())
    # Latent functions and label weights are those without dense features.
    alone = xmlgp.train(train.features.sparse, labels=train.labels, settings=loaded.settings).parameters
    for name in alone.keys() - {"calibration"}:
        np.testing.assert_array_equal(alone[name], own.parameters[name])


def test_dense_features_that_determine_the_labels_raise_the_precision(model):
    test = read_dataset("data/test.txt")
    loaded = xmlgp.load("model")
    words = xmlgp.train("data/train.txt", settings=loaded.settings)
    with_dense = xmlgp.predict(loaded, xmlgp.Source("data/test.txt", dense="data/test.npy"), k=5)
    alone = xmlgp.predict(words, "data/test.txt", k=5)
    results = [xmlgp.evaluate(scores, test.labels).measures["nDCG@5"] for scores in (with_dense, alone)]
    assert results[0] >= results[1]


def test_an_explanation_says_what_the_neighbours_add(model):
    arguments = (
        "data/test.txt",
        "--dense",
        "data/test.npy",
        "--explain",
        "2",
        "--format",
        "jsonl",
        "--output",
        "utility",
    )
    for line in scores(*arguments).splitlines():
        for label in json.loads(line)["labels"]:
            assert sum(label["from"].values()) == pytest.approx(label["utility"], abs=1e-3)
            assert set(label["from"]) == {"words", "neighbours", "bias"}


def test_dense_features_that_do_not_fit_are_refused(model, trained):
    np.save("wide.npy", np.ones((9, 5)))
    np.save("short.npy", np.ones((8, 4)))
    trained("small", "data/train.txt", "other", *SMALL)
    test = "data/test.txt"
    trained_with = "but the model was trained with 4"
    for arguments, message in [
        (["model", test], f"{test} has 0 dense features, {trained_with}; give them by --dense FILE"),
        (["model", test, "--dense", "wide.npy"], f"{test} has 5 dense features, {trained_with}"),
        (["model", test, "--dense", "short.npy"], f"short.npy has 8 rows, but {test} has 9 points"),
        (["other", test, "--dense", "wide.npy"], f"{test} has 5 dense features, but the model was trained with 0"),
    ]:
        assert said(run("predict", *arguments)) == message
    for options in (["--model", "bmlpl"], ["--inducing", "free"], ["--no-neighbours"]):
        result = run("train", "data/train.txt", "new", "--dense", "data/train.npy", *options)
        assert said(result).startswith("dense features need model=mlgpf with inducing=features, kernel=linear and")
    with pytest.raises(SettingsError, match="^`data` has 0 dense features"):
        list(xmlgp.predict("model", read_dataset("data/test.txt").features.sparse))


def test_an_interrupted_run_resumes_with_the_same_dense_features(dense, interrupt):
    command = "data/train.txt", "model", *SMALL, "--dense", "data/train.npy"
    interrupt(3, *command)
    assert run("train", *command).exit_code == 0
    own = xmlgp.load("model").parameters
    assert run("train", "data/train.txt", "whole", *SMALL, "--dense", "data/train.npy").exit_code == 0
    for name, array in xmlgp.load("whole").parameters.items():
        np.testing.assert_array_equal(own[name], array)
