"""Encoders of text, whose embeddings are a dense block beside the words. test_real_encoder.py is about real ones."""

import contextlib
import copy
import json
import os
import pickle
import shutil
import sqlite3
from pathlib import Path

import huggingface_hub
import numpy as np
import pytest
from model2vec import StaticModel
from tokenizers import Tokenizer, models, pre_tokenizers

import xmlgp
from tests.cli.command import run, said
from tests.text.encoders import WORDS, make_encoder
from xmlgp.errors import ModelFolderError, SettingsError, XmlgpError
from xmlgp.estimators import MLGPFClassifier, TextTagger
from xmlgp.text import embedding_cache
from xmlgp.text.analysis import Analysis
from xmlgp.text.encoder import open_encoder
from xmlgp.text.word_counts import WordCounts

RANDOM = np.random.default_rng(0)
TEXTS = [" ".join(RANDOM.choice(WORDS, 4, replace=False)) for _ in range(40)]
LABELS = [[word for word in text.split() if word in ("cat", "red", "big")] for text in TEXTS]
SMALL = {"epochs": 1, "factors": 3, "regression_points": 0}


@pytest.fixture(scope="module")
def encoders(tmp_path_factory):
    """A folder with two encoders, `one` and `two`."""
    folder = tmp_path_factory.mktemp("encoders")
    for seed, name in enumerate(["one", "two"]):
        make_encoder(folder / name, seed=seed)
    return folder


