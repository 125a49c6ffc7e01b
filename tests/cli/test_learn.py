"""`xmlgp learn`: new points, features, labels, words and names; what a model keeps, and what is refused."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.command import run, said
from tests.cli.learning_on import learner, more, refused, retrain, text_learner
from tests.cli.test_interruption import assert_no_other_files
from xmlgp.data.repository_format import write_dataset
from xmlgp.model_folder.folder import ModelFolder

__all__ = ["learner", "text_learner"]

AGAIN = "model: the model has learned these points already; nothing to do\n"


@pytest.mark.parametrize(("inducing", "epochs"), [("free", 4), ("features", 5)])
def test_new_points_features_and_labels_are_learned(learner, inducing, epochs):
    retrain(inducing)
    before = ModelFolder("model").description
    result = run("learn", "model", "new.txt")
    assert (result.exit_code, result.stdout) == (0, "")
    learned, knows = result.stderr.splitlines()
    pattern = r"model: learned 30 points, 2 new labels, 3 new features: bound -[0-9.]+, in [0-9.]+ s"
    assert re.fullmatch(pattern, learned)
    assert knows == "model: knows 70 points, 28 features and 9 labels"
    description = ModelFolder("model").description
    assert {name: description["data"][name] for name in "NDK"} == {"N": 70, "D": 28, "K": 9}
    assert len(description["learned"][0]["history"]) == epochs
    assert description["history"] == before["history"]
    assert_no_other_files(learner)
    write_dataset("test.txt", more(9, seed=12))
    assert run("predict", "model", "test.txt", "-o", "scores.txt", "-k", "all").exit_code == 0
    assert run("evaluate", "scores.txt", "test.txt").exit_code == 0


def test_what_does_not_change_stays(learner):
    retrain("free")
    before = ModelFolder("model").entries("")
    assert run("tune", "model", "data/test.txt", "-q").exit_code == 0
    tuned = ModelFolder("model").tuned
    write_dataset("other.txt", more(D=25, K=7))
    assert run("learn", "model", "other.txt", "-q").exit_code == 0
    after = ModelFolder("model").entries("")
    assert after["parameters.inducing"] == before["parameters.inducing"]
    assert after["parameters.bias"] != before["parameters.bias"]
    assert ModelFolder("model").tuned == tuned is not None
    assert_no_other_files(learner)


def test_words_and_labels_of_text_are_added(text_learner):
    names = ModelFolder("model").names
    result = run("learn", "model", "more.jsonl")
    assert "model: learned 20 points, 1 new label, 1 new feature: bound -" in result.stderr
    found = ModelFolder("model").names
    assert found.labels == [*names.labels, "the violet"]
    assert found.vectorizer.words == found.features == [*names.features, "violet"]
    assert "the violet" in run("predict", "model", "-", "-k", "9", stdin="violet\n").stdout
    assert run("learn", "model", "train.jsonl").stderr.endswith(AGAIN)


def test_added_labels_leave_the_answers_of_known_ones(text_learner):
    before = run("predict", "model", "more.jsonl", "-k", "5").stdout
    Path("labels").write_text("the red\nthe violet\nthe indigo\n")
    result = run("learn", "model", "--add-labels", "-", stdin=Path("labels").read_bytes())
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.splitlines()[0].startswith("model: learned 2 new labels, in ")
    assert ModelFolder("model").names.labels[-2:] == ["the violet", "the indigo"]
    assert run("predict", "model", "more.jsonl", "-k", "5").stdout == before
    assert "learned   2 new labels" in run("show", "model").stdout
    result = run("learn", "model", "--add-labels", "labels")
    assert result.stderr == "model: the model has these labels already; nothing to do\n"
    # The documents have one of them.
    assert "model: learned 20 points, 1 new feature: bound -" in run("learn", "model", "more.jsonl").stderr
    assert ModelFolder("model").names.labels[-2:] == ["the violet", "the indigo"]


def test_show_sums_up_all_but_the_last_batches(learner, monkeypatch):
    monkeypatch.setattr("xmlgp.cli.show.BATCHES", 1)
    for seed, count in enumerate((3, 4, 5)):
        write_dataset("new.txt", more(N=count, seed=seed))
        assert run("learn", "model", "new.txt", "-q").exit_code == 0
    first, last = [line for line in run("show", "model").stdout.splitlines() if line.startswith("learned")]
    assert first == "learned   2 batches of 7 points, and then"
    assert last.startswith("learned   5 points: bound ")


@pytest.mark.parametrize(
    ("arguments", "status", "reason"),
    [
        (["new.txt"], 1, "new.txt: the points have 24 features, but the model was trained on 25; points "),
        (["missing.txt"], 1, "missing.txt: No such file or directory"),
        (["--add-labels", "labels"], 1, "labels:1: the model of 7 labels has no names of labels, so none can be added"),
        ([], 2, "Nothing to learn: give data, or labels to add."),
        (["-", "--add-labels", "-"], 2, "Only one of the files can be standard input."),
    ],
)
def test_what_cannot_be_learned_is_refused(learner, arguments, status, reason):
    write_dataset("new.txt", more(D=24))
    Path("labels").write_text("a\n")
    assert refused(learner, "model", *arguments, status=status).startswith(reason)
    assert refused(learner, "nowhere", "data") == "nowhere: there is no model here (no model.json)"
    assert not Path("nowhere").exists()


def test_a_model_without_counts_has_no_propensities_and_learns_nothing(learner):
    file = learner / "model.json"
    description = json.loads(file.read_text())
    for name in [name for name in description["arrays"] if name.startswith("parameters.statistics.")]:
        (learner / description["arrays"].pop(name)["file"]).unlink()
    file.write_text(json.dumps(description))
    assert run("predict", "model", "data/test.txt", "-o", "scores").exit_code == 0
    line = said(run("evaluate", "scores", "data/test.txt", "--train", "model", "-q"))
    assert line == "model: the model has no counts of its labels; give the training data instead"
    line = refused(learner, "model", "new.txt")
    assert line == "the model lacks what learning on needs, because an earlier version trained it; train it again"
