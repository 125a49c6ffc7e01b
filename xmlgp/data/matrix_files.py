"""Sparse matrices in .npz files of strangers."""

from __future__ import annotations

import math
import os
import zipfile

import numpy as np
import scipy.sparse as sp

from xmlgp.runtime.errors import SettingsError

__all__ = ["read_matrix"]

#: Bytes that the arrays of a file may have in memory, however small the file is.
FREE_BYTES = 1 << 28

#: Beyond `FREE_BYTES`, the largest ratio of the size of the arrays to that of their compressed file.
MOST_EXPANDED = 100


def read_matrix(path: str) -> sp.csr_array:
    """Return the CSR matrix in an untrusted .npz file of SciPy; SettingsError if there is none."""
    # Opening a named pipe would wait for a writer.
    if os.path.exists(path) and not os.path.isfile(path):
        raise SettingsError(f"{path}: this is not a regular file")
    with open(path, "rb") as stream:
        try:
            with zipfile.ZipFile(stream) as archive:
                if _expands_too_much(archive, os.fstat(stream.fileno()).st_size):
                    raise SettingsError(
                        f"{path}: it expands to more than {MOST_EXPANDED} times its size; save it without compression"
                    )
            stream.seek(0)
            # It opens no pickles.
            matrix = sp.load_npz(stream)
            if matrix.format != "csr":
                raise ValueError("another format")
            matrix.check_format(full_check=True)
            return sp.csr_array(matrix)
        except (MemoryError, SettingsError):
            raise
        except Exception:  # whatever NumPy, SciPy and zipfile raise for damaged files
            raise SettingsError(f"{path}: this is not a complete .npz file with a CSR matrix") from None


def _expands_too_much(archive: zipfile.ZipFile, size: int) -> bool:
    """Return whether the arrays of a .npz file of `size` bytes are too large; ValueError if it has other members."""
    expanded = sum(_member_size(archive, member) for member in archive.infolist())
    return expanded > max(FREE_BYTES, MOST_EXPANDED * size)


def _member_size(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> int:
    """Return the decompressed size of an array; ValueError if its shape and type need another."""
    with archive.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        if version == (1, 0):
            shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
        else:
            shape, _, dtype = np.lib.format.read_array_header_2_0(stream)
        if stream.tell() + math.prod(shape) * dtype.itemsize != member.file_size:
            raise ValueError("another size")
    return member.file_size
