from xmlgp.data import toy
from xmlgp.data.catalogue import load_catalogue
from xmlgp.data.fetch import fetch
from xmlgp.data.formats import read_dataset


def test_fetched_files_match_the_catalogue(tmp_path):
    # The checksums in the catalogue ensure that it is the same on every machine.
    entry = load_catalogue()["toy"]
    assert all(file.checksums for file in entry.files)
    fetched = fetch(entry, tmp_path)
    for path, expected in zip(fetched.paths, toy.toy_dataset(), strict=True):
        dataset = read_dataset(path)
        assert (dataset.features.sparse != expected.features.sparse).nnz == 0
        assert (dataset.labels != expected.labels).nnz == 0
