"""Dense features from files and arrays, whose rows follow the points of other data."""

from __future__ import annotations

import math
import os
import warnings
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeGuard

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from xmlgp.data.checked_yaml import Optional, read_checked, text
from xmlgp.data.dataset import Dataset
from xmlgp.data.features import Dense
from xmlgp.errors import SettingsError
from xmlgp.runtime.npy import map_array
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.untrusted_text import excerpt

__all__ = ["DATA_FILE", "MOST_EXPANDED", "DenseRows", "as_list", "dense_in_folder", "expands_too_much", "read_dense"]
__all__ += ["read_matrix"]

#: The description of a data folder.
DATA_FILE = "data.yaml"

#: The schema of names of files. Data folders are untrusted, so a name must not lead out of its folder.
NAMES = Optional([text("the name of a .npy or .npz file in this folder", r"[^/\\]+\.np[yz]")], ())

SCHEMA = {"dense": {"train": NAMES, "validation": NAMES, "test": NAMES}}

#: Bytes that the arrays of a file may have in memory, however small the file is.
FREE_BYTES = 1 << 28

#: Beyond `FREE_BYTES`, the largest ratio of the size of the arrays to that of their compressed file.
MOST_EXPANDED = 100

#: Beyond `FREE_BYTES`, the largest ratio of all numbers of a sparse matrix to those that are stored.
MOST_ZEROS = 1000

#: The types of numbers that are kept; others become single precision.
TYPES = [np.dtype(name) for name in ("float16", "float32", "float64")]


@dataclass(frozen=True, eq=False)
class DenseRows:
    """`Dense` features whose rows follow the points of other data. Messages call them `name`, and the data `data`."""

    dense: Dense
    name: str
    data: str

    def check(self, N: int, more: bool = False) -> None:
        """Raise SettingsError unless there are N rows, or at least N if the data may have `more` than N points."""
        rows = self.dense.shape[0]
        if rows < N or not (more or rows == N):
            points = f"{counted(N, 'point')}{' or more' if more else ''}"
            raise SettingsError(f"{self.name} has {counted(rows, 'row')}, but {self.data} has {points}")

    def beside(self, dataset: Dataset, start: int = 0) -> Dataset:
        """Return the points of a `Dataset` with their dense features, the rows from `start` on."""
        return Dataset(dataset.features.beside(self.dense[start : start + dataset.N]), dataset.labels)


def as_list(dense: object) -> list[Any]:
    """Return the blocks of dense features, given as a path, an array N×E, a list of these, or None."""
    if dense is None:
        return []
    return list(dense) if isinstance(dense, list | tuple) else [dense]


def read_dense(blocks: Sequence[Any], data: str) -> DenseRows | None:
    """Return the `DenseRows` of blocks, paths and arrays N×E, or None without any; messages call the other data `data`.

    A .npy file is mapped into memory. SettingsError is raised if a block does not consist of finite numbers in two
    dimensions, or if the blocks have different lengths.
    """
    names = [_name_of(block, number if len(blocks) > 1 else None) for number, block in enumerate(blocks, 1)]
    arrays = [_read_block(block, name) for block, name in zip(blocks, names, strict=True)]
    for array, name in zip(arrays, names, strict=True):
        if len(array) != len(arrays[0]):
            raise SettingsError(f"{name} has {len(array)} rows, but {names[0]} has {len(arrays[0])}")
    return DenseRows(Dense(tuple(arrays)), names[0], data) if arrays else None


def dense_in_folder(folder: str | os.PathLike[str], part: str) -> list[str]:
    """Return the paths of the dense features that `data.yaml` in a folder names for a part of the data, if any."""
    file = os.path.join(folder, DATA_FILE)
    if not os.path.isfile(file):
        return []
    return [os.path.join(folder, name) for name in read_checked(file, SCHEMA)["dense"][part]]


def _is_path(block: object) -> TypeGuard[str | os.PathLike[str]]:
    return isinstance(block, str | os.PathLike)


def _name_of(block: Any, number: int | None) -> str:
    """Return what messages call a block: its path, its column, its number among several, or `dense`."""
    if _is_path(block):
        return os.fspath(block)
    if isinstance(getattr(block, "name", None), str):  # of a column of a DataFrame
        return f"the column {excerpt(block.name)}"
    return f"block {number} of `dense`" if number else "`dense`"


