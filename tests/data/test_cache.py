"""The binary cache: never out of date, repaired if damaged, and not required."""

import errno
import gzip
import os
import shutil
import time
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from xmlgp.data import cache, repository_format
from xmlgp.data.repository_format import read_dataset
from xmlgp.errors import XmlgpError

TEXT = b"4 9 5\n0,3 1:1.5 4:0.5 8:-2.5\n 0:1\n4\n2,1 5:12.125 7:3\n"
FEATURES = [[0, 1.5, 0, 0, 0.5, 0, 0, 0, -2.5], [1] + [0] * 8, [0] * 9, [0, 0, 0, 0, 0, 12.125, 0, 3, 0]]
LABELS = [[1, 0, 0, 1, 0], [0] * 5, [0, 0, 0, 0, 1], [0, 1, 1, 0, 0]]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return the folder of the copies."""
    monkeypatch.setenv("XMLGP_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "text"


@pytest.fixture
def path(tmp_path, folder):
    (tmp_path / "data.txt").write_bytes(TEXT)
    return tmp_path / "data.txt"


@pytest.fixture
def no_parsing(monkeypatch):
    """Return a function after which reading points from text fails the test."""

    def fail(*arguments):
        raise AssertionError("the text was read")

    return lambda: monkeypatch.setattr(repository_format, "parse_lines", fail)


def assert_right(dataset):
    assert dataset.features.sparse.toarray().tolist() == FEATURES
    assert dataset.labels.toarray().tolist() == LABELS
    assert dataset.features.sparse.dtype == np.float32
    assert dataset.labels.dtype == bool
    for matrix in dataset.features.sparse, dataset.labels:
        assert matrix.indices.dtype == matrix.indptr.dtype == np.int32
        assert matrix.has_canonical_format


def is_mapped(array):
    while array is not None and not isinstance(array, np.memmap):
        array = array.base
    return array is not None


def test_the_second_reading_maps_the_copy_instead_of_parsing(path, folder, no_parsing):
    assert_right(read_dataset(path))
    assert [entry.name for entry in folder.iterdir()] == [f"{sha256(TEXT).hexdigest()}-v{cache.FORMAT_VERSION}"]
    no_parsing()
    dataset = read_dataset(path)
    assert_right(dataset)
    for array in dataset.features.sparse.data, dataset.features.sparse.indices, dataset.labels.indices:
        assert is_mapped(array)
        assert not array.flags.writeable
    assert_right(dataset.rows(slice(None)))


def test_a_copy_belongs_to_the_content_of_a_file(path, tmp_path, no_parsing):
    read_dataset(path)
    path.write_bytes(TEXT.replace(b"12.125", b"13.125"))
    assert read_dataset(path).features.sparse[3, 5] == 13.125
    (tmp_path / "other.txt").write_bytes(TEXT)
    (tmp_path / "data.txt.gz").write_bytes(gzip.compress(TEXT))
    assert_right(read_dataset(tmp_path / "data.txt.gz"))
    no_parsing()
    assert_right(read_dataset(tmp_path / "other.txt"))
    assert_right(read_dataset(tmp_path / "data.txt.gz"))


@pytest.mark.parametrize("text", [b"0 5 5\n", b"2 5 5\n\n \n", b"1 5 5\n3\n"])
def test_empty_arrays_are_cached_as_well(path, text, no_parsing):
    path.write_bytes(text)
    first = read_dataset(path)
    no_parsing()
    second = read_dataset(path)
    assert second.features.sparse.shape == first.features.sparse.shape == (first.N, 5 * (first.D > 0))
    assert np.array_equal(second.features.sparse.toarray(), first.features.sparse.toarray())
    assert np.array_equal(second.labels.toarray(), first.labels.toarray())


def replaced(name, content):
    return lambda entry: (entry / name).write_bytes(content)


HARMS = {
    "a copy of another file": lambda entry: replace_by_copy_of_another(entry),
    "an array missing": lambda entry: (entry / "label_indices").unlink(),
    "not an array": replaced("feature_data", b"not an array"),
    "a flipped bit of a value": lambda entry: flip(entry / "feature_data", 3),
    "no digests": lambda entry: (entry / "sha256.json").unlink(),
    "digests that are no JSON": replaced("sha256.json", b"\xff{"),
}


def replace_by_copy_of_another(entry):
    """Put the copy of a data set of the same shape there."""
    path = entry.parent / "another.txt"
    path.write_bytes(TEXT.replace(b"12.125", b"13.125"))
    read_dataset(path)
    path.unlink()
    (other,) = (folder for folder in entry.parent.iterdir() if folder != entry)
    shutil.rmtree(entry)
    other.rename(entry)


def flip(file, place):
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("harm", HARMS)
def test_a_damaged_copy_is_replaced(path, folder, harm, no_parsing):
    read_dataset(path)
    (entry,) = folder.iterdir()
    before = {file.name: file.read_bytes() for file in entry.iterdir()}
    HARMS[harm](entry)
    assert before != {file.name: file.read_bytes() for file in entry.iterdir() if file.is_file()}
    assert_right(read_dataset(path))
    assert before == {file.name: file.read_bytes() for file in entry.iterdir()}
    no_parsing()
    assert_right(read_dataset(path))


def test_data_are_read_without_a_usable_cache_folder(path, monkeypatch, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    for root in tmp_path / "file", tmp_path / "file" / "below", Path("/proc/none"):
        monkeypatch.setenv("XMLGP_CACHE_DIR", str(root))
        assert_right(read_dataset(path))


def test_data_are_read_when_the_disk_is_full(path, folder, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    assert_right(read_dataset(path))
    assert not list(folder.iterdir())


def test_a_malformed_file_leaves_nothing(path, folder):
    path.write_bytes(TEXT[:-3])
    with pytest.raises(XmlgpError):
        read_dataset(path)
    assert not list(folder.iterdir())


def test_two_processes_may_convert_the_same_file(path, folder, monkeypatch):
    store = cache._store

    def overtaken(*arguments):
        monkeypatch.setattr(cache, "_store", store)
        assert_right(read_dataset(path))
        store(*arguments)

    monkeypatch.setattr(cache, "_store", overtaken)
    assert_right(read_dataset(path))
    assert len(list(folder.iterdir())) == 1


def test_a_file_that_changes_while_it_is_read_raises(path, folder, monkeypatch):
    store = cache._store

    def changing(*arguments):
        store(*arguments)
        path.write_bytes(TEXT.replace(b"12.125", b"13.125"))

    monkeypatch.setattr(cache, "_store", changing)
    with pytest.raises(XmlgpError, match="changed while it was being read"):
        read_dataset(path)
    assert not list(folder.iterdir())


def test_copies_unused_for_60_days_are_removed(path, folder):
    read_dataset(path)
    (own,) = folder.iterdir()
    ages = {own.name: 59, "unused": 61}
    for name, days in ages.items():
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "file").write_bytes(b"")
        os.utime(folder / name, (time.time() - days * cache.DAY,) * 2)
    read_dataset(path)
    assert time.time() - own.stat().st_mtime < cache.DAY
    path.write_bytes(TEXT.replace(b"12.125", b"13.125"))
    read_dataset(path)
    assert {entry.name for entry in folder.iterdir()} & set(ages) == {own.name}


def test_the_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XMLGP_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache.cache_root() == tmp_path / "home/.cache/xmlgp"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache.cache_root() == tmp_path / "home/.cache/xmlgp"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.cache_root() == tmp_path / "xdg/xmlgp"
    monkeypatch.setenv("XMLGP_CACHE_DIR", str(tmp_path / "own"))
    assert cache.cache_root() == tmp_path / "own"
