"""Fixtures: a working folder with data, a catalogue and a cache; file systems of limited size."""

import subprocess

import pytest

from tests.cli.command import CATALOGUE
from tests.problems import small_dataset
from xmlgp.data.repository_format import write_dataset


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


@pytest.fixture
def mounted():
    """Return a function that mounts a file system in memory over a folder; needs root."""
    mounts = set()

    def mount(folder, options):
        """Mount it with options of tmpfs; the option `remount` changes a mounted one."""
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        try:
            failure = subprocess.run(command, capture_output=True, check=False, timeout=10).stderr
        except OSError as error:
            failure = error
        if failure:
            pytest.skip(f"no file system can be mounted here: {failure}")
        mounts.add(folder)

    yield mount
    for folder in mounts:
        # Arrays of models in it may still be memory-mapped.
        subprocess.run(["umount", "--lazy", str(folder)], check=True, timeout=10)
