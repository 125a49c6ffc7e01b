"""`xmlgp learn`: new points, features, labels, words and names; what a model keeps, and what is refused."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import xmlgp
from tests.cli.command import run, said
from tests.cli.disk import everything
from tests.cli.learning_on import learner, more, refused, retrain, text_learner
from tests.cli.test_interruption import assert_no_other_files
from tests.cli.texts import as_json
from tests.held_out import calibrated
from xmlgp.data.repository_format import write_dataset
from xmlgp.model_folder.folder import ModelFolder

__all__ = ["learner", "text_learner"]

AGAIN = "model: the model has learned these points already; nothing to do\n"


@pytest.mark.parametrize(("inducing", "epochs"), [("free", 4), ("features", 6)])
def test_new_points_features_and_labels_are_learned(learner, inducing, epochs):
    retrain(inducing)
    before = ModelFolder("model").description
    result = run("learn", "model", "new.txt")
    assert (result.exit_code, result.stdout) == (0, "")
    learned, commands = result.stderr.splitlines()
    pattern = r"model: learned 30 points, 2 new labels, 3 new features, in [0-9.]+ s; the model now knows 70 points, "
    assert re.fullmatch(pattern + "28 features and 9 labels", learned)
    assert commands == "model: next, `xmlgp predict model DATA`; `xmlgp show model` has the details"
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
    assert "model: learned 20 points, 1 new label, 1 new feature, in " in result.stderr
    found = ModelFolder("model").names
    assert found.labels == [*names.labels, "the violet"]
    assert found.vectorizer.words == found.features == [*names.features, "violet"]
    assert "the violet" in run("predict", "model", "-", "-k", "9", stdin="violet\n").stdout
    assert run("learn", "model", "train.jsonl").stderr.endswith(AGAIN)


def test_added_labels_leave_the_answers_of_known_ones(text_learner):
    before = run("predict", "model", "more.jsonl", "-k", "5").stdout
    assert before
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
    assert "model: learned 20 points, 1 new feature, in " in run("learn", "model", "more.jsonl").stderr
    assert ModelFolder("model").names.labels[-2:] == ["the violet", "the indigo"]


def test_no_documents_are_nothing_to_learn(text_learner):
    before = everything(text_learner)
    for name, text in ("none", ""), ("none.csv", ""), ("none.csv", "text,labels\n"), ("none.jsonl", ""):
        Path(name).write_text(text)
        result = run("learn", "model", name)
        assert (result.exit_code, result.stdout) == (0, "")
        assert result.stderr.endswith("\nmodel: there are no documents; nothing to do\n")
        assert run("learn", "model", name, "--dry-run", "-q").stdout.startswith("points           0\n")
        assert said(run("train", name, "other")).endswith(("there are no documents", ": the file is empty"))
    assert run("learn", "model", "-", stdin="").exit_code == 0
    assert everything(text_learner) == before


def test_a_dry_run_says_what_is_new_and_changes_nothing(text_learner):
    before = everything(text_learner)
    result = run("learn", "model", "more.jsonl", "--dry-run")
    found = xmlgp.preview("model", "more.jsonl")
    assert result.stdout == (
        "points           20\n"
        "already learned  no\n"
        "new labels       1: the violet\n"
        "new words        1\n"
        f"known labels     {(found.assignments - 10) / found.assignments:.1%} of {found.assignments} assignments\n"
        f"known words      {(found.occurrences - 20) / found.occurrences:.1%} of {found.occurrences} occurrences\n"
    )
    assert result.stderr.startswith("more.jsonl: 20 documents, ")
    assert (found.known_assignments, found.known_occurrences) == (found.assignments - 10, found.occurrences - 20)
    names = [f"label {number:03}" for number in range(10)]
    Path("labels").write_text("\n".join(names))
    lines = run("learn", "model", "--add-labels", "labels", "--dry-run").stdout.splitlines()
    assert lines[:3] == ["points           0", "already learned  no", f"new labels       10: {', '.join(names[:5])}, …"]
    assert lines[4:] == ["known labels     no assignments", "known words      no occurrences"]
    lines = run("learn", "model", "train.jsonl", "--dry-run").stdout.splitlines()
    assert lines[:2] == ["points           60", "already learned  yes"]
    assert refused(text_learner, "model", "--dry-run", status=2) == "Nothing to learn: give data, or labels to add."
    assert everything(text_learner) == before


def test_a_dry_run_prints_json(text_learner):
    shown = json.loads(run("learn", "model", "more.jsonl", "--dry-run", "--json").stdout)
    found = xmlgp.preview("model", "more.jsonl")
    shares = found.known_assignments / found.assignments, found.known_occurrences / found.occurrences
    assert shown == found._asdict() | dict(zip(("known_labels", "known_features"), shares, strict=True))
    assert (shown["points"], shown["learned"], shown["label_names"]) == (20, False, ["the violet"])
    shown = json.loads(run("learn", "model", "-", "--dry-run", "--json", stdin="").stdout)
    assert shown["known_labels"] is shown["known_features"] is None
    assert refused(text_learner, "model", "more.jsonl", "--json", status=2) == "--json is for --dry-run."


def test_a_dry_run_counts_nonzero_features_of_rows(learner):
    points = more()
    found = xmlgp.preview("model", points)
    assert found[:5] == (30, False, 2, 3, None)
    assert found.known_assignments == np.count_nonzero(points.labels.indices < 7) < found.assignments
    assert found.known_occurrences == np.count_nonzero(points.features.sparse.indices < 25) < found.occurrences
    assert "\nnew features     3\nknown labels " in run("learn", "model", "new.txt", "--dry-run").stdout


def test_points_for_another_model_are_refused(text_learner):
    texts, labels = ["The red one"] * 10, [[f"bug {number % 3}"] for number in range(10)]
    shown = xmlgp.preview("model", texts, labels=labels)
    share = f"{shown.known_occurrences / shown.occurrences:.1%} of the words and 0.0% of the labels of these points"
    in_memory = replace(xmlgp.load("model"), folder=None)
    # Nine labels could be those of one document.
    for count in 9, 10:
        told = []
        xmlgp.learn(in_memory, texts[:count], labels=labels[:count], note=told.append)
        assert told == [f"the model: warning: the model knows {share}"] * (count == 10)
    Path("foreign.jsonl").write_text(
        as_json({"text": text, "labels": own} for text, own in zip(texts, labels, strict=True))
    )
    before = everything(Path())
    refused = said(run("learn", "-q", "model", "foreign.jsonl"))
    assert refused == (
        f"model: the model knows {share}, which are probably for another model; nothing was learned: `xmlgp learn "
        "--dry-run` shows what is new, and --force learns them"
    )
    assert everything(Path()) == before
    result = run("learn", "model", "foreign.jsonl", "--force")
    assert f"model: warning: the model knows {share}" in result.stderr.splitlines()
    # The labels are known now, the words of another language are not.
    Path("foreign.jsonl").write_text(as_json([{"text": "das hat noch niemand gelesen", "labels": ["bug 1"]}] * 2))
    assert "the model knows 0.0% of the words and 100.0% of the labels" in said(
        run("learn", "-q", "model", "foreign.jsonl")
    )


def test_show_says_that_the_measures_are_older_than_what_was_learned(learner):
    with calibrated():
        run("train", "data", "other", "-P", "3", "--epochs", "4")
    for learned in False, True:
        (line,) = (line for line in run("show", "other").stdout.splitlines() if line.startswith("measured"))
        assert line.endswith(" held out of training (95 % intervals)" + ", before it learned more" * learned)
        assert run("learn", "other", "new.txt").exit_code == 0


def test_show_sums_up_all_but_the_last_batches(learner, monkeypatch):
    monkeypatch.setattr("xmlgp.model_folder.words.BATCHES", 1)
    for seed, count in enumerate((3, 4, 5)):
        write_dataset("new.txt", more(N=count, seed=seed))
        assert run("learn", "model", "new.txt", "-q").exit_code == 0
    first, last = [line for line in run("show", "model").stdout.splitlines() if line.startswith("learned")]
    assert first == "learned   2 batches of 7 points, and then"
    assert last.startswith("learned   5 points: bound ")


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
