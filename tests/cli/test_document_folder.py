"""Every command that reads text takes a folder of documents as it takes a corpus in one file."""

import json
import os

import pytest

from tests.cli.command import SMALL, run, said
from tests.cli.texts import as_json, documents
from xmlgp.model_folder.folder import ModelFolder


def write(folder, found, labels=True):
    folder.mkdir()
    for number, document in enumerate(found):
        (folder / f"{document['id']}.txt").write_text(document["text"], encoding="utf-8")
        if labels and number % 2:
            (folder / f"{document['id']}.key").write_text("\n".join(document["labels"]), encoding="utf-8")
        elif labels:
            lines = "".join(f"<{label}>\tsome words\n" for label in document["labels"])
            (folder / f"{document['id']}.tsv").write_text(lines, encoding="utf-8")


@pytest.fixture(autouse=True)
def _files(workdir):
    for name, (N, seed) in {"train": (60, 0), "new": (9, 1), "more": (20, 2)}.items():
        found = sorted(documents(N, seed), key=lambda document: document["id"])
        (workdir / f"{name}.jsonl").write_text(as_json(found))
        write(workdir / name, found)
    assert run("train", "-q", "train.jsonl", "model", *SMALL).exit_code == 0


def successful(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def test_a_folder_is_trained_on_and_learned():
    successful("train", "-q", "train", "other", *SMALL)
    data = [ModelFolder(name).description["data"] for name in ("model", "other")]
    assert data[0] == data[1]
    successful("learn", "-q", "model", "more.jsonl")
    successful("learn", "-q", "other", "more")
    assert successful("predict", "-q", "model", "new") == successful("predict", "-q", "other", "new")


def test_predictions_have_the_names_of_documents(workdir):
    write(workdir / "unlabelled", documents(9, 1), labels=False)
    expected = successful("predict", "-q", "model", "new.jsonl")
    assert json.loads(expected.splitlines()[0])["id"] == "k0"
    for folder in ("new", "unlabelled"):
        assert successful("predict", "-q", "model", folder) == expected
    assert said(run("predict", "model", "new", "-o", "new/k0.txt"), 2).startswith("The output new/k0.txt is the same")


def test_folders_that_cannot_be_read_so(workdir):
    write(workdir / "unlabelled", documents(9, 1), labels=False)
    assert said(run("train", "unlabelled", "other")).endswith(
        "and no documents NAME.txt with labels in NAME.tsv or NAME.key, or NAME.json"
    )
    assert said(run("train", "new", "new"), 2).startswith("new is the folder of the training data")
    successful("vectorize", "-q", "train", "rows")
    (workdir / "rows/vectorizer.json").unlink()
    successful("train", "-q", "rows", "numbers", *SMALL)
    assert said(run("predict", "numbers", "new")) == "new is text, but the model was not trained on text"


def test_objects_are_the_documents_of_a_folder(workdir):
    for name in "train", "new":
        (workdir / f"{name}-objects").mkdir()
        for line in (workdir / f"{name}.jsonl").read_text().splitlines():
            found = json.loads(line)
            subjects = [{"uri": label, "label": "some words"} for label in found["labels"]]
            own = json.dumps({"text": found["text"], "subjects": subjects}, indent=1)
            (workdir / f"{name}-objects" / f"{found['id']}.json").write_text(own)
    successful("train", "-q", "train-objects", "other", *SMALL)
    assert ModelFolder("other").description["data"] == ModelFolder("model").description["data"]
    expected = successful("predict", "-q", "model", "new.jsonl")
    assert successful("predict", "-q", "model", "new-objects") == expected
    (workdir / "p.jsonl").write_text(expected)
    measures = [successful("evaluate", "-q", "p.jsonl", data) for data in ("new.jsonl", "new-objects")]
    assert measures[0] == measures[1]
    assert said(run("predict", "model", "new-objects", "-o", "new-objects/k0.json"), 2).startswith("The output new-obj")


@pytest.mark.parametrize("name", ["p.jsonl", "p.scores"])
def test_names_that_are_not_utf_8_match_themselves(workdir, name):
    folder = workdir / "latin\udce9"
    write(folder, documents(9, 1))
    for file in folder.iterdir():
        os.rename(file, os.fsencode(folder) + b"/caf\xe9 " + os.fsencode(file.name))
    found = documents(9, 1)
    (workdir / "same.jsonl").write_text(as_json([{**own, "id": f"caf\\xe9 {own['id']}"} for own in found]))
    successful("predict", "-q", "model", folder, "-o", name)
    if name == "p.jsonl":
        lines = (workdir / name).read_text().splitlines()
        assert json.loads(lines[0])["id"] == "caf\\xe9 k0"
        (workdir / name).write_text("\n".join(lines[::-1]))
    measures = [successful("evaluate", "-q", name, data, "--train", "model") for data in (folder, "same.jsonl")]
    assert measures[0] == measures[1]
    successful("predict", "-q", "model", "new.jsonl", "-o", f"new-{name}")
    assert measures[0] == successful("evaluate", "-q", f"new-{name}", "new.jsonl", "--train", "model")
