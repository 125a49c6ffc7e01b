"""Dense features beside those of DATA: `--dense`, `data.yaml` of a folder, and what is said where they do not fit."""

import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import xmlgp
from tests.cli.command import SMALL, changed_description, run, said
from tests.cli.disk import everything
from tests.cli.texts import LABELS, as_json, documents
from xmlgp.data.dataset import Dataset
from xmlgp.data.features import Features
from xmlgp.data.repository_format import read_dataset, write_dataset
from xmlgp.errors import SettingsError, UsageError
from xmlgp.model_folder.folder import ModelFolder

TRAINED = ["--label-weights"]

JSON = ["--format", "jsonl"]


def _dense(dataset, width=4, seed=0):
    """Return dense features that determine labels, too."""
    weights = np.random.default_rng(seed).normal(size=(dataset.K, width))
    return (dataset.labels @ weights + 0.1 * np.random.default_rng(seed + 1).normal(size=(dataset.N, width))).astype(
        "f2"
    )


@pytest.fixture
def dense(workdir):
    """Write train.npy and test.npy beside the data, and return both."""
    arrays = {name: _dense(read_dataset(f"data/{name}.txt")) for name in ("train", "test")}
    for name, array in arrays.items():
        np.save(f"data/{name}.npy", array)
    return arrays


@pytest.fixture
def model(dense, trained):
    trained("dense", "data/train.txt", "model", *SMALL, *TRAINED, "--dense", "data/train.npy")
    return dense


def _scores(*arguments):
    result = run("predict", "model", *arguments, "-k", "3")
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def test_predictions_of_files_are_those_of_arrays(model):
    """Also with DATA from a pipe; in double precision within rounding."""
    expected = _scores("data/test.txt", "--dense", "data/test.npy")
    test, array = read_dataset("data/test.txt"), model["test"]
    for dense in array, array.astype("f4"), "data/test.npy", sp.csr_array(array.astype("f4")):
        xmlgp.predict("model", test.features.sparse, dense=dense, k=3).write("again.scores")
        assert Path("again.scores").read_text() == expected
    single, double = (
        xmlgp.predict("model", test.features.sparse, dense=array.astype(kind), k="all").matrix().toarray()
        for kind in ("f2", "f8")
    )
    np.testing.assert_allclose(double, single, rtol=3e-5)
    piped = run("predict", "model", "-", "-k", "3", "--dense", "data/test.npy", stdin=Path("data/test.txt").read_text())
    assert (piped.exit_code, piped.stdout) == (0, expected)
    np.save("data/test.npy", array[::-1])
    assert _scores("data/test.txt", "--dense", "data/test.npy") != expected


def test_a_model_of_arrays_is_that_of_files(model):
    train = read_dataset("data/train.txt")
    settings = {"factors": 3, "epochs": 2, "batch_size": 16, "label_weights": True}
    own = xmlgp.train(train.features.sparse, labels=train.labels, dense=model["train"], settings=settings)
    loaded = xmlgp.load("model")
    assert own.data == loaded.data
    assert all(np.array_equal(value, loaded.parameters[name]) for name, value in own.parameters.items())
    double = xmlgp.train(
        train.features.sparse, labels=train.labels, dense=[model["train"].astype(float)], settings=settings
    )
    for name, value in own.parameters.items():
        if not name.startswith("replay."):
            np.testing.assert_allclose(double.parameters[name], value, rtol=1e-3, atol=1e-4, err_msg=name)


def test_a_folder_of_data_names_its_dense_files(model):
    expected = _scores("data/test.txt", "--dense", "data/test.npy")
    Path("data/data.yaml").write_text("dense:\n  train: [train.npy]\n  test: [test.npy]\n")
    assert _scores("data") == expected
    line = said(run("predict", "model", "data", "-o", "data/test.npy"), 2)
    assert line == "The output data/test.npy is the same file as the input data/test.npy; choose another output."
    Path("data/data.yaml").write_text("dense:\n  tests: [test.npy]\n")
    assert said(run("predict", "model", "data")) == "data/data.yaml: dense: unknown key 'tests'"


def test_preprocessing_is_of_the_same_data(dense):
    files = "data/train.txt", "model", "--dense", "data/train.npy"
    assert run("preprocess", *files).exit_code == 0
    arrays = dict(ModelFolder("model").entries("preprocess."))
    assert run("train", *files, *SMALL, "-q").exit_code == 0
    assert ModelFolder("model").entries("preprocess.") == arrays


def test_training_does_not_drop_the_dense_features_of_preprocessing(dense):
    files = "data/train.txt", "model"
    np.save("other.npy", dense["train"][:, :1])
    assert run("preprocess", *files, "--dense", "data/train.npy").exit_code == 0
    before = everything(Path("model"))
    for options, present in ([], "have none"), (["--dense", "other.npy"], "have dense features of width 1"):
        assert said(run("train", *files, *SMALL, *options)) == (
            f"model: the points were preprocessed with dense features of width 4, but now {present}; give the same by "
            "--dense FILE, or have them preprocessed again by --overwrite"
        )
    assert everything(Path("model")) == before
    # Other points are preprocessed again, as without dense features.
    result = run("train", "data/test.txt", "model", *SMALL)
    assert (result.exit_code, xmlgp.load("model").data["N"]) == (0, 9)
    assert run("preprocess", *files, "--dense", "data/train.npy", "--overwrite").exit_code == 0
    assert run("train", *files, *SMALL, "--overwrite").exit_code == 0
    assert "dense" not in xmlgp.load("model").data


