"""Small data sets in the proportions of those of the catalogue."""

import pytest
from sklearn.datasets import dump_svmlight_file

from tests.figures import drawn
from tests.problems import small_dataset
from xmlgp.data.catalogue import load_catalogue
from xmlgp.data.repository_format import write_dataset

__all__ = ["catalogue", "data", "drawn"]

#: Divisors of the sizes. Proportions stay, so that each recipe meets the case it is written for.
SCALES = {"N": 60, "D": 40, "K": 20}


@pytest.fixture(scope="session")
def catalogue():
    return load_catalogue()


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """A folder with a small substitute for every data set of the catalogue; shared, so not to be changed."""
    root = tmp_path_factory.mktemp("experiments") / "data"
    for entry in load_catalogue().entries.values():
        sizes = [min(120, max(12, getattr(entry.shape, letter) // scale)) for letter, scale in SCALES.items()]
        folder = root / entry.name
        folder.mkdir(parents=True)
        for file, seed in zip(entry.files, (0, 3), strict=False):
            if entry.format == "repository":
                write_dataset(folder / file.name, small_dataset(*sizes, seed=seed))
            else:
                points = small_dataset(*sizes[:2], K=1, seed=seed)
                signs = 2 * points.labels.toarray()[:, 0] - 1
                dump_svmlight_file(points.features, signs, str(folder / file.name), zero_based=False)
    return root
