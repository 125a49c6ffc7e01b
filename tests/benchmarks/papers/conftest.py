"""Small data sets in the proportions of those of the catalogue."""

import copy

import pytest
from sklearn.datasets import dump_svmlight_file

from benchmarks.papers.catalogue import load_papers
from tests.problems import small_dataset
from xmlgp.data.repository_format import write_dataset

__all__ = ["catalogue", "data"]

#: Divisors of the sizes. They keep the proportions that each recipe is made for.
SCALES = {"N": 60, "D": 40, "K": 20}


@pytest.fixture(scope="session")
def _catalogue():
    return load_papers()


@pytest.fixture
def catalogue(_catalogue):
    """Return a copy of the catalogue, which a test may change."""
    return copy.deepcopy(_catalogue)


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """Return a folder with a small substitute for every data set of the catalogue; tests must not change it."""
    root = tmp_path_factory.mktemp("experiments") / "data"
    for entry in load_papers().entries.values():
        sizes = [min(120, max(12, getattr(entry.shape, letter) // scale)) for letter, scale in SCALES.items()]
        folder = root / entry.name
        folder.mkdir(parents=True)
        for file, seed in zip(entry.files, (0, 3), strict=False):
            if entry.format == "repository":
                write_dataset(folder / file.name, small_dataset(*sizes, seed=seed))
            else:
                points = small_dataset(*sizes[:2], K=1, seed=seed)
                signs = 2 * points.labels.toarray()[:, 0] - 1
                dump_svmlight_file(points.features.sparse, signs, str(folder / file.name), zero_based=False)
    return root
