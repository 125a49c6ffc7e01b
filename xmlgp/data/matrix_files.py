"""Sparse matrices in .npz files of strangers."""

from __future__ import annotations

import os
import zipfile

import scipy.sparse as sp

from xmlgp.runtime.errors import SettingsError

__all__ = ["read_matrix"]

#: Bytes that the arrays of a file may have in memory, however small the file is.
FREE_BYTES = 1 << 28

#: Beyond `FREE_BYTES`, the largest ratio of the size of the arrays to that of their compressed file.
MOST_EXPANDED = 100


def read_matrix(path: str) -> sp.csr_array:
    """Return the CSR matrix in an untrusted .npz file of SciPy; SettingsError if there is none."""
    try:
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
        raise SettingsError(f"{path}: this is not a complete .npz file with a CSR matrix") from None
    raise SettingsError(f"{path}: it expands to more than {MOST_EXPANDED} times its size; save it without compression")