@pytest.fixture(autouse=True)
def _folder(tmp_path, encoders, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XMLGP_CACHE_DIR", str(tmp_path / "cache"))
    shutil.copytree(encoders, "encoders")
    write("train.jsonl", TEXTS, LABELS)


def write(name, texts, labels):
    documents = [json.dumps({"text": text, "labels": own}) for text, own in zip(texts, labels, strict=True)]
    Path(name).write_text("\n".join(documents) + "\n")


def trained(*options, model="m", **changed):
    settings = [f"--set={name}={value}" for name, value in (SMALL | changed).items()]
    result = run("train", "train.jsonl", model, *settings, *options)
    assert result.exit_code == 0, result.stderr
    return model


def answers(*arguments, stdin=None):
    result = run("predict", *arguments, stdin=stdin)
    assert result.exit_code == 0, result.stderr
    return result.stdout


@pytest.fixture
def model():
    return trained("--encoder", "encoders/one")


def test_embeddings_are_those_of_model2vec():
    vectorizer = WordCounts(Analysis(encoder=open_encoder("encoders/one")), WORDS)
    features = vectorizer.features([*TEXTS, "", "unknown \ud800"])
    expected = StaticModel.from_pretrained("encoders/one").encode([*TEXTS, "", "unknown ?"])
    assert np.array_equal(features.dense.values(), expected)
    assert (42, len(WORDS)) == (features.N, features.D)


def test_an_encoder_trains_the_model_of_its_embeddings_as_a_file(model):
    np.save("e.npy", StaticModel.from_pretrained("encoders/one").encode(TEXTS))
    trained("--dense", "e.npy", model="f")
    assert answers("m", "train.jsonl") == answers("f", "train.jsonl", "--dense", "e.npy")
    first, second = (json.loads(Path(name, "model.json").read_text())["data"] for name in "mf")
    assert first == second
    assert first["dense"] == [6]


def test_the_blocks_of_files_follow_that_of_the_encoder():
    np.save("e.npy", RANDOM.normal(size=(40, 2)))
    options = "--encoder", "encoders/one", "--dense", "e.npy"
    said_last = run("train", "train.jsonl", "m", "--set=epochs=1", *options).stderr.splitlines()[-1]
    assert said_last == "m: next, `xmlgp predict m DATA --dense FILE`; `xmlgp show m` has the details"
    trained(*options)
    assert xmlgp.load("m").data["dense"] == [6, 2]
    answers("m", "train.jsonl", "--dense", "e.npy")
    first = json.loads(answers("m", "train.jsonl", "--dense", "e.npy", "--explain", "1").splitlines()[0])
    assert [name for name in first["labels"][0]["from"] if name not in ("regression", "neighbours")] == [
        "words",
        "encoder",
        "dense 1",
        "bias",
    ]
    assert "trained with dense features of widths 6 and 2" in said(run("predict", "m", "train.jsonl"))


def test_training_does_not_drop_the_encoder_of_preprocessing():
    assert run("preprocess", "train.jsonl", "m", "--encoder", "encoders/one").exit_code == 0
    text = said(run("train", "train.jsonl", "m", "-q"))
    assert "preprocessed with dense features of width 6, but now have none; give the same by --dense FILE" in text
    trained("--encoder", "encoders/one")


def test_words_may_be_left_out():
    trained("--encoder", "encoders/one", "--analyzer", "none")
    found = xmlgp.load("m")
    assert (found.data["D"], found.data["dense"]) == (0, [6])
    result = run("predict", "m", "train.jsonl", "-k", 1)
    assert len(result.stdout.splitlines()) == 40
    assert "no word" not in result.stderr
    write("more.jsonl", ["a new cat", "red and big words"], [["cat"], ["red", "other"]])
    for command in ["report", "m", "more.jsonl"], ["learn", "m", "more.jsonl", "--force"], ["show", "m"]:
        result = run(*command)
        assert result.exit_code == 0, result.stderr
    answers("m", "train.jsonl", "--explain", 2)
    assert len(list(xmlgp.predict("m", TEXTS))) == 40


def test_a_model_finds_its_encoder_from_every_folder(model, monkeypatch, tmp_path):
    before = answers("m", "-", stdin="a cat\n")
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    assert answers(tmp_path / "m", "-", stdin="a cat\n") == before


def test_blocks_of_a_stream_have_the_embeddings_of_their_documents(model):
    whole = [json.loads(line)["labels"] for line in answers("m", "train.jsonl", "-k", 3).splitlines()]
    piped = answers("m", "-", "-k", 3, stdin=Path("train.jsonl").read_text())
    assert [json.loads(line)["labels"] for line in piped.splitlines()] == whole
    answers("m", "train.jsonl", "-k", 3, "-o", "s.scores", "--format", "scores")
    assert len(Path("s.scores").read_text().splitlines()) == 41


def test_the_same_encoder_may_be_elsewhere(model):
    before = answers("m", "train.jsonl")
    Path("encoders/one").rename("moved")
    assert answers("m", "train.jsonl", "--encoder", "moved") == before
    text = said(run("predict", "m", "train.jsonl"))
    assert "there is no encoder" in text
    assert "--encoder PATH says where it is" in text
    text = said(run("predict", "m", "train.jsonl", "--encoder", "encoders/two"))
    assert "is not the encoder" in text


def test_a_changed_encoder_is_refused(model):
    file = Path("encoders/one/config.json")
    file.write_text(file.read_text().replace("512", "8"))
    assert "its files are others" in said(run("predict", "m", "train.jsonl"))


def test_learning_tuning_and_reports_encode_text(model):
    write("more.jsonl", ["a new cat", "red and big words"], [["cat"], ["red", "other"]])
    for command in (
        ["tune", "m", "more.jsonl"],
        ["report", "m", "more.jsonl"],
        ["learn", "m", "more.jsonl", "--force", "--dry-run"],
        ["learn", "m", "more.jsonl", "--force"],
    ):
        result = run(*command)
        assert result.exit_code == 0, result.stderr
    found = xmlgp.load("m")
    assert (found.data["N"], found.data["dense"]) == (42, [6])
    assert found.names.vectorizer.analysis.encoder.name == str(Path("encoders/one").absolute())
    answers("m", "train.jsonl")


def test_show_names_the_encoder(model):
    assert "encoders/one" in run("show", "m").stdout


def test_texts_in_memory():
    found = xmlgp.train(xmlgp.Source(TEXTS, LABELS, encoder=Path("encoders/one")), settings=SMALL)
    kept = list(xmlgp.predict(found, TEXTS))
    found.save("m")
    assert list(xmlgp.predict("m", TEXTS)) == kept
    Path("encoders/one").rename("moved")
    assert list(xmlgp.predict("m", xmlgp.Source(TEXTS, encoder="moved"))) == kept


def test_a_tagger_has_an_encoder():
    tagger = TextTagger(MLGPFClassifier(epochs=1, factors=3, regression_points=0), encoder="encoders/one")
    found = tagger.fit(TEXTS, LABELS)
    found.save("m")
    again = TextTagger.load("m")
    assert np.array_equal(again.predict_proba(TEXTS), found.predict_proba(TEXTS))
    assert again.encoder == str(Path("encoders/one").absolute())
    assert again.vectorizer is None
    with pytest.raises(SettingsError, match="an encoder needs texts"):
        tagger.fit(np.ones((2, 3)), LABELS[:2])


def test_copies_do_not_contain_the_files():
    encoder = open_encoder("encoders/one")
    for other in pickle.loads(pickle.dumps(encoder)), copy.deepcopy(encoder):
        assert "_function" not in vars(other)
        assert np.array_equal(other.encode(TEXTS), encoder.encode(TEXTS))


@pytest.fixture(scope="module")
def transformer(tmp_path_factory):
    """A folder with a tiny BERT of sentence-transformers, which is no part of the tests' packages."""
    missing = "sentence-transformers is not installed: pip install '.[encode-transformers]'"
    library = pytest.importorskip("sentence_transformers", minversion="6", reason=missing)
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("transformer")
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(["[UNK]", "[PAD]", *WORDS])}, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {"unk_token": "[UNK]", "pad_token": "[PAD]", "model_max_length": 16}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder / "bert")
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    BertModel(BertConfig(vocab_size=len(WORDS) + 2, **sizes)).save_pretrained(folder / "bert")
    library.SentenceTransformer(str(folder / "bert")).save(str(folder / "encoder"))
    return folder / "encoder"