def test_training_says_that_preprocessing_had_no_dense_features(dense):
    files = "data/train.txt", "model"
    assert run("preprocess", *files).exit_code == 0
    result = run("train", *files, *SMALL, "--dense", "data/train.npy")
    first, *_ = result.stderr.splitlines()
    assert result.exit_code == 0
    assert first == "model: the points were preprocessed without dense features, so they are preprocessed again"
    assert xmlgp.load("model").data["dense"] == [4]
    assert "preprocessed" not in run("train", *files, *SMALL, "--overwrite").stderr


def test_an_interrupted_run_resumes_without_the_dense_features_of_preprocessing(dense, interrupt):
    command = "data/train.txt", "model", *SMALL
    interrupt(3, *command, seconds=3600)
    assert run("preprocess", *command[:2], "--dense", "data/train.npy").exit_code == 0
    assert "model: resuming after 3 of " in run("train", *command).stderr


def test_an_interrupted_run_resumes_with_the_same_dense_features(dense, interrupt):
    command = "data/train.txt", "model", *SMALL, "--dense", "data/train.npy"
    interrupt(3, *command, seconds=3600)
    np.save("data/train.npy", -dense["train"])
    assert "an unfinished run on other data exists" in said(run("train", *command))
    np.save("data/train.npy", dense["train"])
    assert "model: resuming after 3 of " in run("train", *command).stderr


def test_dense_features_alone(dense):
    """A file whose lines have no features, and no other features in Python."""
    train, test = (read_dataset(f"data/{name}.txt") for name in ("train", "test"))
    for name, points in ("train", train), ("test", test):
        write_dataset(f"{name}.txt", Dataset(Features(points.features.sparse[:, :0]), points.labels))
    assert run("train", "train.txt", "model", *SMALL, "--dense", "data/train.npy", "-q").output == ""
    scores = _scores("test.txt", "--dense", "data/test.npy")
    settings = {"factors": 3, "epochs": 2, "batch_size": 16}
    model = xmlgp.train(None, labels=train.labels, dense="data/train.npy", settings=settings)
    assert (model.data, model.data["D"]) == (xmlgp.load("model").data, 0)
    xmlgp.predict(model, None, dense=dense["test"], k=3).write("again.scores")
    assert Path("again.scores").read_text() == scores
    precision = xmlgp.evaluate(xmlgp.predict(model, None, dense=dense["test"], k=3), test.labels).measures["P@1"]
    assert precision > 50
    with pytest.raises(UsageError, match="No points: give data, dense features, or both"):
        xmlgp.predict(model, None).matrix()


def test_learning_dense_features_alone_and_labels_alone():
    """No words, and then no points."""
    random = np.random.default_rng(0)
    dense, new = random.normal(size=(60, 3)), random.normal(size=(9, 3)).astype("f2")
    names = [["left" if point[0] < 0 else "right"] for point in dense]
    table = pd.DataFrame({side: [side in own for own in names] for side in ("left", "right")})
    model = xmlgp.train(None, labels=table, dense=dense, settings={"factors": 2, "epochs": 3})
    more = xmlgp.learn(model, dense=[new], labels=table[:9])
    assert (more.data["N"], more.data["D"], more.data["dense"]) == (69, 0, [3])
    assert len(list(xmlgp.predict(more, None, dense=new, k=3))) == 9
    assert "left" in xmlgp.report(more, None, labels=names[:9], dense=new)
    with pytest.raises(SettingsError, match="`dense` has 9 rows, but `data` has 8 points"):
        xmlgp.predict(more, np.empty((8, 0)), dense=new).matrix()
    with pytest.raises(SettingsError, match="`dense` has 9 rows, but `data` has 1 point$"):
        xmlgp.predict(more, np.empty((1, 0)), dense=new).matrix()
    with pytest.raises(SettingsError, match="`data` has no dense features, but the model was trained with dense"):
        xmlgp.predict(more, np.empty((8, 0))).matrix()


def test_no_points_are_refused(workdir):
    Path("none.txt").write_text("0 0 2\n")
    np.save("none.npy", np.empty((0, 3), np.float32))
    line = said(run("train", "none.txt", "model", "--dense", "none.npy"))
    assert line == "there is nothing to learn from: no training point has a feature"
    assert not Path("model").exists()


def test_a_model_without_dense_features_refuses_them(dense, trained):
    trained("rows", "data", "model", *SMALL, "--label-weights")
    line = said(run("predict", "model", "data/test.txt", "--dense", "data/test.npy"))
    assert line == "data/test.txt has dense features of width 4, but the model was trained without any"


