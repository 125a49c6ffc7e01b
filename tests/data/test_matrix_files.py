"""Sparse matrices in .npz files of strangers."""

import os

import numpy as np
import pytest
import scipy.sparse as sp

from xmlgp.data import matrix_files
from xmlgp.data.dense_files import read_dense
from xmlgp.data.matrix_files import read_matrix
from xmlgp.runtime.errors import SettingsError

X = sp.csr_array(np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32))


def beyond_its_columns(path):
    np.savez(path, format=b"csr", data=X.data, indices=X.indices + 9, indptr=X.indptr, shape=X.shape)


@pytest.mark.parametrize("compressed", [False, True])
def test_a_csr_matrix_is_read(tmp_path, compressed):
    path = str(tmp_path / "x.npz")
    sp.save_npz(path, X, compressed=compressed)
    assert (read_matrix(path) != X).nnz == 0


@pytest.mark.parametrize(
    "save",
    [
        lambda path: np.savez(path, np.array([[{}]])),
        lambda path: sp.save_npz(path, X.tocsc()),
        beyond_its_columns,
        lambda path: open(path, "w").close(),
        os.mkfifo,
    ],
)
def test_other_files_are_refused(tmp_path, save):
    path = str(tmp_path / "x.npz")
    save(path)
    with pytest.raises(SettingsError, match="^.*x.npz: .* not a complete .npz file of save_npz with a CSR matrix$"):
        read_matrix(path)


def test_files_that_expand_too_much_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(matrix_files, "FREE_BYTES", 1000)
    path = str(tmp_path / "x.npz")
    sp.save_npz(path, sp.csr_array(np.ones((500, 1000), np.float32)))
    with pytest.raises(SettingsError, match="it expands to more than 100 times its size"):
        read_matrix(path)


def test_a_pipe_is_not_waited_for(tmp_path):
    path = str(tmp_path / "x.npy")
    os.mkfifo(path)
    with pytest.raises(SettingsError, match="^.*x.npy: this is not a complete .npy file$"):
        read_matrix(path)
    with pytest.raises(SettingsError, match="^.*x.npy: this is not a complete .npy file of numbers$"):
        read_dense(path, "x.txt")