def _array_of(block: Any) -> NDArray[Any]:
    """Return the array of a block: a path, a sparse matrix, or what NumPy makes an array of."""
    name = os.fspath(block) if _is_path(block) else None
    matrix: Any = block if name is None else read_matrix(name)
    if not sp.issparse(matrix):
        return np.asarray(matrix)
    dense_size = math.prod(matrix.shape) * matrix.dtype.itemsize
    if name is not None and dense_size > max(FREE_BYTES, MOST_ZEROS * matrix.data.nbytes):
        rows, columns = matrix.shape
        raise SettingsError(
            f"{name}: of {rows}×{columns} numbers only {matrix.nnz} are stored; features with so many zeros belong in "
            "the data file"
        )
    array: NDArray[Any] = matrix.toarray()
    return array


def _read_block(block: Any, name: str) -> NDArray[Any]:
    """Return the array of a block, N×E, of floating-point numbers that are finite in single precision."""
    try:
        array = _array_of(block)
        if array.dtype == object:  # a column of arrays, or columns of several types
            array = np.array(array.tolist())
    except SettingsError:
        raise
    except ValueError:
        raise SettingsError(f"{name}: each row must have an array with as many numbers as the others") from None
    if array.ndim != 2 or not array.shape[1]:
        raise SettingsError(f"{name}: dense features are an array N×E, with a row for each point, not {array.shape}")
    if array.dtype.kind not in "biuf":
        raise SettingsError(f"{name}: dense features must be numbers, not {excerpt(str(array.dtype))}")
    with np.errstate(over="ignore"):
        if array.dtype not in TYPES:
            array = array.astype(np.float32)
        _check_finite(array, name)
    return array


def _check_finite(array: NDArray[Any], name: str) -> None:
    """Raise SettingsError for a number that is not finite in single precision."""
    dense = Dense((array,))
    for rows in dense.chunks():
        finite = np.isfinite(dense[rows].values())
        if not finite.all():
            row, column = np.argwhere(~finite)[0].tolist()
            row += rows.start
            value = array[row, column]
            reason = "too large for single precision" if np.isfinite(value) else "not a finite number"
            raise SettingsError(f"{name}: row {row}, column {column}, counted from 0, is {value:g}, {reason}")


def read_matrix(path: str) -> NDArray[Any] | sp.csr_array:
    """Return the array in an untrusted .npy or .npz file, or the CSR matrix in a .npz file; SettingsError if none."""
    # Opening a named pipe would wait for a writer.
    if os.path.exists(path) and not os.path.isfile(path):
        raise SettingsError(f"{path}: this is not a regular file")
    if not path.lower().endswith(".npz"):
        try:
            return np.asarray(map_array(path))
        except ValueError:
            raise SettingsError(f"{path}: this is not a complete .npy file of numbers") from None
    with open(path, "rb") as stream:
        try:
            return _matrix_in_archive(stream, path)
        except (MemoryError, SettingsError):
            raise
        except Exception:  # whatever NumPy, SciPy and zipfile raise for damaged files
            content = "one array of numbers or a CSR matrix"
            raise SettingsError(f"{path}: this is not a complete .npz file with {content}") from None


def _matrix_in_archive(stream: BinaryIO, path: str) -> NDArray[Any] | sp.csr_array:
    """Return the array in an untrusted .npz file, or its CSR matrix; neither reader opens pickles."""
    with warnings.catch_warnings():
        # NumPy warns of headers that Python 2 wrote.
        warnings.simplefilter("error")
        with zipfile.ZipFile(stream) as archive:
            if expands_too_much(archive, os.fstat(stream.fileno()).st_size):
                raise SettingsError(
                    f"{path}: it expands to more than {MOST_EXPANDED} times its size; save it without compression"
                )
            if len(archive.namelist()) == 1:
                with archive.open(archive.namelist()[0]) as member:
                    return np.lib.format.read_array(member)
        stream.seek(0)
        matrix = sp.load_npz(stream)
    if matrix.format != "csr":
        raise ValueError("another format")
    matrix.check_format(full_check=True)
    return sp.csr_array(matrix)


def expands_too_much(archive: zipfile.ZipFile, size: int) -> bool:
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
