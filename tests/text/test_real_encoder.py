"""Real encoders on real documents, from training to learning on: `make test-encoders` installs what they need.

The environment variable ENCODER names one of model2vec or sentence-transformers: its folder, or its name in the cache
of Hugging Face. A static one is made of the token embeddings that the package wordllama has. CORPUS is a folder with
train.jsonl and test.jsonl, or these with .gz; by default, the documents are the examples of the documentation, which
are simple.
"""

import csv
import gzip
import importlib.util
import itertools
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from tokenizers import Tokenizer

import xmlgp
from tests.cli.command import run, spawn
from xmlgp.data.tickets import tickets
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.text.encoder import open_encoder

ENCODER = os.environ.get("ENCODER")
CORPUS = os.environ.get("CORPUS")


def _static_encoder(folder):
    """Return the folder of a static encoder, made in it of what the package wordllama has."""
    from model2vec import StaticModel

    package = importlib.util.find_spec("wordllama")
    if package is None:
        pytest.skip("no real encoder is given: wordllama is not installed, whose token embeddings are a static one")
    files = Path(package.submodule_search_locations[0])
    (vectors,) = load_file(files / "weights/l2_supercat_256.safetensors").values()
    tokenizer = Tokenizer.from_file(str(files / "tokenizers/l2_supercat_tokenizer_config.json"))
    StaticModel(vectors.astype(np.float32), tokenizer).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module", params=["static", "given"])
def encoder(request, tmp_path_factory):
    """Return the name of an encoder."""
    if request.param == "static":
        return _static_encoder(tmp_path_factory.mktemp("encoder"))
    return ENCODER or pytest.skip("no real encoder is given: its folder or name as ENCODER")


def _documents():
    """Return documents for training, for learning on and for a test."""
    if CORPUS:
        parts = []
        for name, count in ("train", 700), ("test", 200):
            (file,) = Path(CORPUS).glob(f"{name}.jsonl*")
            with (gzip.open if file.suffix == ".gz" else open)(file, "rt", encoding="utf-8") as lines:
                parts.append([json.loads(line) for line in itertools.islice(lines, count)])
        train, test = parts
    else:
        train, test = (
            [row | {"labels": row["labels"].split(";")} for row in csv.DictReader(text.splitlines()[: count + 1])]
            for text, count in zip(tickets(), (500, 100), strict=True)
        )
    return train[:-100], train[-100:], test


@pytest.fixture(scope="module")
def folder(encoder, tmp_path_factory):
    """Return a folder with documents, a `model` of words and embeddings, and one of `words` alone."""
    folder = tmp_path_factory.mktemp("real")
    for name, documents in zip(("train", "more", "test"), _documents(), strict=True):
        lines = [json.dumps({key: document[key] for key in ("id", "text", "labels")}) for document in documents]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XMLGP_CACHE_DIR", str(folder / "cache"))
        for model, *options in ["model", "--encoder", encoder], ["words"]:
            result = run("train", "-q", folder / "train.jsonl", folder / model, *options)
            assert (result.exit_code, result.output) == (0, "")
    return folder


@pytest.fixture(autouse=True)
def _working_folder(tmp_path, folder, monkeypatch):
    """Work in a copy of the folder."""
    shutil.copytree(folder, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    monkeypatch.setenv("XMLGP_CACHE_DIR", str(tmp_path / "copy/cache"))


def _read(name):
    return [json.loads(line) for line in Path(name).read_text().splitlines()]


def _precision(model):
    """Return P@1 of a model on the test documents, which come from a pipe."""
    answered = spawn("predict", model, "-", "-q", "-k", "5", input=Path("test.jsonl").read_bytes())
    assert (answered.returncode, answered.stderr) == (0, b"")
    rows = [json.loads(line) for line in answered.stdout.splitlines()]
    assert [row["id"] for row in rows] == [document["id"] for document in _read("test.jsonl")]
    assert all(len(row["labels"]) == 5 for row in rows)
    Path("answers.jsonl").write_bytes(answered.stdout)
    result = run("evaluate", "-q", "answers.jsonl", "test.jsonl", "--json")
    assert result.exit_code == 0
    return json.loads(result.stdout)["P@1"]


def test_embeddings_are_those_of_sentence_transformers(encoder):
    """Those of the points that the model keeps, too."""
    import sentence_transformers

    texts = [document["text"] for document in _read("train.jsonl")[:100]]
    expected = sentence_transformers.SentenceTransformer(encoder).encode(texts)
    assert np.allclose(open_encoder(encoder).encode(texts), expected, rtol=0, atol=1e-6 * np.abs(expected).max())
    kept = ModelFolder("model").array("parameters.replay.dense")[:100]
    # In half precision.
    assert np.allclose(kept, expected, rtol=0, atol=1e-3 * np.abs(expected).max())


def test_similar_texts_have_similar_embeddings(encoder):
    words = open_encoder(encoder).encode(["a dog barks", "the puppy is barking", "tax returns of companies"])
    words /= np.linalg.norm(words, axis=1, keepdims=True)
    assert words[0] @ words[1] > words[0] @ words[2] + 0.1


def test_embeddings_beside_words_predict_well():
    test = _read("test.jsonl")
    counts = {}
    for label in itertools.chain.from_iterable(document["labels"] for document in _read("train.jsonl")):
        counts[label] = counts.get(label, 0) + 1
    most_frequent = max(counts, key=counts.get)
    constant = 100 * np.mean([most_frequent in document["labels"] for document in test])
    precision = _precision("model")
    assert precision > constant + 30
    # A hundredth more or less is chance.
    assert precision > _precision("words") - 1.5


def test_an_explanation_adds_words_and_the_encoder():
    result = run("predict", "model", "test.jsonl", "-q", "-k", "2", "--explain", "3", "--output", "utility")
    assert result.exit_code == 0
    for label in itertools.chain.from_iterable(json.loads(line)["labels"] for line in result.stdout.splitlines()):
        assert {"words", "encoder", "bias"} <= label["from"].keys()
        assert sum(label["from"].values()) == pytest.approx(label["utility"], abs=1e-3)


def test_a_model_learns_on_with_its_encoder():
    before = _precision("model")
    result = run("learn", "model", "more.jsonl")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "model: learned 100 points" in result.stderr
    data = xmlgp.load("model").data
    assert data["N"] == len(_read("train.jsonl")) + 100
    assert _precision("model") > before - 3