def test_other_encoders_are_those_of_sentence_transformers(transformer):
    import sentence_transformers

    expected = sentence_transformers.SentenceTransformer(str(transformer)).encode(TEXTS)
    assert np.allclose(open_encoder(transformer).encode(TEXTS), expected, atol=1e-6)
    trained("--encoder", transformer)
    answers("m", "train.jsonl")


def test_code_of_an_encoder_does_not_run(transformer):
    shutil.copytree(transformer, "e")
    Path("e/evil.py").write_text("open('ran', 'w')\nclass Evil: pass\n")
    file = Path("e/modules.json")
    file.write_text(json.dumps([module | {"type": "evil.Evil"} for module in json.loads(file.read_text())]))
    with pytest.raises(XmlgpError, match="not part of Sentence Transformers"):
        open_encoder("e")
    assert not Path("ran").exists()


# The cache.


@pytest.fixture
def encoder(monkeypatch):
    """An encoder that lists the texts that it has computed."""
    found, real = open_encoder("encoders/one"), StaticModel.encode
    found.seen = []
    monkeypatch.setattr(StaticModel, "encode", lambda self, texts, **how: found.seen.extend(texts) or real(self, texts))
    found.find()
    return found


def test_each_text_is_encoded_once(encoder):
    expected = encoder.encode(TEXTS)
    encoder.seen.clear()
    assert np.array_equal(encoder.encode([*TEXTS[:20], *TEXTS[:20]], cache=True), expected[[*range(20), *range(20)]])
    assert encoder.seen == TEXTS[:20]
    encoder.find()
    assert np.array_equal(encoder.encode(TEXTS[::-1], cache=True), expected[::-1])
    assert sorted(encoder.seen) == sorted(TEXTS)


@pytest.fixture
def database(encoder):
    encoder.encode(TEXTS, cache=True)
    encoder.seen.clear()
    return next(Path("cache/embeddings").glob("*/embeddings.sqlite"))


def _overwritten(file):
    file.write_bytes(b"nonsense" * 1000)


def _changed(file):
    with sqlite3.connect(file) as database:
        database.execute("UPDATE embeddings SET embedding = zeroblob(24)")
    database.close()


