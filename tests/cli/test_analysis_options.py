"""The options that choose words: `xmlgp train` does with them what `vectorize` does, and `learn` keeps them."""

import json

import pytest

import xmlgp
from tests.cli.command import SMALL, run, said
from tests.cli.texts import as_json, documents
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.text.word_counts import Analysis

OPTIONS = ["--ngrams", "1-2", "--min-count", "2", "--max-features", "30"]


@pytest.fixture(autouse=True)
def _files(workdir):
    sentences = [found | {"text": f"where is the {found['text']}"} for found in documents(60, 0)]
    (workdir / "a.jsonl").write_text(as_json(sentences))


def test_a_corpus_is_trained_on_the_chosen_words():
    assert run("vectorize", "-q", "a.jsonl", "folder", *OPTIONS).exit_code == 0
    for data, model, options in ("folder", "rows", []), ("a.jsonl", "text", OPTIONS):
        result = run("train", "-q", data, model, *SMALL, *options)
        assert (result.exit_code, result.stderr) == (0, "")
    rows, text = ModelFolder("rows"), ModelFolder("text")
    assert rows.description["data"] == text.description["data"] | {"first_feature": 0}
    assert rows.names[:2] == text.names[:2]
    vectorizer = text.vectorizer
    assert rows.vectorizer.description() == vectorizer.description()
    assert vectorizer.analysis == Analysis("word", 1, 2, 2, 30)
    assert len(vectorizer.words) == 30


def test_learning_keeps_them(workdir):
    assert run("train", "-q", "a.jsonl", "model", *SMALL, *OPTIONS[:4]).exit_code == 0
    before = ModelFolder("model").vectorizer
    (workdir / "b.jsonl").write_text(json.dumps({"text": "the nova the nova once", "labels": ["the red"]}) + "\n")
    assert run("learn", "-q", "model", "b.jsonl").exit_code == 0
    after = ModelFolder("model").vectorizer
    assert after.analysis == before.analysis
    assert set(after.words) - set(before.words) == {"nova", "the nova"}


def test_what_cannot_be_chosen(workdir):
    assert run("vectorize", "-q", "a.jsonl", "folder").exit_code == 0
    assert said(run("train", "folder", "model", "--ngrams", "1-2"), 1) == (
        "folder: these are rows of numbers; to choose words or n-grams, give the text, or vectorize it again"
    )
    assert said(run("train", "a.jsonl", "model", "--ngrams", "two"), 2).startswith("Invalid value for '--ngrams'")
    assert not (workdir / "model").exists()


def test_the_same_in_python():
    texts, labels = zip(*((found["text"], found["labels"]) for found in documents(60, 0)), strict=True)
    model = xmlgp.train(
        xmlgp.Source(list(texts), labels, analysis=Analysis(longest=2, max_features=9)), settings={"epochs": 1}
    )
    assert len(model.names.vectorizer.words) == 9
    assert len(xmlgp.learn(model, list(texts), labels=labels).names.vectorizer.words) == 9
