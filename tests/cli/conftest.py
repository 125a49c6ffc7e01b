"""A folder to work in, with data, a catalogue and a cache of its own."""

import pytest

from tests.cli.command import CATALOGUE
from tests.problems import small_dataset
from xmlgp.data.repository_format import write_dataset


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The current folder, with data/train.txt and data/test.txt."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XMLGP_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("XMLGP_CATALOGUE", str(tmp_path / "catalogue.yaml"))
    (tmp_path / "catalogue.yaml").write_text(CATALOGUE)
    (tmp_path / "data").mkdir()
    write_dataset("data/train.txt", small_dataset())
    write_dataset("data/test.txt", small_dataset(seed=7).rows(slice(0, 9)))
    return tmp_path
