"""The card of a model: what the program writes, and that what people write stays."""

import os
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest
import yaml

from tests.problems import small_dataset
from xmlgp import api
from xmlgp.model_folder import folder
from xmlgp.model_folder.card import CARD
from xmlgp.model_folder.folder import ModelFolder

SMALL = {"factors": 3, "epochs": 2}


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def card(path="model"):
    return Path(path, CARD).read_text()


def sections(text):
    """Return the text of each section by its title."""
    return dict(re.findall(r"^## (.*?)\n\n(.*?)(?=\n\n## |\n\n<!--|\Z)", text, re.MULTILINE | re.DOTALL))


def train(path="model", **settings):
    return api.train(small_dataset(), path, settings=SMALL | settings)


def test_a_card_says_what_the_model_is_and_what_it_contains():
    train(seed=3)
    api.tune("model", small_dataset(seed=7).rows(slice(0, 9)))
    api.learn("model", small_dataset(seed=8).rows(slice(0, 9)))
    text = card()
    parts = sections(text)
    assert "MLGPF" in parts["Model"]
    assert "[S] and [L]" in parts["Model"]
    assert "- 49 points, 25 features, 7 labels" in parts["Training data"]
    assert ModelFolder("model").description["data"]["fingerprint"] in parts["Training data"]
    assert "- `factors`: `3` (default: " in parts["Settings"]
    assert "- `seed`: `3` (default: 0)" in parts["Settings"]
    assert "weighting" not in parts["Settings"]
    assert "assigns labels of" in parts["Assigned labels"]
    assert parts["Learned after training"].startswith("- 9 points")
    assert "features and labels of" in parts["What it contains of its training points"]
    assert "xmlgp predict model DATA" in parts["How to use it"]
    assert "To be filled in" in parts["Intended use and limits"]


def test_hubs_can_read_the_lines_at_the_top():
    train()
    _, head, _ = card().split("---\n", 2)
    found = yaml.safe_load(head)
    assert found["library_name"] == "xmlgp"
    assert "multi-label-classification" in found["tags"]
    # Whoever shares the model chooses it.
    assert "license" not in found


@pytest.mark.parametrize(
    ("settings", "data", "expected"),
    [
        ({"model": "bmlpl", "topics": 3, "iterations": 2}, small_dataset(), "[B]"),
        ({"model": "gpc", "inducing_count": 6, "iterations": 2}, small_dataset(K=1), "[I]"),
        ({**SMALL, "replay": 0, "regression_points": 0}, small_dataset(), "[S]"),
    ],
)
def test_a_model_without_training_points_says_so(settings, data, expected):
    api.train(data, "model", settings=settings)
    parts = sections(card())
    assert expected in parts["Model"]
    assert parts["What it contains of its training points"].startswith("It contains no training points; see ")


def test_measures_have_their_intervals():
    model = api.train(small_dataset(N=400), "model", settings=SMALL)
    assert model.held_out
    parts = sections(card())
    text = parts["Measured on points held out of training"]
    assert model.held_out.precision(7)[1:] in text
    assert re.search(r"\[\d+\.\d, \d+\.\d\]", text)
    assert "too few to say" in text


def test_names_of_labels_columns_and_words_are_not_in_a_card():
    texts = [f"secretword{number % 7} other" for number in range(60)]
    labels = [[f"secretlabel{number % 7}"] for number in range(60)]
    api.train(texts, "model", labels=labels, settings=SMALL)
    assert "secret" not in card()
    assert "Names of labels and features" in card()


MINE = "My **own** words, and `code`.\n"


