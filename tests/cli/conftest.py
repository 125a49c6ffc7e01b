"""A working folder with data, a catalogue and a cache; file systems of any size."""

import subprocess

import pytest

from tests.cli.command import CATALOGUE
from tests.problems import small_dataset
from xmlgp.data.repository_format import write_dataset


@pytest.fixture
def place(tmp_path, monkeypatch):
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
    places = set()

    def mount(place, options):
        """Mount it with options of tmpfs; the option `remount` changes a mounted one."""
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
        try:
            failure = subprocess.run(command, capture_output=True, check=False, timeout=10).stderr
        except OSError as error:
            failure = error
        if failure:
            pytest.skip(f"no file system can be mounted here: {failure}")
        places.add(place)

    yield mount
    for place in places:
        # Arrays of models in it may still be memory-mapped.
        subprocess.run(["umount", "--lazy", str(place)], check=True, timeout=10)
