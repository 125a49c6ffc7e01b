"""Every command that reads the labels of a corpus says what looks wrong with them, and reads it as asked."""

import csv
import json
from pathlib import Path

import pytest

from tests.cli.command import SMALL, run
from tests.cli.texts import documents

pytestmark = pytest.mark.usefixtures("text_model")

COMMANDS = {
    "vectorize": ["vectorize", "corpus.csv", "folder"],
    "test of vectorize": ["vectorize", "train.jsonl", "folder", "--test", "corpus.csv"],
    "train": ["train", "corpus.csv", "other", *SMALL],
    "preprocess": ["preprocess", "corpus.csv", "other"],
    "learn": ["learn", "model", "corpus.csv"],
    "evaluate": ["evaluate", "predictions.jsonl", "corpus.csv"],
    "report": ["report", "model", "corpus.csv"],
    "training data of report": ["report", "model", "new.jsonl", "--train", "corpus.csv"],
}


def files():
    """Return the content of each file in the current folder, by its path."""
    return {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}


def write_corpus(rows):
    """Write a table, and what the model predicts for its texts."""
    with open("corpus.csv", "w", newline="") as stream:
        csv.writer(stream).writerows([("id", "text", "labels"), *rows])
    assert run("predict", "-q", "model", "corpus.csv", "-o", "predictions.jsonl").exit_code == 0


def test_labels_with_a_separator_that_is_named_are_read():
    write_corpus((own["id"], own["text"], ", ".join(own["labels"] + ["the red"])) for own in documents(60, 5))
    result = run("vectorize", "corpus.csv", "folder", "--label-separator", ",")
    assert result.stderr == "corpus.csv: 60 documents, 14 features, 5 labels\n"


def test_merged_rows_are_the_same_data_set_and_one_answer(workdir):
    found = documents(60, 5)
    write_corpus((own["id"], own["text"], ";".join(own["labels"])) for own in found)
    run("vectorize", "corpus.csv", "expected")
    write_corpus((own["id"], own["text"], label) for own in found for label in dict.fromkeys(own["labels"]))
    run("vectorize", "corpus.csv", "merged", "--merge-ids")
    for name in "train.txt", "labels.txt", "features.txt":
        assert (workdir / "merged" / name).read_bytes() == (workdir / "expected" / name).read_bytes()
    answers = run("predict", "-q", "model", "corpus.csv", "--merge-ids").stdout.splitlines()
    assert [json.loads(answer)["id"] for answer in answers] == [own["id"] for own in found]


def test_later_rows_without_a_text_are_noted():
    write_corpus(
        (own["id"], own["text"] * (place == 0), label)
        for own in documents(60, 5)
        for place, label in enumerate(own["labels"])
    )
    assert "; --merge-ids makes them one document" in run("vectorize", "corpus.csv", "folder").stderr


def test_labels_that_differ_in_case_are_noted():
    def note_on(*arguments):
        lines = run(*arguments).stderr.splitlines()
        return [line for line in lines if "only in case" in line]

    write_corpus([(1, "a cat", "Access;billing"), (2, "a dog", "access;Billing"), (3, "a cat", "billing")])
    note = "corpus.csv: 2 labels differ from another one only in case, such as 'Access' and 'access'"
    assert note_on("vectorize", "corpus.csv", "folder") == [note]
    assert note_on("train", "corpus.csv", "other", *SMALL) == [note]
    assert note_on("learn", "other", "corpus.csv") == []
    write_corpus([(4, "a cat", "billing;ACCESS")])
    assert note_on("learn", "other", "corpus.csv") == [
        "corpus.csv: 1 label differs from another one only in case, such as 'Access' and 'ACCESS'"
    ]
