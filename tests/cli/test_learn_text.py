"""`xmlgp learn` with text and names: words and labels that are added, and names that are refused."""

from pathlib import Path

import pytest

from tests.cli.command import run
from tests.cli.disk import everything
from tests.cli.learning_on import D_KNOWN, K_KNOWN, more, refused, train_model, train_text_model
from tests.cli.test_predict_text import as_json, documents
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


def test_labels_that_the_model_has_are_not_added_again(text):
    Path("labels").write_text("the red\nnew\n")
    assert run("learn", "model", "--add-labels", "labels", "-q").exit_code == 0
    K = ModelFolder("model").description["data"]["K"]
    result = run("learn", "model", "--add-labels", "labels")
    assert result.exit_code == 0
    assert result.stderr == "model: the model has these labels already; nothing to do\n"
    assert ModelFolder("model").description["data"]["K"] == K


def test_no_points_are_not_a_batch(model):
    Path("none.txt").write_text(f"0 {D_KNOWN} {K_KNOWN}\n")
    result = run("learn", "model", "none.txt")
    assert result.exit_code == 0
    assert result.stderr == "model: there are no points; nothing to do\n"
    assert "learned" not in ModelFolder("model").description


def test_only_one_argument_can_be_standard_input(text):
    line = refused(text, "model", "-", "--add-labels", "-", status=2)
    assert line == "Only one of the files can be standard input."
