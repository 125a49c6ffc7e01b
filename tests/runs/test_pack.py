"""`pack`: one file that is read like the folder, the same for the same model, and written whole or not at all."""

import errno
import itertools
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest

import xmlgp
from tests.cli.command import SMALL, run
from tests.cli.disk import everything, failing_disk
from tests.cli.texts import TEST, as_json, documents
from tests.problems import small_dataset
from tests.text.encoders import WORDS, make_encoder
from xmlgp.data.repository_format import write_dataset
from xmlgp.errors import ModelFolderError, UsageError
from xmlgp.estimators import TextTagger, load_estimator
from xmlgp.model_folder import packed, packing
from xmlgp.model_folder.folder import ModelFolder

LABELS = ["--label-weights"]

#: The options of models of every kind.
KINDS = {
    "weight space": [*SMALL, *LABELS],
    "subspace": [*SMALL, "--inducing", "subspace", "-M", "6", "-R", "9"],
    "topics": ["--model", "bmlpl", "--topics", "3", "--iterations", "2"],
    "classes": ["--model", "gpc", "-M", "6", "--iterations", "2"],
    "dense": [*SMALL, *LABELS, "--dense", "train.npy"],
    "text": [*SMALL, *LABELS],
    "encoder": [*SMALL, *LABELS, "--encoder", "encoder"],
}


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.setenv("XMLGP_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


def train(path="model", seed=0):
    return xmlgp.train(small_dataset(), path, settings={"factors": 3, "epochs": 2, "seed": seed})


def make(kind):
    """Train a model of a kind with the command; return the options of prediction."""
    K = 1 if kind == "classes" else 7
    write_dataset("train.txt", small_dataset(K=K))
    write_dataset("test.txt", small_dataset(seed=7, K=K).rows(slice(0, 9)))
    random = np.random.default_rng(0)
    np.save("train.npy", random.normal(size=(40, 5)).astype(np.float32))
    np.save("test.npy", random.normal(size=(9, 5)).astype(np.float32))
    Path("train.jsonl").write_text(as_json(documents(60, 0)))
    Path("new.jsonl").write_text(as_json(TEST))
    is_text = kind in ("text", "encoder")
    if kind == "encoder":
        pytest.importorskip("model2vec")
        make_encoder(Path("encoder"), words=WORDS)
    data = ["train.jsonl", "new.jsonl"] if is_text else ["train.txt", "test.txt"]
    assert run("train", data[0], "model", *KINDS[kind], "-q").exit_code == 0
    return [data[1], *(["--dense", "test.npy"] if kind == "dense" else [])]


@pytest.mark.parametrize("kind", KINDS)
def test_a_packed_model_predicts_like_its_folder(kind):
    test = make(kind)
    assert run("pack", "model", "m.zip").exit_code == 0
    scores = {}
    for model in "model", "m.zip":
        result = run("predict", model, *test, "-k", "all", "--output", "probability")
        assert result.exit_code == 0, result.stderr
        scores[model] = result.stdout
    assert scores["m.zip"] == scores["model"]
    shown, expected = (run("show", model).stdout.splitlines() for model in ("m.zip", "model"))
    assert shown[0] == expected[0].replace("model", "m.zip", 1)
    assert shown[1:] == expected[1:]
    settings = [run("settings", model, "--json").stdout for model in ("m.zip", "model")]
    assert settings[0] == settings[1]
    # Nothing but the packed model is left.
    shutil.rmtree("model")
    assert run("predict", "m.zip", *test, "-k", "all", "--output", "probability").stdout == scores["m.zip"]


@pytest.mark.parametrize("command", [
    ["evaluate", "scores", "test.txt", "--train", "MODEL", "--json"],
    ["compare", "scores", "scores", "test.txt", "--train", "MODEL", "--json"],
    ["topics", "MODEL", "--json"],
    ["show", "MODEL", "--json"],
])  # fmt: skip
def test_a_packed_model_takes_the_place_of_a_folder(command):
    make("topics")
    run("predict", "model", "test.txt", "-k", "5", "-o", "scores")
    run("pack", "model", "m.zip")
    results = [run(*[model if word == "MODEL" else word for word in command]) for model in ("model", "m.zip")]
    assert [result.exit_code for result in results] == [0, 0]
    names = {entry["file"]: entry["file"] for entry in ModelFolder("model").entries("").values()}
    packed_names = [entry["file"] for entry in ModelFolder("m.zip").entries("").values()]
    expected = results[0].stdout
    for name, other in zip(names, packed_names, strict=True):
        expected = expected.replace(name, other)
    assert results[1].stdout == expected


def test_a_report_and_a_plot_are_of_a_packed_model():
    make("weight space")
    run("pack", "model", "m.zip")
    pytest.importorskip("matplotlib")
    result = run("report", "m.zip", "test.txt", "-o", "report.html")
    assert result.exit_code == 0, result.stderr
    # Its title is without the ending; a folder has none.
    assert "<title>Report: m</title>" in Path("report.html").read_text()
    os.rename("model", "model.v1")
    assert run("report", "model.v1", "test.txt", "-o", "report.html").exit_code == 0
    assert "<title>Report: model.v1</title>" in Path("report.html").read_text()
    assert run("plot", "bound", "m.zip", "-o", "bound.png").exit_code == 0
    assert run("report", "m.zip", "test.txt", "-o", "m.zip").exit_code == 2
    assert zipfile.is_zipfile("m.zip")


def test_estimators_load_a_packed_model():
    texts, names = zip(*[(text["text"], text["labels"]) for text in documents(60, 0)], strict=True)
    tagger = TextTagger().fit(list(texts), list(names))
    packed_model = xmlgp.pack(tagger.model_, "m.zip")
    assert packed_model.path == "m.zip"
    assert packed_model.size == os.path.getsize("m.zip")
    loaded = TextTagger.load("m.zip")
    assert loaded.suggest(list(texts[:9])) == tagger.suggest(list(texts[:9]))
    assert type(load_estimator("m.zip")) is type(tagger.classifier_)
    loaded.partial_fit([texts[0]], [names[0]])


def test_the_same_model_has_the_same_bytes_in_a_file_of_the_same_name(tmp_path):
    model = train()
    xmlgp.pack("model", "a.zip")
    (tmp_path / "elsewhere").mkdir()
    shutil.copytree("model", tmp_path / "elsewhere" / "model")
    xmlgp.pack(tmp_path / "elsewhere" / "model", tmp_path / "elsewhere" / "a.zip")
    expected = Path("a.zip").read_bytes()
    assert (tmp_path / "elsewhere" / "a.zip").read_bytes() == expected
    # Also when it is packed again, and from memory, where arrays have other files.
    os.rename("a.zip", "b.zip")
    for source in "b.zip", xmlgp.load("b.zip"):
        xmlgp.pack(source, "a.zip", overwrite=True)
        assert Path("a.zip").read_bytes() == expected
    model.folder = None
    xmlgp.pack(model, "a.zip", overwrite=True)
    first, second = (members(name) for name in ("a.zip", "b.zip"))
    assert first.keys() == second.keys()
    assert {name for name in first if first[name] != second[name]} <= {"README.md"}


def members(file):
    with zipfile.ZipFile(file) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def test_a_packed_model_has_what_belongs_to_the_model_and_nothing_else():
    train()
    for name in ".lock", "checkpoint.npz", "notes.txt", "arrays/parameters.left.behind.01234567.npy", "arrays/mine.npy":
        Path("model", name).write_bytes(b"mine")
    xmlgp.pack("model", "m.zip")
    with zipfile.ZipFile("m.zip") as archive:
        names = archive.namelist()
        assert names == sorted(names)
        assert {name for name in names if not name.startswith("arrays/")} == {"README.md", "model.json"}
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    folder = ModelFolder("m.zip")
    assert {name for name in names if name.startswith("arrays/")} == {
        entry["file"] for entry in folder.entries("").values()
    }


def test_a_card_that_people_wrote_goes_along():
    train()
    card = Path("model", "README.md")
    card.write_text(card.read_text().replace("- Licence and contact:", "- Licence: ours"))
    xmlgp.pack("model", "m.zip")
    text = members("m.zip")["README.md"].decode()
    assert "- Licence: ours" in text
    assert "xmlgp predict m.zip DATA" in text
    card.write_text("# Mine\n")
    xmlgp.pack("model", "m.zip", overwrite=True)
    assert members("m.zip")["README.md"] == b"# Mine\n"
    # A link could lead to any file.
    Path("secret").write_text("secret")
    card.unlink()
    card.symlink_to(Path("secret").resolve())
    xmlgp.pack("model", "m.zip", overwrite=True)
    assert b"secret" not in members("m.zip")["README.md"]


def test_what_the_model_contains_is_said():
    train()
    result = run("pack", "model", "m.zip")
    assert result.stdout == "m.zip\n"
    size, rows = result.stderr.splitlines()
    assert size.startswith("m.zip: 0.")
    assert rows.startswith("m.zip: it contains features and labels of 40 training points, for ")
    settings = {"factors": 3, "epochs": 2, "replay": 0, "regression_points": 0}
    packed_model = xmlgp.pack(xmlgp.train(small_dataset(), settings=settings), "n.zip")
    assert packed_model.rows == "no training points"
    assert packed_model.unpacked == sum(map(len, members("n.zip").values()))
    assert run("pack", "-q", "model", "o.zip").stderr == ""


def test_a_damaged_model_is_not_packed():
    train()
    entry = ModelFolder("model").entries("")["parameters.loadings"]
    Path("model", entry["file"]).write_bytes(b"x")
    before = sorted(os.listdir())
    with pytest.raises(ModelFolderError, match="the array parameters.loadings is damaged"):
        xmlgp.pack("model", "m.zip")
    os.unlink(Path("model", entry["file"]))
    with pytest.raises(ModelFolderError, match="is missing"):
        xmlgp.pack("model", "m.zip")
    assert sorted(os.listdir()) == before


def test_a_model_that_was_replaced_since_it_was_loaded_is_not_packed():
    model = train()
    train(seed=4)
    with pytest.raises(ModelFolderError, match="model: the folder holds another model by now; load it again"):
        xmlgp.pack(model, "m.zip")
    with pytest.raises(UsageError, match="A model is a path or a TrainedModel, not int"):
        xmlgp.pack(3, "m.zip")
    assert os.listdir() == ["model"]


def test_what_would_be_refused_when_it_is_read_is_stored_uncompressed(monkeypatch):
    model = train()
    for name, array in model.parameters.items():
        if name.startswith("label_weights.mean") or array.size > 100:
            model.parameters[name] = np.zeros_like(array)
    model.folder = None
    for module in packed, packing:
        monkeypatch.setattr(module, "expansion_limit", lambda size: size + 1000 if size > 20_000 else size)
    result = xmlgp.pack(model, "m.zip")
    with zipfile.ZipFile("m.zip") as archive:
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}
    assert result.size > result.unpacked


