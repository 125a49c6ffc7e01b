"""A folder with data and models, and commands on terminals in it."""

import os
import shutil

import numpy as np
import pytest

from tests.cli.command import CATALOGUE
from tests.cli.texts import as_json, documents
from tests.problems import small_dataset
from tests.terminal.session import Session, Starter
from xmlgp.data.repository_format import write_dataset

#: Training points, some of which are held out by default.
POINTS = 200

#: Models that the starter trains.
MODELS = ("rows", "text", "topics")


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """Return a folder with data sets and models."""
    folder = tmp_path_factory.mktemp("terminal")
    (folder / "catalogue.yaml").write_text(CATALOGUE)
    for name in ("data", "mirror/known"):
        (folder / name).mkdir(parents=True)
    write_dataset(folder / "data/train.txt", small_dataset(POINTS))
    write_dataset(folder / "data/test.txt", small_dataset(seed=7).rows(slice(0, 9)))
    write_dataset(folder / "mirror/known/train.txt", small_dataset())
    write_dataset(folder / "mirror/known/test.txt", small_dataset(9, seed=7))
    random = np.random.default_rng(0)
    np.save(folder / "train.npy", random.normal(size=(POINTS, 4)).astype(np.float32))
    two = np.sign(random.normal(size=60))
    rows = [f"{label:+.0f} 1:{label + random.normal():.3f} 2:{random.normal():.3f}\n" for label in two]
    (folder / "two.svm").write_text("".join(rows))
    (folder / "train.jsonl").write_text(as_json(documents(POINTS, 0)))
    (folder / "test.jsonl").write_text(as_json(documents(30, 1)))
    (folder / "malformed.txt").write_text("2 25 7\n0 1:2\n0 1:x\n")
    return folder


@pytest.fixture(scope="session")
def starter(place):
    """Return what starts commands in the folder (`Starter`), which has the models rows, text and topics."""
    starter = Starter(place)
    yield starter
    starter.close()


@pytest.fixture(scope="session")
def new_folder(place, starter, tmp_path_factory):
    """Return a function that makes a folder with the data, and with copies of the models."""

    def make():
        folder = tmp_path_factory.mktemp("command")
        for file in place.iterdir():
            if file.name in MODELS:
                shutil.copytree(file, folder / file.name)
            else:
                (folder / file.name).symlink_to(file)
        return folder

    return make


@pytest.fixture(scope="session")
def run_piped(starter, new_folder):
    """Return a function that runs a command and returns the lines that it writes into files.

    Tables are as wide as for a terminal of so many `columns`.
    """

    def run(words, columns):
        folder = new_folder()
        outputs = [folder / name for name in ("output", "messages")]
        environment = environment_in(folder) | {"COLUMNS": str(columns)}
        starter.start(words.split(), folder, environment, outputs=[str(file) for file in outputs])
        starter.wait()
        return [line for file in outputs for line in file.read_text().splitlines()]

    return run


@pytest.fixture
def start(starter, new_folder):
    """Return a function that starts a command on a terminal (`Session`).

    Of its words, `new` is a path that does not exist. With a `Process` it is one of its own.
    """
    sessions = []

    def run(words, environment=None, columns=100, folder=None, starter=starter):
        folder = folder or new_folder()
        sessions.append(Session(starter, words.split(), folder, environment_in(folder) | (environment or {}), columns))
        return sessions[-1]

    yield run
    for session in sessions:
        session.close()


def environment_in(folder):
    """Return the environment of a command: the cache and the catalogue are in its folder."""
    own = {"XMLGP_CACHE_DIR": str(folder / "cache"), "XMLGP_CATALOGUE": str(folder / "catalogue.yaml")}
    return os.environ | own
