"""Arrays and sparse matrices in files on shared storage, by which machines exchange what is large.

Workers map the files into memory: they read the rows that they use, workers of one machine share them, and the kernel
drops them when it needs space.
"""

import contextlib
import os
import secrets
from pathlib import Path
from typing import NamedTuple

import numpy as np

from xmlgp.data.cache import cache_root
from xmlgp.data.dataset import as_csr
from xmlgp.runtime.npy import write_array, write_header

__all__ = ["StoredMatrix", "concatenate", "mapped_file", "read", "store", "store_arrays", "stored_arrays"]


def store(path, array):
    """Write an array to a file, atomically, because a task may run on two workers.

    Parameters
    ----------
    path : path
    array : ndarray
    """
    with _replacing(path) as stream:
        write_array(stream, array)


@contextlib.contextmanager
def _replacing(path):
    """Write a file that appears under its name when it is complete.

    Unlike `atomic_write` this does not wait for the disk: after a power failure the files of a run are worth nothing.
    """
    temporary = f"{os.fspath(path)}.{secrets.token_hex(8)}"
    try:
        with open(temporary, "wb") as stream:
            yield stream
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def read(path):
    """Return the array in a file, mapped into memory; what is written to the array does not reach the file.

    Parameters
    ----------
    path : path
    """
    # Compiled loops are compiled again for read-only arrays.
    return np.asarray(np.lib.format.open_memmap(path, mode="c"))


def store_arrays(folder, arrays):
    """Write arrays to a new folder, one file each.

    Parameters
    ----------
    folder : Path
    arrays : mapping of str to ndarray
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in arrays.items():
        store(folder / f"{name}.npy", array)


def stored_arrays(folder):
    """Return the arrays in a folder by name.

    Parameters
    ----------
    folder : path
    """
    return {file.stem: read(file) for file in Path(folder).glob("*.npy")}


def mapped_file(array):
    """Return the file on shared storage that a whole array is mapped from; None if there is none.

    A user may have mapped other files, which workers need not see, and changed in memory what was read from them. Those
    in the cache folder are xmlgp's own.

    Parameters
    ----------
    array : ndarray
    """
    base = array
    while base is not None and not isinstance(base, np.memmap):
        base = getattr(base, "base", None)
    if base is None or base.filename is None or (base.size, base.dtype) != (array.size, array.dtype):
        return None
    file = os.path.realpath(base.filename)
    return file if Path(os.path.realpath(cache_root())) in Path(file).parents else None


def concatenate(path, parts):
    """Write the rows of arrays in files to one file, and remove the parts, of which one is in memory at a time.

    Parameters
    ----------
    path : path
    parts : iterable of path
        The files, of arrays of one type that differ in their first dimension only.
    """
    with _replacing(path) as stream:
        rows, found = 0, None
        for part in parts:
            array = read(part)
            if found is None:
                found = array.dtype.str, array.shape[1:]
                write_header(stream, found[0], 0, found[1])
            stream.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
            rows += len(array)
            os.unlink(part)
        stream.seek(0)
        write_header(stream, found[0], rows, found[1])


class StoredMatrix(NamedTuple):
    """A sparse matrix in three files.

    Attributes
    ----------
    data : str or None
        The file of the stored elements; None if all are True.
    indices, indptr : str
    columns : int
    """

    data: str | None
    indices: str
    indptr: str
    columns: int

    @classmethod
    def of(cls, matrix, folder):
        """Return where a matrix is; what is not mapped from a file already is written to one.

        Parameters
        ----------
        matrix : csr_array
            All stored elements of one of type bool are True.
        folder : Path
            For new files.
        """
        paths = {}
        for part in ("data", "indices", "indptr"):
            array = getattr(matrix, part)
            if part == "data" and matrix.dtype == bool:
                paths[part] = None
                continue
            paths[part] = mapped_file(array)
            if paths[part] is None:
                paths[part] = os.fspath(folder / f"{part}.npy")
                store(paths[part], array)
        return cls(**paths, columns=matrix.shape[1])

    def open(self):
        """Return the matrix (csr_array), whose elements are mapped from their files."""
        data = None if self.data is None else read(self.data)
        return as_csr(data, read(self.indices), read(self.indptr), self.columns)

    def rows(self, rows):
        """Return consecutive rows (csr_array), whose elements are mapped from their files.

        Nothing of the size of the whole matrix is allocated, not even where SciPy would convert its indices to 64 bits.

        Parameters
        ----------
        rows : slice
            With `start` and `stop`.
        """
        indptr = read(self.indptr)[rows.start : rows.stop + 1]
        part = slice(int(indptr[0]), int(indptr[-1]))
        data = None if self.data is None else read(self.data)[part]
        return as_csr(data, read(self.indices)[part], indptr - indptr[0], self.columns)
