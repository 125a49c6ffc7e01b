"""`xmlgp learn` with text and names: words and labels that are added, and names that are refused."""

import os
from pathlib import Path

import pytest

from tests.cli.command import run
from tests.cli.disk import everything
from tests.cli.learning_on import D_KNOWN, K_KNOWN, TRAIN, more, refused, train_model, train_text_model
from tests.cli.test_predict_text import as_json, documents
from tests.problems import small_dataset
from xmlgp.data.repository_format import write_dataset
from xmlgp.model_folder.folder import ModelFolder


@pytest.fixture
def model(workdir, monkeypatch):
    return train_model(workdir, monkeypatch)


@pytest.fixture
def text(workdir, monkeypatch):
    return train_text_model(workdir, monkeypatch)


def test_words_and_labels_of_text_are_added(text):
    names = ModelFolder("model").names
    result = run("learn", "model", "new.jsonl")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "model: learned 20 points, 1 new label, 1 new feature: bound -" in result.stderr
    found = ModelFolder("model").names
    assert found.labels == [*names.labels, "the violet"]
    assert found.features == [*names.features, "violet"]
    assert found.vectorizer.words == found.features
    result = run("predict", "model", "-", "--format", "jsonl", "-k", "9", stdin='{"text": "violet", "labels": []}\n')
    assert result.exit_code == 0, result.output
    assert "the violet" in result.stdout


def test_documents_are_not_learned_twice(text):
    run("learn", "model", "new.jsonl", "-q")
    before = everything(text)
    for _ in range(2):
        result = run("learn", "model", "new.jsonl")
        assert result.exit_code == 0
        assert result.stderr.splitlines()[-1] == "model: the model has learned these points already; nothing to do"
        assert everything(text) == before


def test_documents_are_not_learned_twice_after_others(text):
    run("learn", "model", "new.jsonl", "-q")
    Path("other.jsonl").write_text('{"text": "indigo red", "labels": ["the indigo"]}\n' + as_json(documents(9, 3)))
    run("learn", "model", "other.jsonl", "-q")
    assert len(ModelFolder("model").names.labels) == 7
    before = everything(text)
    for file in ("new.jsonl", "other.jsonl", "train.jsonl"):
        result = run("learn", "model", file)
        assert result.stderr.splitlines()[-1] == "model: the model has learned these points already; nothing to do"
        assert everything(text) == before


def test_added_labels_leave_the_answers_of_known_ones(text):
    before = run("predict", "model", "new.jsonl", "-k", "5").stdout
    Path("labels").write_text("the violet\nthe indigo\n")
    result = run("learn", "model", "--add-labels", "labels")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.splitlines()[0].startswith("model: learned 2 new labels, in ")
    assert ModelFolder("model").names.labels[-2:] == ["the violet", "the indigo"]
    assert run("predict", "model", "new.jsonl", "-k", "5").stdout == before
    assert "fingerprint" in ModelFolder("model").description["data"]
    # The documents have one of them.
    result = run("learn", "model", "new.jsonl")
    assert "model: learned 20 points, 1 new feature: bound -" in result.stderr
    assert ModelFolder("model").names.labels[-2:] == ["the violet", "the indigo"]
    assert "learned   2 new labels" in run("show", "model").stdout


def test_show_sums_up_all_but_the_last_batches(model, monkeypatch):
    monkeypatch.setattr("xmlgp.cli.show.BATCHES", 1)
    for seed, count in enumerate((3, 4, 5)):
        write_dataset("new.txt", more(N=count, seed=seed))
        assert run("learn", "model", "new.txt", "-q").exit_code == 0
    lines = [line for line in run("show", "model").stdout.splitlines() if line.startswith("learned")]
    assert lines[0] == "learned   2 batches of 7 points, and then"
    assert lines[1].startswith("learned   5 points: bound ")
    assert len(lines) == 2


def test_labels_and_points_are_added_together(text):
    Path("labels").write_text("the indigo\n")
    result = run("learn", "model", "new.jsonl", "--add-labels", "labels")
    assert "model: learned 20 points, 2 new labels, 1 new feature: bound -" in result.stderr
    assert ModelFolder("model").names.labels[-2:] == ["the indigo", "the violet"]


def test_names_from_standard_input(text):
    assert run("learn", "model", "--add-labels", "-", stdin="the indigo\n").exit_code == 0
    assert ModelFolder("model").names.labels[-1] == "the indigo"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("a\n\n", "labels:2: this line is empty, but each line must have the name of a label"),
        ("a\nb\na\n", "labels:3: label 'a' is in line 1 already"),
        ("", "labels:1: the file is empty"),
        ("a\tb\n", None),
        (b"\xff\n", None),
    ],
)
def test_bad_names_are_refused(text, content, reason):
    Path("labels").write_bytes(content if isinstance(content, bytes) else content.encode())
    line = refused(text, "model", "--add-labels", "labels")
    assert line.startswith("labels:1: ") if reason is None else line == reason


def test_labels_that_the_model_has_are_not_added_again(text):
    Path("labels").write_text("the red\nnew\n")
    assert run("learn", "model", "--add-labels", "labels", "-q").exit_code == 0
    K = ModelFolder("model").description["data"]["K"]
    result = run("learn", "model", "--add-labels", "labels")
    assert result.exit_code == 0
    assert result.stderr == "model: the model has these labels already; nothing to do\n"
    assert ModelFolder("model").description["data"]["K"] == K


def test_labels_are_added_though_the_points_are_known(text):
    Path("labels").write_text("the indigo\n")
    assert run("learn", "model", "new.jsonl", "-q").exit_code == 0
    N = ModelFolder("model").description["data"]["N"]
    assert run("learn", "model", "new.jsonl", "--add-labels", "labels").exit_code == 0
    folder = ModelFolder("model")
    assert folder.names.labels[-1] == "the indigo"
    assert folder.description["data"]["N"] == N


def test_no_points_are_not_a_batch(model):
    Path("none.txt").write_text(f"0 {D_KNOWN} {K_KNOWN}\n")
    result = run("learn", "model", "none.txt")
    assert result.exit_code == 0
    assert result.stderr == "model: there are no points; nothing to do\n"
    assert "learned" not in ModelFolder("model").description


def test_only_one_argument_can_be_standard_input(text):
    line = refused(text, "model", "-", "--add-labels", "-", status=2)
    assert line == "Only one of DATA and --add-labels can be standard input."


def test_features_that_are_too_large_are_refused(workdir):
    assert run(*TRAIN, "--weighting", "none").exit_code == 0
    Path("new.txt").write_text(f"1 {D_KNOWN} {K_KNOWN}\n1 0:1e18\n")
    line = refused(workdir / "model", "model", "new.txt")
    assert line.startswith("features are as large as 1e+18")


def test_documents_without_any_are_refused(text):
    Path("none.jsonl").write_text("")
    refused(text, "model", "none.jsonl")


def test_text_for_a_model_of_rows_is_refused(model):
    Path("new.jsonl").write_text(as_json(documents(5, 1)))
    assert refused(model, "model", "new.jsonl") == "new.jsonl is text, but the model was not trained on text"


def test_names_that_clash_are_refused(text):
    names = ModelFolder("model").names
    os.mkdir("rows")
    write_dataset("rows/new.txt", small_dataset(D=len(names.features), K=len(names.labels)))
    Path("rows/labels.txt").write_text("".join(f"{name}\n" for name in names.labels[::-1]))
    assert "names that clash: label 0 is " in refused(text, "model", "rows/new.txt")
