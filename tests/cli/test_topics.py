"""`xmlgp topics`: its output, label names and errors."""

import gzip
import json
import re
import shutil

import numpy as np
import pytest

from tests.cli.command import SMALL, run, said
from tests.problems import small_dataset
from xmlgp.bmlpl.settings import BMLPLSettings
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.runs.train import train_model
from xmlgp.runs.trained_model import open_topics

NAMES = ["graph theory", "Zürich", "web", "", "a b", "機械学習", "x"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Train a model with four topics on seven labels."""
    folder = tmp_path_factory.mktemp("trained")
    settings = BMLPLSettings(topics=4, iterations=4)
    return train_model(small_dataset(), folder / "model", settings).path


@pytest.fixture(autouse=True)
def _model(workdir, trained):
    """Copy the model, and write the label names."""
    shutil.copytree(trained, "model")
    (workdir / "names.txt").write_text("".join(f"{name}\n" for name in NAMES), encoding="utf-8")


def printed(*arguments, stdin=None):
    """Return the output of a successful run."""
    result = run("topics", *arguments, stdin=stdin)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def test_each_topic_is_a_block_of_labels_and_weights():
    expected = []
    for topic in open_topics(ModelFolder("model"), top=3):
        expected.append(f"topic {topic.index} ({100 * topic.share:.2f} %)")
        expected += [f"  {weight:.4f}  {label}" for label, weight in zip(topic.labels, topic.weights, strict=True)]
    assert printed("model", "--top", "3").splitlines() == expected


def test_five_labels_are_listed_by_default_and_at_most_all():
    for options, count in ([], 5), (["--top", "1"], 1), (["--top", "99"], 7):
        lines = printed("model", *options).splitlines()
        assert [bool(re.match("topic ", line)) for line in lines] == ([True] + [False] * count) * 4


def test_label_names_follow_the_labels():
    lines = printed("model", "--label-names", "names.txt").splitlines()
    plain = printed("model").splitlines()
    assert any(lines != plain for lines, plain in zip(lines, plain, strict=True))
    for line, without in zip(lines, plain, strict=True):
        name = NAMES[int(without.split()[1])] if without.startswith(" ") else ""
        assert line == (f"{without}  {name}" if name else without)


def test_label_names_can_be_compressed_or_on_standard_input(workdir):
    text = (workdir / "names.txt").read_bytes()
    (workdir / "names.gz").write_bytes(gzip.compress(text))
    expected = printed("model", "--label-names", "names.txt")
    assert printed("model", "--label-names", "names.gz") == expected
    assert printed("model", "--label-names", "-", stdin=text) == expected


def test_json_has_the_label_names():
    found = json.loads(printed("model", "--json", "--label-names", "names.txt"))
    labels = [label for topic in found for label in topic["labels"]]
    assert len(labels) == 20
    assert [label["name"] for label in labels] == [NAMES[label["label"]] for label in labels]


def test_invisible_characters_in_label_names_are_escaped(workdir):
    hidden = ["\u202egnp.exe", "zero\u200bwidth", "no\xa0break", "line\u2028end", "soft\xadhyphen", "\ue000", "plain"]
    (workdir / "names.txt").write_text("".join(f"{name}\n" for name in hidden), encoding="utf-8")
    shown = printed("model", "--label-names", "names.txt", "--top", "7")
    assert all(line.isprintable() for line in shown.split("\n"))
    for name in (r"\u202egnp.exe", r"zero\u200bwidth", r"no\xa0break", r"line\u2028end", r"\ue000"):
        assert shown.count(f"  {name}\n") == 4
    as_json = printed("model", "--label-names", "names.txt", "--top", "7", "--json")
    assert as_json.isascii()
    assert {label["name"] for label in json.loads(as_json)[0]["labels"]} == set(hidden)


def test_errors_in_label_names_are_reported_in_one_line(workdir):
    (workdir / "names.txt").write_bytes(b"a\nb\n\x1b]0;gotcha\x07\nd\ne\nf\ng\n")
    message = said(run("topics", "model", "--label-names", "names.txt"))
    assert message == "names.txt:3: U+001B at column 1 is a control character"
    (workdir / "names.txt").write_bytes(b"a\nb\n")
    message = said(run("topics", "model", "--label-names", "names.txt", "--json"))
    assert message == "names.txt:3: the file ends after 2 of 7 label names"
    assert said(run("topics", "model", "--label-names", "other.txt")) == "other.txt: No such file or directory"
    assert said(run("topics", "model", "--label-names", "data")) == "data: Is a directory"


def test_models_without_topics_are_refused():
    run("train", "data", "other", *SMALL)
    assert said(run("topics", "other")) == "other: mlgpf has no topics; train with --model bmlpl"
    run("preprocess", "--model", "bmlpl", "data", "half")
    assert said(run("topics", "half")) == "half: the model is preprocessed, but not trained yet"
    assert said(run("topics", "data")) == "data: there is no model here (no model.json)"


def test_a_damaged_model_is_refused(workdir):
    entry = ModelFolder("model").entries("parameters.topics")["parameters.topics"]
    np.save(workdir / "model" / entry["file"], np.full(entry["shape"], 0.5, np.float32))
    assert said(run("topics", "model")) == "model: the model is damaged, its arrays do not fit each other"


@pytest.mark.parametrize("arguments", [[], ["model", "--top", "0"], ["model", "--top", "all"], ["model", "other"]])
def test_invalid_arguments_are_refused(arguments):
    said(run("topics", *arguments), status=2)
