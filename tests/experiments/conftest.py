"""Data sets of the shape of the catalogue's, scaled down, in a folder of their own."""

import pytest

from tests.problems import small_dataset
from xmlgp.data.catalogue import load_catalogue
from xmlgp.data.repository_format import write_dataset

#: By how much each size is divided: proportions stay, so that all recipes meet the case they are written for.
SCALES = {"N": 60, "D": 40, "K": 20}


@pytest.fixture
def catalogue():
    return load_catalogue()


@pytest.fixture
def data(tmp_path, catalogue, monkeypatch):
    """A folder with a small stand-in for every multi-label set of the catalogue."""
    monkeypatch.setenv("XMLGP_CACHE_DIR", str(tmp_path / "cache"))
    for entry in catalogue.entries.values():
        if entry.format != "repository":
            continue
        sizes = [min(300, max(12, getattr(entry.shape, letter) // scale)) for letter, scale in SCALES.items()]
        folder = tmp_path / "data" / entry.name
        folder.mkdir(parents=True)
        write_dataset(folder / "train.txt", small_dataset(*sizes))
        write_dataset(folder / "test.txt", small_dataset(*sizes, seed=3))
    return tmp_path / "data"
