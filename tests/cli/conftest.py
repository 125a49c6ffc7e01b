"""Fixtures: a working folder with data, a catalogue and a cache; models trained once; file systems of limited size."""

import shutil

import pytest

from tests.cli.command import CATALOGUE, SMALL, run
from tests.cli.texts import TEST, as_json, documents
from tests.problems import small_dataset
from xmlgp.data.repository_format import write_dataset
from xmlgp.runtime.interrupts import Interrupted
from xmlgp.training.checkpoints import CheckpointWriter


@pytest.fixture
def workdir(tmp_path, monkeypatch):
    """Return the working folder, which has data/train.txt and data/test.txt."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XMLGP_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("XMLGP_CATALOGUE", str(tmp_path / "catalogue.yaml"))
    (tmp_path / "catalogue.yaml").write_text(CATALOGUE)
    (tmp_path / "data").mkdir()
    write_dataset("data/train.txt", small_dataset())
    write_dataset("data/test.txt", small_dataset(seed=7).rows(slice(0, 9)))
    return tmp_path


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """Return a function that trains the folder `model` here, or copies what an earlier test has trained alike."""
    shelf = tmp_path_factory.mktemp("shelf")

    def train(name, *arguments):
        if not (shelf / name).exists():
            assert run("train", *arguments, "-q").output == ""
            shutil.copytree("model", shelf / name)
        else:
            shutil.copytree(shelf / name, "model")

    return train


@pytest.fixture
def model(workdir, trained):
    """Return the folder `model`, trained on data/train.txt; label weights stand beside the latent functions."""
    trained("rows", "data", "model", *SMALL, "--label-weights")
    return workdir / "model"


@pytest.fixture
def text_model(workdir, trained):
    """Return the folder `model`, trained on the documents in train.jsonl; others are in new.jsonl."""
    (workdir / "train.jsonl").write_text(as_json(documents(60, 0)))
    (workdir / "new.jsonl").write_text(as_json(TEST))
    trained("text", "train.jsonl", "model", *SMALL, "--label-weights")
    return workdir / "model"


@pytest.fixture
def topics(workdir, trained):
    """Return the folder `model` of bmlpl with four topics."""
    trained("topics", "data", "model", "--model", "bmlpl", "--topics", "4", "--iterations", "4")
    return workdir / "model"


@pytest.fixture
def interrupt(monkeypatch):
    """Return a function that trains until a checkpoint of so many steps is written, and returns what it says last."""

    def train(steps, *command):
        def stopping(self, state, epoch_ended=False):
            if (found := state()).facts["step"] >= steps:
                self.save(found)
                raise Interrupted(2)

        with monkeypatch.context() as patch:
            patch.setattr(CheckpointWriter, "maybe_save", stopping)
            result = run("train", *command)
        assert (result.exit_code, result.stdout) == (130, "")
        return result.stderr.splitlines()[-1]

    return train
