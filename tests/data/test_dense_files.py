"""Dense features from files and arrays."""

import os

import numpy as np
import pytest
import scipy.sparse as sp

from tests.problems import small_dataset
from xmlgp.data.dataset import Dataset, no_points, stack
from xmlgp.data.dense_files import dense_in_folder, read_dense
from xmlgp.errors import CatalogueError, SettingsError

E = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def read(*blocks):
    return read_dense(list(blocks), "the points").dense


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("order", "CF")
def test_npy_files_stay_on_disk_in_their_type(dtype, order):
    np.save("e.npy", np.asarray(E.astype(dtype), order=order))
    dense = read("e.npy")
    assert isinstance(dense.arrays[0].base, np.memmap)
    assert (dense.dtype, dense.shape) == (dtype, (6, 3))
    assert np.array_equal(dense[2:5].values(), E.astype(dtype)[2:5].astype(np.float32))


@pytest.mark.parametrize(
    "save",
    [
        lambda: np.savez("e.npz", E),
        lambda: np.savez_compressed("e.npz", any_name=E),
        lambda: sp.save_npz("e.npz", sp.csr_array(E)),
        lambda: sp.save_npz("e.npz", sp.csr_matrix(E), compressed=False),
    ],
)
def test_npz_files_have_one_array_or_a_csr_matrix(save):
    save()
    assert np.array_equal(read("e.npz").values(), E)


@pytest.mark.parametrize("block", [E, E.astype(">f4"), sp.csr_array(E), E.astype(np.float64)])
def test_arrays_are_blocks_side_by_side(block):
    np.save("e.npy", np.arange(12).reshape(6, 2))
    dense = read(block, "e.npy")
    assert dense.widths == [3, 2]
    assert np.array_equal(dense.values(), np.hstack([E, np.arange(12).reshape(6, 2)]))


def _changed(value):
    changed = E.astype(np.float64)
    changed[3, 1] = value
    return changed


def _truncated():
    np.save("e.npy", E)
    os.truncate("e.npy", os.path.getsize("e.npy") - 4)


def _csr_beyond_its_columns():
    matrix = sp.csr_array(E)
    parts = {"data": matrix.data, "indices": matrix.indices + 9, "indptr": matrix.indptr, "shape": E.shape}
    np.savez("e.npz", format=b"csr", **parts)


TABLE = r"e.np[yz]: dense features are an array N×E, with a row for each point, not "
NPY = "e.npy: this is not a complete .npy file of numbers"
NPZ = "e.npz: this is not a complete .npz file with one array of numbers or a CSR matrix"


@pytest.mark.parametrize(
    ("save", "message"),
    [
        (lambda: np.save("e.npy", E[:, 0]), TABLE + r"\(6,\)"),
        (lambda: np.save("e.npy", E[None]), TABLE + r"\(1, 6, 3\)"),
        (lambda: np.savez("e.npz", E[:, :0]), TABLE + r"\(6, 0\)"),
        (lambda: np.save("e.npy", E.astype(complex)), "e.npy: dense features must be numbers, not 'complex128'"),
        (lambda: np.save("e.npy", np.array([["a"]])), "e.npy: dense features must be numbers, not '<U1'"),
        (lambda: np.save("e.npy", _changed(np.nan)), "e.npy: row 3, column 1, counted from 0, is nan, not a finite"),
        (lambda: np.save("e.npy", _changed(-np.inf)), "row 3, column 1, counted from 0, is -inf, not a finite number"),
        (lambda: np.save("e.npy", _changed(1e39)), r"row 3, column 1, .* is 1e\+39, too large for single precision"),
        (lambda: np.save("e.npy", np.array([[{}]]), allow_pickle=True), NPY),
        (lambda: np.savez("e.npz", np.array([[{}]])), NPZ),
        (_truncated, NPY),
        (lambda: np.savez("e.npz", a=E, b=E), NPZ),
        (lambda: sp.save_npz("e.npz", sp.csc_array(E)), NPZ),
        (_csr_beyond_its_columns, NPZ),
        (lambda: open("e.npz", "w").close(), NPZ),
        (lambda: os.mkfifo("e.npy"), "e.npy: this is not a regular file"),
    ],
)
def test_other_files_are_refused(save, message):
    save()
    with pytest.raises(SettingsError, match=message):
        read(next(name for name in ("e.npy", "e.npz") if os.path.lexists(name)))