def _shortened(file):
    with sqlite3.connect(file) as database:
        database.execute("UPDATE embeddings SET embedding = x'', checksum = 0")
    database.close()


def _of_another_type(file):
    with sqlite3.connect(file) as database:
        database.execute("UPDATE embeddings SET embedding = 5")
    database.close()


def _of_another_schema(file):
    # A message quotes it.
    file.write_bytes(file.read_bytes().replace(b"embedding BLOB", b"embedding \xb2\xb2LOB"))


@pytest.mark.parametrize("damage", [_overwritten, _changed, _shortened, _of_another_type, _of_another_schema])
def test_a_damaged_cache_is_replaced(encoder, database, damage):
    expected = encoder.encode(TEXTS)
    damage(database)
    for _ in range(3):
        encoder.seen.clear()
        assert np.array_equal(encoder.encode(TEXTS, cache=True), expected)
    assert encoder.seen == []


def test_a_cache_that_cannot_be_written_is_not_used(encoder, monkeypatch):
    Path("file").touch()
    monkeypatch.setenv("XMLGP_CACHE_DIR", "file")
    assert np.array_equal(encoder.encode(TEXTS, cache=True), encoder.encode(TEXTS))


def test_a_cache_that_another_process_locks_is_waited_for_once(encoder, database, monkeypatch):
    def connect(file, timeout):
        waited.append(timeout)
        return original(file, timeout=timeout)

    expected, waited, original = encoder.encode(TEXTS), [], sqlite3.connect
    monkeypatch.setattr(embedding_cache, "PATIENCE", 0.1)
    encoder.__dict__.pop("_cache")
    with contextlib.closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        monkeypatch.setattr(sqlite3, "connect", connect)
        for _ in range(3):
            assert np.array_equal(encoder.encode(TEXTS, cache=True), expected)
    assert (waited[0], set(waited[1:])) == (0.1, {0})
    encoder.seen.clear()
    assert np.array_equal(encoder.encode(TEXTS, cache=True), expected)
    assert encoder.seen == []


def test_only_commands_with_a_cache_store_embeddings():
    trained("--encoder", "encoders/one", "--no-cache")
    answers("m", "train.jsonl")
    assert not Path("cache/embeddings").exists()
    trained("--encoder", "encoders/one")
    assert Path("cache/embeddings").exists()


# What is refused.


def test_nothing_is_downloaded_unless_the_user_asks_for_it(monkeypatch):
    asked = []

    def download(name, local_files_only, **options):
        asked.append((name, local_files_only))
        raise OSError("no network\nmore")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    text = said(run("train", "train.jsonl", "m", "--encoder", "some/name"))
    assert "there is no encoder some/name" in text
    text = said(run("train", "train.jsonl", "m", "--encoder", "some/name", "--download"))
    assert text.endswith("the encoder some/name cannot be downloaded: no network")
    assert asked == [("some/name", True), ("some/name", False)]
    assert not Path("m").exists()


def test_a_name_is_found_in_the_cache_of_hugging_face(monkeypatch):
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda name, **options: "encoders/one")
    trained("--encoder", "some/name")
    assert xmlgp.load("m").names.vectorizer.analysis.encoder.name == "some/name"
    answers("m", "train.jsonl")


@pytest.mark.parametrize("place", ["no/such/folder/anywhere", "two words", "../x", "a" * 300])
def test_a_name_of_nothing_is_one_sentence(place):
    assert "there is no encoder" in said(run("train", "train.jsonl", "m", "--encoder", place))


def test_an_encoder_is_for_text_alone(encoders):
    np.savetxt("x", [[1.0]])
    Path("rows.txt").write_text("2 2 1\n0 0:1\n0 1:1\n")
    assert "these are rows of numbers, not text" in said(run("train", "rows.txt", "m", "--encoder", "encoders/one"))
    with pytest.raises(SettingsError, match="give the text"):
        xmlgp.train(xmlgp.Source(np.ones((2, 3)), [[1], [1]], encoder="encoders/one"))
    assert run("train", "train.jsonl", "m", "--download").exit_code == 2
    trained()
    assert "trained without an encoder" in said(run("predict", "m", "train.jsonl", "--encoder", "encoders/one"))


