"""Dense features from files and arrays."""

import os

import numpy as np
import pytest

from tests.problems import small_dataset
from xmlgp.data.dense_files import read_dense
from xmlgp.runtime.errors import SettingsError

E = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("order", "CF")
def test_npy_files_stay_on_disk_in_their_type(dtype, order):
    np.save("e.npy", np.asarray(E.astype(dtype), order=order))
    dense = read_dense("e.npy", "the points").array
    assert isinstance(dense.base, np.memmap)
    assert (dense.dtype, dense.shape) == (dtype, (6, 3))
    assert np.array_equal(dense, E.astype(dtype))


@pytest.mark.parametrize("array", [E, E.astype(">f4"), E.tolist(), np.arange(18).reshape(6, 3)])
def test_arrays_are_of_floating_point_numbers(array):
    dense = read_dense(array, "the points").array
    assert dense.dtype in ("f4", "f8")
    assert np.array_equal(dense, np.asarray(array))


def _changed(value):
    changed = E.astype(np.float64)
    changed[3, 1] = value
    return changed


def _truncated():
    np.save("e.npy", E)
    os.truncate("e.npy", os.path.getsize("e.npy") - 4)


TABLE = r"e.npy: dense features are numbers, an array N×E with a row for each point, not "
NPY = "e.npy: this is not a complete .npy file of numbers"


@pytest.mark.parametrize(
    ("save", "message"),
    [
        (lambda: np.save("e.npy", E[:, 0]), TABLE + r"\(6,\)"),
        (lambda: np.save("e.npy", E[:, :0]), TABLE + r"\(6, 0\)"),
        (lambda: np.save("e.npy", E.astype(complex)), TABLE + r"\(6, 3\) of 'complex128'"),
        (
            lambda: np.save("e.npy", _changed(np.nan)),
            "e.npy: row 3, counted from 0, has a number that single precision has not",
        ),
        (lambda: np.save("e.npy", _changed(1e39)), "e.npy: row 3, counted from 0, has a number"),
        (lambda: np.save("e.npy", np.array([[{}]]), allow_pickle=True), NPY),
        (_truncated, NPY),
    ],
)
def test_other_files_are_refused(save, message):
    save()
    with pytest.raises(SettingsError, match=message):
        read_dense("e.npy", "the points")


def test_nan_is_found_in_every_block_of_rows(monkeypatch):
    monkeypatch.setattr("xmlgp.data.dataset.BLOCK", 6)
    with pytest.raises(SettingsError, match="`dense`: row 3, counted from 0, has a number"):
        read_dense(_changed(np.nan), "the points")


def test_rows_are_those_of_the_points():
    rows = read_dense(E, "data.txt")
    rows.check(6)
    rows.check(4, more=True)
    for count, more, points in (5, False, "5 points"), (7, True, "7 points or more"):
        with pytest.raises(SettingsError, match=f"^`dense` has 6 rows, but data.txt has {points}$"):
            rows.check(count, more)
    points = small_dataset(6)
    beside = rows.beside(points.rows(slice(1, 3)), 1)
    assert np.array_equal(beside.features.dense, E[1:3])
    whole = rows.beside(points)
    assert whole.facts["dense"] == 3
    assert len({points.fingerprint, whole.fingerprint, read_dense(-E, "").beside(points).fingerprint}) == 3
