import numpy as np
import pytest

from xmlgp.data import toy
from xmlgp.data.catalogue import load_catalogue
from xmlgp.data.fetch import fetch
from xmlgp.data.repository_format import read_dataset


@pytest.fixture(scope="module")
def drawn():
    return toy.toy_dataset()


def test_fetched_files_match_the_catalogue(tmp_path, drawn):
    # The checksums in the catalogue ensure that it is the same on every machine.
    entry = load_catalogue()["toy"]
    assert all(file.checksums for file in entry.files)
    fetched = fetch(entry, tmp_path)
    for path, expected in zip(fetched.paths, drawn, strict=True):
        dataset = read_dataset(path, cache=False)
        assert (dataset.features != expected.features).nnz == 0
        assert (dataset.labels != expected.labels).nnz == 0


def test_margins_are_larger_than_rounding_errors():
    # The error of utilities of size 100 is about 1e-13 in double precision.
    *_, margin = toy._draw()
    assert margin > 1e-10


def test_word_frequencies_follow_a_power_law(drawn):
    train, test = drawn
    assert (train.N, test.N, train.D, train.K) == (1500, 700, 900, 100)
    np.testing.assert_array_equal(train.features.sum(axis=1), 40)
    words = np.sort(train.features.sum(axis=0))[::-1] / train.N
    # Each of 40 words is the r-th most frequent one with probability 1 / (r + 3) / 5.7.
    np.testing.assert_allclose(words[[0, 7, 97]], 40 / 5.7 / np.array([4, 11, 101]), rtol=0.25)


def test_label_frequencies_follow_a_power_law(drawn):
    train, test = drawn
    frequencies = np.sort(train.labels.mean(axis=0))[::-1]
    assert train.labels.sum() / train.N == pytest.approx(3, abs=0.15)
    np.testing.assert_allclose(frequencies[[0, 5, 45]], 3 / 3.17 / np.array([5, 10, 50]), rtol=0.25)
    assert train.labels.sum(axis=0).min() >= 5
    np.testing.assert_allclose(test.labels.mean(axis=0), train.labels.mean(axis=0), atol=0.06)
