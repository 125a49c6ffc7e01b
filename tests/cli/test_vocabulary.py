"""A vocabulary given to `train` or `learn` names labels in all output; the names of the corpus stay what labels are."""

import json
from pathlib import Path

import pytest
import scipy.sparse as sp

import xmlgp
from tests.cli.command import SMALL, run, said
from tests.cli.disk import everything
from tests.cli.texts import COLOURS, documents
from xmlgp.api.points import TrainingData
from xmlgp.data.dataset import Dataset, Features
from xmlgp.data.formats import REPOSITORY
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.runtime.errors import SettingsError
from xmlgp.text.names import Names

URIS = {f"the {colour}": f"http://ex.org/{number}" for number, colour in enumerate(COLOURS)}


def corpus(N, seed):
    found = documents(N, seed)
    for document in found:
        document["labels"] = [URIS[label] for label in document["labels"]]
    return "".join(json.dumps(document) + "\n" for document in found)


@pytest.fixture(autouse=True)
def _files(workdir):
    (workdir / "train.jsonl").write_text(corpus(60, 0))
    (workdir / "new.jsonl").write_text(corpus(3, 1))
    triples = [
        f'<{uri}> <http://www.w3.org/2004/02/skos/core#prefLabel> "{text}"@{tag} .\n'
        for label, uri in list(URIS.items())[:4]
        for tag, text in (("en", label), ("fi", label.upper()))
    ]
    (workdir / "words.nt").write_text("".join(triples))


def trained(*options):
    result = run("train", "train.jsonl", "model", *SMALL, *options)
    assert result.exit_code == 0, result.stderr
    return result.stderr.splitlines()


def answers(*options):
    result = run("predict", "-q", "model", "new.jsonl", "-k", "all", *options)
    assert result.exit_code == 0, result.stderr
    return [json.loads(line)["labels"] for line in result.stdout.splitlines()]


def test_answers_have_uri_and_label():
    plain = trained() and answers()
    notes = trained("--vocabulary", "words.nt")
    assert "Note: words.nt: preferred labels of 4 of 5 labels, in 'en'" in notes
    labels = dict(zip(URIS.values(), URIS, strict=True)) | {"http://ex.org/4": "http://ex.org/4"}
    for before, after in zip(plain, answers(), strict=True):
        expected = [{"uri": found["label"], **found, "label": labels[found["label"]]} for found in before]
        assert after == expected
        assert list(after[0]) == ["uri", "label", "probability"]
    table = run("predict", "-q", "model", "new.jsonl", "-k", "1", "--format", "tsv").stdout.splitlines()
    best = answers()[0][0]
    assert table[:2] == ["id\turi\tlabel\tprobability", f"k0\t{best['uri']}\t{best['label']}\t{best['probability']}"]
    assert ModelFolder("model").names.labels == list(URIS.values())


def test_learn_names_old_and_new_labels(workdir):
    trained()
    before = ModelFolder("model")
    result = run("learn", "model", "--vocabulary", "words.nt", "--vocabulary-language", "fi")
    assert result.stderr == "Note: words.nt: preferred labels of 4 of 5 labels, in 'fi'\n"
    renamed = ModelFolder("model")
    finnish = renamed.names.preferred
    assert finnish[:4] == [label.upper() for label in list(URIS)[:4]]
    changed = {"arrays", "written_by"}
    assert {key: value for key, value in before.description.items() if key not in changed} == {
        key: value for key, value in renamed.description.items() if key not in changed
    }
    assert before.entries("parameters.") == renamed.entries("parameters.")
    (workdir / "more.jsonl").write_text(json.dumps({"text": "yellow", "labels": ["http://ex.org/5"]}) + "\n")
    (workdir / "more.tsv").write_text("<http://ex.org/5>\tthe yellow\n")
    assert run("learn", "-q", "model", "more.jsonl", "--vocabulary", "more.tsv").exit_code == 0
    names = ModelFolder("model").names
    assert names.preferred == [*finnish, "the yellow"]
    assert names.uris == names.labels == [*URIS.values(), "http://ex.org/5"]


def test_a_bad_vocabulary_stops_before_training(workdir):
    (workdir / "bad.tsv").write_text("no uri\n")
    assert said(run("train", "train.jsonl", "model", "--vocabulary", "bad.tsv"), 1).startswith("bad.tsv:1: ")
    assert not (workdir / "model").exists()


