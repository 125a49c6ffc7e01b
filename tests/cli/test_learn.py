"""`xmlgp learn` with rows: new points, features and labels, batches after each other, and what a model keeps."""

import gzip
import json
import re
import shutil
from pathlib import Path

import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

from tests.cli.command import SMALL, run
from tests.cli.disk import everything
from tests.cli.learning_on import D_KNOWN, INDUCING, K_KNOWN, TRAIN, assert_same_model, more, refused, train_model
from tests.cli.test_interruption import assert_no_other_files
from tests.problems import small_dataset
from xmlgp.data.dataset import Dataset, stack
from xmlgp.data.repository_format import read_dataset, write_dataset
from xmlgp.model_folder.folder import ModelFolder


@pytest.fixture
def model(workdir, monkeypatch):
    return train_model(workdir, monkeypatch)


@pytest.mark.parametrize(("inducing", "epochs"), [("free", 4), ("features", 5)])
def test_new_points_features_and_labels_are_learned(model, inducing, epochs):
    assert run(*TRAIN, *INDUCING[inducing]).exit_code == 0
    before = ModelFolder("model").description
    result = run("learn", "model", "new.txt")
    assert (result.exit_code, result.stdout) == (0, "")
    learned, knows = result.stderr.splitlines()
    assert re.fullmatch(
        r"model: learned 30 points, 2 new labels, 3 new features: bound -[0-9.]+, in [0-9.]+ s", learned
    )
    assert knows == "model: knows 70 points, 28 features and 9 labels"
    folder = ModelFolder("model")
    data = folder.description["data"]
    assert {name: data[name] for name in "NDK"} == {"N": 70, "D": 28, "K": 9}
    assert data["first"] == before["data"]["fingerprint"]
    assert data["fingerprint"] not in (before["data"]["fingerprint"], more().fingerprint)
    (batch,) = folder.description["learned"]
    assert {name: batch[name] for name in "NDK"} == {"N": 30, "D": 3, "K": 2}
    assert batch["fingerprint"] == more().fingerprint
    assert [entry["epoch"] for entry in batch["history"]] == list(range(1, epochs + 1))
    for name in ("history", "settings"):
        assert folder.description[name] == before[name]
    assert_no_other_files(model)
    write_dataset("test.txt", more(9, seed=12))
    assert run("predict", "model", "test.txt", "-o", "scores.txt", "-k", "all").exit_code == 0
    assert run("evaluate", "scores.txt", "test.txt").exit_code == 0


def test_quiet_prints_nothing(model):
    result = run("learn", "model", "new.txt", "-q")
    assert (result.exit_code, result.output) == (0, "")


def test_standard_input_and_gzip_give_the_same_model(model):
    shutil.copytree("model", "piped")
    shutil.copytree("model", "packed")
    text = Path("new.txt").read_bytes()
    Path("new.txt.gz").write_bytes(gzip.compress(text))
    assert run("learn", "model", "new.txt").exit_code == 0
    assert run("learn", "piped", "-", stdin=text).exit_code == 0
    assert run("learn", "packed", "new.txt.gz").exit_code == 0
    assert_same_model("piped", "model")
    assert_same_model("packed", "model")


def test_points_are_not_learned_twice(model):
    run("learn", "model", "new.txt", "-q")
    before = everything(model)
    for options in ([], ["--resume"], ["--no-resume"]):
        result = run("learn", "model", "new.txt", *options)
        line = "model: the model has learned these points already; nothing to do\n"
        assert (result.exit_code, result.output) == (0, line)
        assert everything(model) == before


def test_points_of_training_are_not_learned_again(model):
    write_dataset("other.txt", more(D=D_KNOWN, K=K_KNOWN))
    before = everything(model)
    for _ in range(2):
        result = run("learn", "model", "data/train.txt")
        assert result.stderr == "model: the model has learned these points already; nothing to do\n"
        assert everything(model) == before
        run("learn", "model", "other.txt", "-q")
        before = everything(model)


def test_arrays_that_do_not_change_are_not_written_again(model):
    assert run(*TRAIN, *INDUCING["free"]).exit_code == 0
    before = ModelFolder("model").entries("")
    write_dataset("other.txt", more(D=D_KNOWN, K=K_KNOWN))
    assert run("learn", "model", "other.txt", "-q").exit_code == 0
    after = ModelFolder("model").entries("")
    assert after["parameters.inducing"] == before["parameters.inducing"]
    assert after["parameters.bias"] != before["parameters.bias"]
    assert_no_other_files(model)


def test_what_was_tuned_stays(model):
    assert run("tune", "model", "data/test.txt", "-q").exit_code == 0
    tuned = ModelFolder("model").tuned
    assert tuned is not None
    assert run("learn", "model", "new.txt", "-q").exit_code == 0
    assert ModelFolder("model").tuned == tuned
    assert run("predict", "model", "new.txt", "-q").exit_code == 0


def test_points_of_one_label_in_libsvm_format(workdir):
    write_libsvm("train.svm", small_dataset(K=1))
    assert run("train", "train.svm", "model", *SMALL, "--model", "mlgpf", "-q").exit_code == 0
    Path("new.svm").write_text("+1 3:1 28:2\n")
    learned, knows = run("learn", "model", "new.svm").stderr.splitlines()
    assert learned.startswith("model: learned 1 point, 3 new features: bound -")
    assert knows == "model: knows 41 points, 28 features and 1 label"
    # Fewer features are no mistake in this format.
    write_libsvm("few.svm", more(5, D=9, K=1))
    assert run("learn", "model", "few.svm", "-q").exit_code == 0
    Path("other.svm").write_text("2 1:1\n3 2:1\n")
    assert refused(workdir / "model", "model", "other.svm").startswith("other.svm:1: label 2 is not one of ")


def write_libsvm(path, dataset):
    dump_svmlight_file(dataset.features.toarray(), 2 * dataset.labels.toarray()[:, 0] - 1, path, zero_based=False)


def test_another_format_than_that_of_training_is_refused(model):
    write_libsvm("new.svm", more(K=1))
    line = refused(model, "model", "new.svm")
    assert line.startswith("new.svm: the points have 1 label, but the model was trained on 7; ")


def test_propensities_of_a_model_are_those_of_all_points_that_it_learned(model):
    assert run("learn", "model", "new.txt", "-q").exit_code == 0
    first, new = (read_dataset(file) for file in ("data/train.txt", "new.txt"))
    wide = Dataset(resized(first.features, new.D), resized(first.labels, new.K))
    write_dataset("all.txt", stack([wide, new]))
    assert run("predict", "model", "new.txt", "-o", "scores", "-q").exit_code == 0
    found, expected = (
        run("evaluate", "scores", "new.txt", "--train", train, "--json") for train in ("model", "all.txt")
    )
    assert found.exit_code == expected.exit_code == 0
    assert json.loads(found.stdout) == json.loads(expected.stdout)
    assert "PSP@1" in found.stdout


def test_a_model_without_counts_has_no_propensities(model):
    assert run("predict", "model", "data/test.txt", "-o", "scores", "-q").exit_code == 0
    description = json.loads((model / "model.json").read_text())
    del description["arrays"]["parameters.statistics.labels"]
    (model / "model.json").write_text(json.dumps(description))
    found = run("evaluate", "scores", "data/test.txt", "--train", "model")
    assert found.exit_code == 1
    assert "the model has no counts of its labels" in found.stderr


def resized(matrix, columns):
    return sp.csr_array((matrix.data, matrix.indices, matrix.indptr), shape=(matrix.shape[0], columns))
