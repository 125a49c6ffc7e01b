"""What `xmlgp learn` refuses, without changing anything."""

import errno
import json
import math
import os
import re
import shutil
from pathlib import Path

import pytest

from tests.cli.command import run, said
from tests.cli.disk import everything, failing_disk
from tests.cli.learning_on import CANNOT, D_KNOWN, K_KNOWN, arrays, more, refused, train_model
from tests.problems import paired_dataset
from xmlgp.data.repository_format import write_dataset
from xmlgp.model_folder.folder import ModelFolder


@pytest.fixture
def model(workdir, monkeypatch):
    return train_model(workdir, monkeypatch)


@pytest.mark.parametrize(
    ("D", "K", "reason"),
    [
        (D_KNOWN - 1, K_KNOWN, "the points have 24 features, but the model was trained on 25"),
        (D_KNOWN, K_KNOWN - 1, "the points have 6 labels, but the model was trained on 7"),
    ],
)
def test_points_with_fewer_features_or_labels_are_refused(model, D, K, reason):
    write_dataset("new.txt", more(D=D, K=K))
    line = refused(model, "model", "new.txt")
    assert line == f"new.txt: {reason}; points to learn from need at least as many"


@pytest.mark.parametrize("content", ["", "2 25 7\n0 0:1\n", "1 25 7\n0 0:nan\n"])
def test_malformed_points_are_refused(model, content):
    Path("new.txt").write_text(content)
    refused(model, "model", "new.txt")
    refused(model, "model", "-", stdin=content)


def test_missing_points_are_refused(model):
    assert "missing.txt" in refused(model, "model", "missing.txt")


def test_nothing_to_learn_is_a_wrong_use(model):
    assert refused(model, "model", status=2) == "Nothing to learn: give data, or labels to add."


def test_a_model_of_rows_has_no_names_to_add_to(model):
    Path("labels").write_text("a\n")
    line = refused(model, "model", "--add-labels", "labels")
    assert line == "labels:1: the model of 7 labels has no names of labels, so none can be added"


@pytest.mark.parametrize("kind", CANNOT)
def test_models_that_cannot_learn_on_are_refused(workdir, kind):
    write_dataset("data/train.txt", paired_dataset(K=1))
    options = ["-M", "6"] if kind == "gpc" else []
    assert run("train", "data", "model", "--model", kind, "--iterations", "2", "-q", *options).exit_code == 0
    write_dataset("new.txt", paired_dataset(K=1, seed=1))
    line = refused(workdir / "model", "model", "new.txt")
    assert re.fullmatch("a model of (gpc|bmlpl) cannot learn on, only .* can; train again on all points together", line)


def test_a_folder_that_is_only_preprocessed_is_refused(workdir):
    assert run("preprocess", "data", "model", "-M", "5", "-q").exit_code == 0
    write_dataset("new.txt", more())
    line = refused(workdir / "model", "model", "new.txt")
    assert line == "model: the model is preprocessed, but not trained yet"


def test_a_missing_model_is_refused(workdir):
    write_dataset("new.txt", more())
    before = everything(workdir)
    said(run("learn", "missing", "new.txt"))
    os.mkdir("empty")
    said(run("learn", "empty", "new.txt"))
    os.rmdir("empty")
    assert everything(workdir).keys() - before.keys() <= {"cache"}


@pytest.mark.parametrize("name", ["parameters.bias", "parameters.statistics.labels", "preprocess.idf"])
@pytest.mark.parametrize("damage", ["missing", "short", "other"])
def test_a_damaged_model_is_refused(model, name, damage):
    file = model / ModelFolder("model").entries("")[name]["file"]
    if damage == "missing":
        file.unlink()
    elif damage == "short":
        file.write_bytes(file.read_bytes()[:-4])
    else:
        file.write_bytes(b"x" * 100)
    assert refused(model, "model", "new.txt").startswith("model")


def test_a_damaged_description_is_refused(model):
    (model / "model.json").write_text("{}")
    assert refused(model, "model", "new.txt").startswith("model/model.json")


def test_a_model_of_an_earlier_version_is_refused(model):
    file = model / "model.json"
    description = json.loads(file.read_text())
    for name in [name for name in description["arrays"] if name.startswith("parameters.statistics.")]:
        (model / description["arrays"].pop(name)["file"]).unlink()
    file.write_text(json.dumps(description))
    assert run("predict", "model", "data/test.txt").exit_code == 0
    line = refused(model, "model", "new.txt")
    assert line == "the model lacks what learning on needs, because an earlier version trained it; train it again"


@pytest.mark.parametrize(
    "batches", [{}, [1], [{"N": 1}], [{"N": -1, "D": 0, "K": 0, "fingerprint": "a", "history": []}]], ids=str
)
def test_damaged_descriptions_of_batches_are_refused(model, batches):
    file = model / "model.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"learned": batches}))
    assert refused(model, "model", "new.txt") == "model/model.json: the description of the model is damaged"
    assert said(run("show", "model")) == "model/model.json: the description of the model is damaged"


#: Shares of the operations that change the folder.
MOMENTS = [0, 0.3, 0.6, 1]


@pytest.mark.parametrize(("code", "lasting"), [(errno.EACCES, False), (errno.ENOSPC, True)])
def test_a_folder_that_cannot_be_written_keeps_its_model(model, monkeypatch, code, lasting):
    monkeypatch.setattr("xmlgp.mlgpf.inducing.InducingMethod.learning_steps", 3)
    monkeypatch.setattr("xmlgp.mlgpf.learning.LEAST_EPOCHS", 1)
    shutil.copytree("model", "before")
    command = ["learn", "model", "new.txt", "-q", "--no-cache", "--checkpoint-every", "1e-9"]
    with failing_disk(monkeypatch, model, math.inf, None) as trial:
        assert run(*command).exit_code == 0
    expected, failures = arrays("model"), 0
    for share in MOMENTS:
        shutil.rmtree("model")
        shutil.copytree("before", "model")
        with failing_disk(monkeypatch, model, 1 + round(share * (len(trial.done) - 1)), code, lasting):
            result = run(*command)
        if result.exit_code:
            assert (result.exit_code, result.stdout) == (1, "")
            assert re.fullmatch("Error: .*model.*", result.stderr.splitlines()[-1])
            assert arrays("model") == arrays("before")
            failures += 1
        # Files that could not be removed are harmless.
        assert run(*command).exit_code == 0
        assert arrays("model") == expected
    assert failures >= 2