def test_a_model_is_packed_whole_while_another_process_replaces_it(monkeypatch):
    train()
    trained = {seed: members(xmlgp.pack(train(f"model{seed}", seed), f"{seed}.zip").path) for seed in (0, 1)}
    opened = packing._opened
    replaced = []

    def replace_first(folder, entry):
        if not replaced:
            replaced.append(1)
            xmlgp.load("model1").save("model")
        return opened(folder, entry)

    monkeypatch.setattr(packing, "_opened", replace_first)
    xmlgp.pack("model", "m.zip")
    found = members("m.zip")
    assert {name for name in found if found[name] != trained[1].get(name)} <= {"README.md"}


def test_readers_and_writers_of_one_file_see_whole_models():
    for seed in 0, 1:
        train(f"model{seed}", seed)
    xmlgp.pack("model0", "m.zip")
    known = {ModelFolder(f"model{seed}").description["settings"]["seed"] for seed in (0, 1)}
    failures = []
    done = threading.Event()

    def read():
        while not done.is_set():
            try:
                assert xmlgp.load("m.zip").settings.seed in known
            except Exception as error:
                failures.append(error)
                return

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for turn in range(6):
            xmlgp.pack(f"model{turn % 2}", "m.zip", overwrite=True)
    finally:
        done.set()
        reader.join(60)
    assert failures == []