def test_text_without_words_needs_dense_features():
    text = said(run("train", "train.jsonl", "m", "-q", "--analyzer", "none"))
    assert text == "there is nothing to learn from: no training point has a feature"
    assert "needs words" in said(run("vectorize", "train.jsonl", "data", "--analyzer", "none"))


def _replace_by_pipe(file):
    file.unlink(missing_ok=True)
    os.mkfifo(file)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda: Path("e/model.safetensors").unlink(), "is not an encoder"),
        (lambda: Path("e/model.safetensors").write_bytes(b"nonsense"), "fails"),
        (lambda: Path("e/tokenizer.json").write_text("{}"), "fails"),
        (lambda: Path("e/modules.json").write_text("{"), "does not list the modules"),
        (lambda: _replace_by_pipe(Path("e/modules.json")), "does not list the modules"),
        (lambda: Path("e/modules.json").write_text('{"a": 1}'), "does not list the modules"),
        (lambda: make_encoder(Path("e"), width=0), "some finite numbers"),
    ],
)
def test_a_damaged_encoder_is_one_sentence(change, reason):
    shutil.copytree("encoders/one", "e")
    change()
    with pytest.raises(XmlgpError, match=reason) as caught:
        open_encoder("e")
    assert "\n" not in str(caught.value)


def test_embeddings_must_be_finite(monkeypatch):
    found = open_encoder("encoders/one")
    monkeypatch.setattr(StaticModel, "encode", lambda self, texts, **how: np.full((len(texts), 6), np.nan))
    found.find()
    with pytest.raises(XmlgpError, match="6 finite numbers"):
        found.encode(TEXTS)


def test_pickled_weights_are_refused():
    Path("e").mkdir()
    Path("e/modules.json").write_text('[{"type": "sentence_transformers.models.Transformer"}]')
    Path("e/pytorch_model.bin").touch()
    with pytest.raises(SettingsError, match="weights in safetensors"):
        open_encoder("e")
    Path("e/model.safetensors").touch()
    Path("e/1_Dense").mkdir()
    Path("e/1_Dense/pytorch_model.bin").touch()
    with pytest.raises(SettingsError, match="weights in safetensors"):
        open_encoder("e")


@pytest.mark.parametrize(
    ("module", "kind", "extra"),
    [("model2vec", "StaticEmbedding", "encode"), ("sentence_transformers", "Transformer", "encode-transformers")],
)
def test_a_missing_package_is_named(monkeypatch, module, kind, extra):
    shutil.copytree("encoders/one", "e")
    Path("e/modules.json").write_text(json.dumps([{"type": f"sentence_transformers.models.{kind}"}]))
    monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(XmlgpError, match=rf"pip install 'xmlgp\[{extra}\]'"):
        open_encoder("e")


@pytest.mark.parametrize(
    "change",
    [
        {"name": ""},
        {"name": "a\x1b[2J"},
        {"name": 3},
        {"fingerprint": "../x"},
        {"fingerprint": None},
        {"width": 0},
        {"width": 7},
        {"width": 6.0},
        None,
    ],
)
def test_a_damaged_description_is_refused(model, change):
    file = Path("m/model.json")
    description = json.loads(file.read_text())
    own = description["vectorizer"]["encoder"]
    description["vectorizer"]["encoder"] = own | change if change else change
    file.write_text(json.dumps(description))
    with pytest.raises(ModelFolderError, match="damaged"):
        xmlgp.load("m")


def test_a_data_folder_names_no_encoder(model):
    run("vectorize", "train.jsonl", "data")
    encoder = json.loads(Path("m/model.json").read_text())["vectorizer"]["encoder"]
    file = Path("data/vectorizer.json")
    file.write_text(json.dumps(json.loads(file.read_text()) | {"encoder": encoder}))
    assert "not the description of a vectorizer" in said(run("train", "data", "other"))
