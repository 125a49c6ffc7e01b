"""Arguments and results of blocks, whose large arrays are in files."""

import errno
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from xmlgp.cluster.files import StoredMatrices, array_in_file, pack, unpack


class Two(NamedTuple):
    left: object
    right: object


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XMLGP_CACHE_DIR", str(tmp_path))
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


def files(folder):
    return sorted(file.name for file in folder.iterdir())


def test_values_come_back_as_they_were(folder):
    large, small = np.arange(9000.0).reshape(90, 100), np.arange(3)
    value = Two({"a": [large, small, "text"]}, (np.asfortranarray(large), None))
    found = unpack(pack(value, folder))
    assert isinstance(found, Two)
    np.testing.assert_array_equal(found.left["a"][0], large)
    np.testing.assert_array_equal(found.right[0], large)
    assert found.right[0].flags.f_contiguous
    assert found.left["a"][1] is small
    assert (found.left["a"][2], found.right[1]) == ("text", None)
    assert len(files(folder)) == 2
    # What is written to an array does not reach its file.
    packed = pack(large, folder)
    unpack(packed)[:] = 1
    np.testing.assert_array_equal(unpack(packed), large)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, bool])
def test_sparse_matrices_come_back_and_those_that_are_shared_are_written_once(folder, dtype):
    matrix, matrices = csr_array(random_array((300, 400), density=0.2, rng=0).astype(dtype)), StoredMatrices(folder)
    packed = pack((matrix, 1), folder, matrices)
    found = unpack(packed)[0]
    assert (found.shape, found.dtype) == (matrix.shape, matrix.dtype)
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(found, name), getattr(matrix, name))
    before = files(folder)
    assert len(before) == (1 if dtype is bool else 2)  # indptr is small
    assert pack((matrix, 2), folder, matrices)[0] == packed[0]
    assert files(folder) == before
    other = matrix * 2
    assert (unpack(pack(other, folder, matrices)) != other).nnz == 0


def test_results_are_read_once_and_their_files_removed(folder):
    packed = pack(np.ones(9000), folder, passing=True)
    assert len(files(folder)) == 1
    found = unpack(packed)
    assert not files(folder)
    assert (type(found), found.sum()) == (np.ndarray, 9000)


def test_arrays_in_files_of_the_cache_are_not_written_again(folder):
    array = array_in_file(folder, (90, 100), np.float32)
    array[:] = 2
    # As the copy of a data file has them.
    (folder / "plain").write_bytes(np.full(9000, 2, np.float32).tobytes())
    plain = np.asarray(np.memmap(folder / "plain", np.float32, "r"))
    before = files(folder)
    assert unpack(pack(array, folder)).sum() == unpack(pack(plain, folder)).sum() == 18000
    assert files(folder) == before
    # A part is another array.
    assert unpack(pack(array[40:], folder)).sum() == 10000
    assert len(files(folder)) == len(before) + 1


@pytest.mark.parametrize("kind", ["changed in memory", "not of NumPy"])
def test_workers_read_what_a_user_sees_of_a_mapped_file(folder, tmp_path_factory, kind):
    file = tmp_path_factory.mktemp("user") / "data.npy"
    if kind == "not of NumPy":
        data = np.memmap(file, np.float32, "w+", shape=9000)
    else:
        np.save(file, np.zeros(9000, np.float32))
        data = np.load(file, mmap_mode="c")
    data[:] = 3
    assert unpack(pack(data, folder)).sum() == 27000
    assert len(files(folder)) == 1


def test_an_array_in_a_file_has_its_space_on_the_disk(folder):
    # Else writing to the map on a full disk would end the process.
    array = array_in_file(folder, (3, 1000, 1000), np.float32)
    assert (array.shape, array.dtype, array.any()) == ((3, 1000, 1000), np.float32, False)
    (file,) = folder.iterdir()
    assert 512 * file.stat().st_blocks >= array.nbytes
    assert array_in_file(folder, (0, 3), np.int64).shape == (0, 3)


@pytest.mark.parametrize("write", [lambda folder: array_in_file(folder, (9000,), float), partial(pack, np.ones(9000))])
def test_errors_name_the_folder_that_is_full(folder, monkeypatch, write):
    def fail(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("xmlgp.cluster.files.write_array", fail)
    with pytest.raises(OSError, match="No space left") as caught:
        write(folder)
    assert caught.value.filename == str(folder)