def test_a_uri_that_no_model_can_keep_loses_nothing(workdir):
    trained()
    before = everything(Path("model"))
    (workdir / "bad.tsv").write_text("<http://ex.org/0>\tred\n<http://e/a\x7fb>\tblue\n")
    (workdir / "bad.nt").write_text(r'<http://e/\uD800> <http://www.w3.org/2004/02/skos/core#prefLabel> "a" .')
    for file, reason in [
        ("bad.tsv", r":2: 'http://e/a\x7fb blue' has U+007F"),
        ("bad.nt", r": 'http://e/\ud800 a' has U+D800"),
    ]:
        for command in (
            ["learn", "model"],
            ["learn", "model", "new.jsonl"],
            ["train", "train.jsonl", "model", "--overwrite", *SMALL],
            ["train", "train.jsonl", "other", *SMALL],
        ):
            line = said(run(*command, "--vocabulary", file), 1)
            assert line == f"{file}{reason}, which no name can have"
    assert everything(Path("model")) == before
    assert not Path("other").exists()


def test_names_in_memory_are_checked_before_training():
    features, labels = sp.eye_array(6, format="csr"), sp.eye_array(6, 2, format="csr", dtype=bool)
    model = xmlgp.train(features, labels=labels, settings={"epochs": 1})
    for kind, names, what in [
        ("label", Names(["a", "b\x1b"]), r"label 'b\x1b' has U+001B"),
        ("uri", Names(["a", "b"], None, None, ["", "\ud800"], ["a", "b"]), r"uri '\ud800' has U+D800"),
        ("feature", Names(None, ["a\n", *"bcdef"]), r"feature 'a\n' has U+000A"),
    ]:
        points = TrainingData(Dataset(Features(features), labels), REPOSITORY, names)
        for call in (lambda given: xmlgp.train(given, "model"), lambda given: xmlgp.learn(model, given)):
            with pytest.raises(SettingsError) as caught:
                call(points)
            assert str(caught.value) == f"the {what}, which no name can have", kind
    assert not Path("model").exists()


def test_in_python(workdir):
    model = xmlgp.train(xmlgp.Source("train.jsonl", vocabulary="words.nt"), settings={"epochs": 1})
    assert next(iter(xmlgp.predict(model, "new.jsonl")))["labels"][0].keys() == {"uri", "label", "probability"}
    model.save("saved")
    assert xmlgp.load("saved").names.preferred == model.names.preferred
    other = xmlgp.learn(model, xmlgp.Source(vocabulary="words.nt", vocabulary_language="fi"))
    assert other.names.preferred[0] == "THE RED"
    assert model.names.preferred[0] == "the red"


def test_all_names_of_a_concept_are_one_label(workdir):
    found = [json.loads(line) for line in corpus(60, 0).splitlines()]
    for document in found[::2]:
        # The last one is not in the vocabulary.
        document["labels"] = [label for label, uri in URIS.items() if uri in document["labels"]]
    (workdir / "train.jsonl").write_text("".join(json.dumps(document) + "\n" for document in found))
    trained("--vocabulary", "words.nt")
    names = ModelFolder("model").names
    assert names.labels == [*list(URIS.values())[:4], "http://ex.org/4", "the 青い"]
    # The model keeps preferred labels of one language.
    own = {"text": "red", "labels": ["the red", "http://ex.org/1"]}
    (workdir / "new.jsonl").write_text(json.dumps(own) + "\n")
    assert run("predict", "-q", "model", "new.jsonl", "-o", "answers.jsonl").exit_code == 0
    for command in (
        ["report", "model", "new.jsonl"],
        ["evaluate", "answers.jsonl", "new.jsonl", "--train", "model"],
        ["learn", "model", "new.jsonl"],
    ):
        result = run(*command)
        assert result.exit_code == 0, result.stderr
        assert "unknown" not in result.stderr
    assert ModelFolder("model").names.labels == names.labels
    texts, labels = ["a cat", "a dog"], [["the red"], ["http://ex.org/0"]]
    model = xmlgp.train(xmlgp.Source(texts, labels, vocabulary="words.nt"), settings={"epochs": 1})
    assert model.names.labels == ["http://ex.org/0"]


def test_a_vocabulary_of_other_labels_is_a_warning(workdir):
    (workdir / "other.tsv").write_text("<http://other.org/1>\tcats\n")
    assert "Warning: other.tsv: preferred labels of 0 of 5 labels" in trained("--vocabulary", "other.tsv")