@pytest.mark.parametrize("change", ["learn", "tune", "save", "train"])
def test_what_people_write_around_the_marks_stays(change):
    model = train()
    text = card().replace("# license: the licence of this model, such as cc-by-4.0", "license: mit")
    text = text.replace("- Licence and contact:", MINE) + "\n## More\n\nmore\n"
    text = text.replace("# Model card of `model`", "# Tickets\n\nA model of tickets.")
    # As an editor of Windows writes it.
    Path("model", CARD).write_bytes(text.encode().replace(b"\n", b"\r\n"))
    before = Path("model", CARD).read_bytes()
    head, end = before.partition(b"<!-- xmlgp:begin")[0], before.partition(b"<!-- xmlgp:end -->")[2]
    new = small_dataset(seed=8).rows(slice(0, 9))
    {
        "learn": lambda: api.learn("model", new),
        "tune": lambda: api.tune("model", new),
        "save": lambda: model.save("model"),
        "train": lambda: train(seed=4),
    }[change]()
    after = Path("model", CARD).read_bytes()
    assert after.startswith(head + b"<!-- xmlgp:begin")
    assert after.endswith(b"<!-- xmlgp:end -->" + end)
    assert after != before
    assert b"license: mit" in head


@pytest.mark.parametrize("change", ["no begin", "no end", "twice", "other order", "own file", "not text", "large"])
def test_a_card_without_its_marks_is_left_alone(change):
    train()
    text = card()
    content = {
        "no begin": re.sub("<!-- xmlgp:begin.*-->", "", text),
        "no end": text.replace("<!-- xmlgp:end -->", ""),
        "twice": text + text,
        "other order": "<!-- xmlgp:end -->\nx\n<!-- xmlgp:begin -->",
        "own file": "# My notes\n",
        "not text": text.encode() + b"\xff",
        "large": text + " " * (1 << 20),
    }[change]
    content = content.encode() if isinstance(content, str) else content
    Path("model", CARD).write_bytes(content)
    api.learn("model", small_dataset(seed=8).rows(slice(0, 9)))
    api.tune("model", small_dataset(seed=7).rows(slice(0, 9)))
    assert Path("model", CARD).read_bytes() == content


def test_links_and_pipes_are_neither_followed_nor_replaced():
    train()
    Path("precious").write_text(card())
    for make in (lambda: os.symlink("../precious", "model/README.md"), lambda: os.mkfifo("model/README.md")):
        os.unlink("model/README.md")
        make()
        status = os.lstat("model/README.md")
        api.learn("model", small_dataset(seed=8).rows(slice(0, 9)))
        assert os.path.samestat(os.lstat("model/README.md"), status)
    assert "9 points" not in Path("precious").read_text()


def test_no_name_of_a_folder_acts_on_the_card():
    name = "a`b``` <b>&amp; [x](y)\n# title"
    train(name)
    text = card(name)
    assert "\n# title" not in text
    assert "# Model card of `a'b''' <b>&amp; [x](y)\\n# title`" in text
    for line in text.splitlines():
        if "<b>" in line:
            assert line.startswith(("    ", "# Model card of `"))


def test_a_folder_that_is_named_like_a_mark_has_a_card_that_follows_the_model():
    name = "<!-- xmlgp:begin --> <!-- xmlgp:end -->"
    train(name)
    api.learn(name, small_dataset(seed=8).rows(slice(0, 9)))
    assert "Learned after training" in sections(card(name))


def test_a_card_that_cannot_be_written_does_not_fail_the_model(monkeypatch):
    train()
    before = card()
    write = folder.atomic_write

    def failing(path, *arguments):
        if Path(path).name == CARD:
            raise OSError(28, "No space left on device", str(path))
        return write(path, *arguments)

    monkeypatch.setattr(folder, "atomic_write", failing)
    api.learn("model", small_dataset(seed=8).rows(slice(0, 9)))
    assert ModelFolder("model").description["data"]["N"] == 49
    assert card() == before
    # What is packed is the card of the model that is packed.
    api.pack("model", "model.zip")
    with zipfile.ZipFile("model.zip") as archive:
        assert "- 49 points" in archive.read(CARD).decode()


def test_dense_features_and_unknown_pairs_are_counted():
    dense = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)
    data = small_dataset()
    unknown = 1 - data.labels.toarray()
    unknown[:, 1:] = 0
    api.train(data.features.sparse, "model", labels=data.labels, dense=dense, unknown=unknown, settings=SMALL)
    parts = sections(card())
    assert "- Dense features: dense 1 of width 5" in parts["Training data"]
    assert f"nobody judged: {int(unknown.sum())}" in parts["Training data"]
    assert "DATA --dense FILE" in parts["How to use it"]