def test_a_damaged_model_is_refused(model):
    changed_description("model", lambda description: description["data"].update(dense=[5]))
    line = "model: the model is damaged, its arrays do not fit its settings"
    assert said(run("predict", "model", "data/test.txt", "--dense", "data/test.npy")) == line
    changed_description("model", lambda description: description["data"].pop("dense"))
    assert said(run("predict", "model", "data/test.txt")) == line
    changed_description("model", lambda description: description["data"].update(dense=["4"]))
    assert said(run("predict", "model", "data/test.txt")) == "model/model.json: the description of the model is damaged"


def test_malformed_lines_have_rows_too(model):
    expected = [json.loads(line) for line in _scores("data/test.txt", "--dense", "data/test.npy", *JSON).splitlines()]
    lines = Path("data/test.txt").read_text().splitlines()
    lines[3] = "x:y:z"
    Path("bad.txt").write_text("\n".join(lines) + "\n")
    found = _scores("bad.txt", "--dense", "data/test.npy", "--bad-lines", "report", *JSON).splitlines()
    found = [json.loads(line) for line in found]
    assert found[2]["error"].startswith("line 4: ")
    del found[2], expected[2]
    assert found == expected


def _documents(count):
    found = documents(count, 0)
    weights = np.random.default_rng(0).normal(size=(len(LABELS), 3))
    return found, np.array([sum(weights[LABELS.index(label)] for label in own["labels"]) for own in found], "f4")


def test_rows_follow_the_documents_of_a_corpus(workdir, monkeypatch):
    """Also where the documents come in several blocks; another number of rows is noticed at the end at the latest."""
    monkeypatch.setattr("xmlgp.text.vectorize.DOCUMENTS", 16)
    found, dense = _documents(60)
    Path("train.jsonl").write_text(as_json(found))
    np.save("train.npy", dense)
    assert run("train", "train.jsonl", "model", *SMALL, "--dense", "train.npy", "-q").output == ""
    expected = _scores("train.jsonl", "--dense", "train.npy")
    texts = [document["text"] for document in found]
    own = xmlgp.predict("model", texts, dense=dense, k=3)
    assert [row["labels"] for row in own] == [json.loads(line)["labels"] for line in expected.splitlines()]
    piped = run("predict", "model", "-", "-k", "3", "--dense", "train.npy", stdin=as_json(found))
    assert (piped.exit_code, piped.stdout) == (0, expected)
    # In a scores file the number of points comes first.
    assert _scores("train.jsonl", "--dense", "train.npy", "--format", "scores").startswith("60 5\n")
    for count in 20, 59:
        np.save("few.npy", dense[:count])
        for name, *options in ["predict"], ["predict", "--format", "scores"], ["report"]:
            line = said(run(name, "model", "train.jsonl", "-o", "out", *options, "--dense", "few.npy"))
            assert re.fullmatch(rf"few\.npy has {count} rows, but train\.jsonl has (32|60) points( or more)?", line)
    np.save("many.npy", np.vstack([dense, dense[:1]]))
    line = said(run("predict", "model", "train.jsonl", "-o", "out", "--dense", "many.npy"))
    assert line == "many.npy has 61 rows, but train.jsonl has 60 points"
    assert not Path("out").exists()


def test_new_words_are_learned_beside_dense_features(workdir):
    """Held-out points of the batch are scored while the model learns."""
    old, dense = _documents(200)
    # Words that said all would leave nothing for dense features to add.
    old = [document | {"text": "common"} if i % 3 == 0 else document for i, document in enumerate(old)]
    new = [document | {"text": f"{document['text']} novel{i % 9}", "id": f"new {i}"} for i, document in enumerate(old)]
    for name, own in ("train", old), ("new", new):
        Path(f"{name}.jsonl").write_text(as_json(own))
    np.save("train.npy", dense)
    assert run("train", "train.jsonl", "model", "-q", *SMALL, "--dense", "train.npy").output == ""
    before = xmlgp.load("model")
    assert "neighbours.scales" in before.parameters
    result = run("learn", "model", "new.jsonl", "--dense", "train.npy")
    assert (result.exit_code, result.stdout) == (0, "")
    after = xmlgp.load("model")
    assert after.data["D"] == before.data["D"] + 9
    assert len(after.parameters["neighbours.scales"]) == after.data["D"]


def test_an_explanation_says_what_each_block_adds(model):
    options = "--dense", "data/test.npy", "-k", "2", "--explain", "1", "--output", "utility"
    records = [json.loads(line) for line in _scores("data/test.txt", *options).splitlines()]
    for record in records:
        for label in record["labels"]:
            assert {*label["from"]} - {"regression", "neighbours"} == {"words", "dense 1", "bias"}
            assert sum(label["from"].values()) == pytest.approx(label["utility"], abs=1e-4)
    rows = list(csv.DictReader(io.StringIO(_scores("data/test.txt", *options, "--format", "csv"))))
    shown = dict(part.rsplit(" ", 1) for part in rows[0]["from"].split("; "))
    first = records[0]["labels"][0]["from"]
    assert {name: float(value) for name, value in shown.items()} == pytest.approx(first, rel=0.01)