def test_rows_of_different_lengths_are_refused():
    with pytest.raises(SettingsError, match="^block 1 of `dense`: each row must have an array with as many numbers"):
        read_dense([[[1.0, 2.0], [3.0]], E], "`data`")


def test_nan_is_found_in_every_chunk(monkeypatch):
    monkeypatch.setattr("xmlgp.data.features.CHUNK", 6)
    with pytest.raises(SettingsError, match="`dense`: row 3, column 1, counted from 0, is nan"):
        read(_changed(np.nan))


def test_blocks_have_the_same_number_of_rows():
    np.save("e.npy", E)
    with pytest.raises(SettingsError, match=r"block 2 of `dense` has 4 rows, but e\.npy has 6"):
        read("e.npy", E[:4])


def test_a_folder_names_its_files():
    os.mkdir("d")
    assert dense_in_folder("d", "train") == []
    with open("d/data.yaml", "w") as stream:
        stream.write("dense:\n  train: [a.npy, b.npz]\n  test: [c.npy]\n")
    assert dense_in_folder("d", "train") == ["d/a.npy", "d/b.npz"]
    assert dense_in_folder("d", "test") == ["d/c.npy"]
    assert dense_in_folder("d", "validation") == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("dense: {trian: [a.npy]}", r"d/data\.yaml: dense: unknown key 'trian'"),
        ("sparse: {}", r"d/data\.yaml: unknown key 'sparse'"),
        ("dense: {train: a.npy}", r"d/data\.yaml: dense: train must be a list, not 'a\.npy'"),
        (
            "dense: {train: [../a.npy]}",
            r"train 1 must be the name of a \.npy or \.npz file in this folder, not '\.\./a",
        ),
        ("dense: {train: [a.txt]}", r"train 1 must be the name of a \.npy or \.npz file in this folder, not 'a\.txt'"),
        ("dense: [", r"d/data\.yaml: invalid YAML"),
    ],
)
def test_the_description_of_a_folder_is_checked(content, message):
    os.mkdir("d")
    with open("d/data.yaml", "w") as stream:
        stream.write(content)
    with pytest.raises(CatalogueError, match=message):
        dense_in_folder("d", "train")


def _beside(array, N=40):
    return read_dense([array], "the points").beside(small_dataset(N))


def test_facts_cover_dense_features():
    array = np.random.default_rng(1).normal(size=(40, 3)).astype(np.float16)
    plain, dataset = small_dataset(40), _beside(array)
    assert "dense" not in plain.facts
    assert dataset.facts["dense"] == [3]
    # The same numbers in another type are the same data.
    assert dataset.fingerprint == _beside(array.astype(np.float32)).fingerprint != plain.fingerprint
    array = array.copy()
    array[39, 2] += 1
    assert dataset.fingerprint != _beside(array).fingerprint
    two = read_dense([array[:, :1], array[:, 1:]], "the points").beside(plain)
    assert two.fingerprint != _beside(array).fingerprint


def test_points_keep_their_dense_features_when_they_are_selected_and_stacked():
    array = np.random.default_rng(1).normal(size=(40, 3)).astype(np.float16)
    dataset = _beside(array)
    parts = [no_points(dataset.D, dataset.K, [3]), dataset.rows(slice(0, 7)), dataset.rows(np.arange(7, 40))]
    whole = stack(parts)
    assert whole.fingerprint == dataset.fingerprint
    assert whole.features.dense.dtype == np.float16
    assert stack([small_dataset(3), small_dataset(4)]).features.dense is None


def test_empty_rows_have_the_blocks_of_others():
    dataset = _beside(np.ones((40, 3), np.float16))
    empty = dataset.features.empty_rows(2)
    assert (empty.N, empty.D) == (2, dataset.D)
    assert (empty.dense.shape, empty.dense.dtype) == ((2, 3), np.float16)
    assert Dataset(empty, dataset.labels[:2]).facts["dense"] == [3]