#: A process that packs a model, and is killed when it has written some members.
KILLED = """
import os, signal, sys, zipfile
import xmlgp
write, made = zipfile.ZipFile.open, []
def counted(self, name, mode="r", **options):
    made.append(mode)
    if made.count("w") == 5:
        os.kill(os.getpid(), getattr(signal, sys.argv[1]))
    return write(self, name, mode, **options)
zipfile.ZipFile.open = counted
from xmlgp.cli import main
main(["pack", "model", "m.zip", "--overwrite"])
"""


@pytest.mark.parametrize("name", ["SIGKILL", "SIGINT", "SIGTERM"])
def test_a_process_that_is_killed_while_it_packs_leaves_the_earlier_file(name):
    pytest.importorskip("fcntl")
    train()
    xmlgp.pack("model", "m.zip")
    before = Path("m.zip").read_bytes()
    result = subprocess.run([sys.executable, "-c", KILLED, name], capture_output=True, text=True, check=False)
    number = getattr(signal, name)
    assert result.returncode == (-number if name == "SIGKILL" else 128 + number)
    assert result.stderr == ("" if name == "SIGKILL" else "interrupted\n")
    assert Path("m.zip").read_bytes() == before
    assert (sorted(os.listdir()) == ["m.zip", "model"]) == (name != "SIGKILL")
    xmlgp.pack("model", "other.zip")
    assert sorted(os.listdir()) == ["m.zip", "model", "other.zip"]


@pytest.mark.parametrize("source", ["folder", "memory"])
def test_a_disk_that_fails_leaves_the_earlier_file(monkeypatch, source):
    model = train()
    if source == "memory":
        model.folder = None
    os.mkdir("disk")
    xmlgp.pack("model", "disk/m.zip")
    disk = Path("disk").resolve()
    earlier = everything(disk)
    codes = errno.ENOSPC, errno.EDQUOT, errno.EIO

    def pack():
        xmlgp.pack("model" if source == "folder" else model, "disk/m.zip", overwrite=True)

    with failing_disk(monkeypatch, disk, math.inf, None) as trial:
        pack()
    expected = everything(disk)["m.zip"][1]
    operations = trial.done
    numbers = sorted({operations.index(name) + 1 for name in operations} | {len(operations) - 3})
    for number, code in zip(numbers, itertools.cycle(codes), strict=False):
        failure = None
        with failing_disk(monkeypatch, disk, number, code) as trial:
            try:
                pack()
            except OSError as error:
                failure = error
        if failure is None:
            # Of what is removed, or of the lock and the card of a model in memory.
            harmless = ["os.remove", "os.rmdir", "fsync", *(["write", "open"] if source == "memory" else [])]
            assert trial.failed[0] in harmless
        else:
            assert (failure.errno, os.fspath(failure.filename)) == (code, "disk/m.zip")
            assert everything(disk).keys() == earlier.keys(), trial.done
        assert Path("disk/m.zip").read_bytes() in (earlier["m.zip"][1], expected)
