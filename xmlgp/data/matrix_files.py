"""Matrices in .npz and .npy files of strangers."""

from __future__ import annotations

import os
import zipfile
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from xmlgp.data.dataset import array_blocks, stack_rows
from xmlgp.runtime.errors import SettingsError
from xmlgp.runtime.npy import map_array

__all__ = ["listed_entries", "read_matrix"]

#: Bytes that the arrays of a file may have in memory, however small the file is.
FREE_BYTES = 1 << 28

#: Beyond `FREE_BYTES`, the largest ratio of the size of the arrays to that of their compressed file.
MOST_EXPANDED = 100


def read_matrix(path: str) -> sp.csr_array | NDArray[Any]:
    """Return the CSR matrix in an untrusted .npz file of SciPy, or the array in a .npy file, memory-mapped.

    SettingsError is raised if there is none.
    """
    kind = ".npy file" if path.lower().endswith(".npy") else ".npz file of save_npz with a CSR matrix"
    try:
        if kind == ".npy file":
            return map_array(path)
        if os.path.exists(path) and not os.path.isfile(path):
            # Opening a pipe waits for its writer.
            raise ValueError("not a regular file")
        with zipfile.ZipFile(path) as archive:
            expanded = sum(member.file_size for member in archive.infolist())
        if expanded <= max(FREE_BYTES, MOST_EXPANDED * os.path.getsize(path)):
            # It opens no pickles.
            matrix = sp.load_npz(path)
            if matrix.format != "csr":
                raise ValueError("another format")
            matrix.check_format(full_check=True)
            return sp.csr_array(matrix)
    except OSError:
        raise
    except Exception:  # whatever NumPy, SciPy and zipfile raise for damaged files, and memory for what these claim
        raise SettingsError(f"{path}: this is not a complete {kind}") from None
    raise SettingsError(f"{path}: it expands to more than {MOST_EXPANDED} times its size; save it without compression")


def listed_entries(array: NDArray[Any], most: int, with_zeros: bool) -> sp.csr_array:
    """Return the entries of an array of scores, N×K, that are scores, a block of points at a time.

    Those that are lower than the `most` highest of their point are left out, and so is −∞, the logarithm of 0, and 0
    unless `with_zeros`.
    """
    K = array.shape[1]
    place = max(0, K - most)
    parts = [sp.csr_array((0, K), dtype=array.dtype)]
    for rows in array_blocks(array):
        block = array[rows]
        least = np.partition(block, place)[:, place, None]
        # NaN, which is not lower, is for the caller to refuse.
        listed = ~(block < least) & ((block != 0) | with_zeros) & (block != -np.inf)
        parts.append(sp.csr_array((block[listed], np.nonzero(listed)), shape=block.shape))
    return stack_rows(parts)
