"""Arrays in files that workers map."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from xmlgp.cluster.files import StoredMatrix


@pytest.fixture(params=["changed in memory", "not of NumPy"])
def matrix(request, tmp_path):
    if request.param == "not of NumPy":
        data = np.memmap(tmp_path / "data.bin", np.float32, "w+", shape=3)
    else:
        np.save(tmp_path / "data.npy", np.zeros(3, np.float32))
        data = np.load(tmp_path / "data.npy", mmap_mode="c")
    data[:] = 1, 2, 3
    return csr_array((data, np.array([0, 1, 0]), np.array([0, 2, 3])), shape=(2, 2))


def test_workers_read_what_a_user_sees(matrix, tmp_path):
    folder = tmp_path / "stored"
    folder.mkdir()
    stored = StoredMatrix.of(matrix, folder)
    assert stored.open().data.tolist() == [1, 2, 3]
