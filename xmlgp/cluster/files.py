"""Arguments and results of blocks, whose large arrays are in files that all machines see.

Workers map the files into memory: they read what they use, those of one machine share it, and it can be dropped at any
time. Nothing large passes through the scheduler.
"""

from __future__ import annotations

import dataclasses
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_array

from xmlgp.cluster.cache_folder import cache_root
from xmlgp.data.dataset import as_csr
from xmlgp.runtime.atomic_files import report_errors_as
from xmlgp.runtime.npy import write_array

__all__ = ["StoredMatrices", "array_in_file", "pack", "unpack"]

#: Bytes of an array that goes to a file; smaller ones travel with the message.
LEAST = 1 << 14


class _File(NamedTuple):
    """An array in a file, which is removed when it has been read if it is `passing`."""

    path: str
    dtype: np.dtype[Any]
    offset: int
    shape: tuple[int, ...]
    order: Literal["C", "F"]
    passing: bool = False


class _Sparse(NamedTuple):
    """The packed arrays of a csr_array: data (None if all stored elements are True), indices, indptr."""

    arrays: object
    columns: int


class StoredMatrices:
    """The csr_arrays that `pack` has written to a folder, and does not write again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        #: Each with its matrix, so that no other one gets its identity.
        self.packed: dict[int, tuple[csr_array, _Sparse]] = {}


def pack(value: object, folder: Path, matrices: StoredMatrices | None = None, passing: bool = False) -> object:
    """Return a value whose large arrays, also inside containers and csr_arrays, are in files of a folder.

    Arrays that are `passing` are read once.
    """
    if isinstance(value, np.ndarray):
        return _mapped_file(value) or (_written(value, folder, passing) if value.nbytes >= LEAST else value)
    if isinstance(value, csr_array):
        matrices = matrices or StoredMatrices(folder)
        if id(value) not in matrices.packed:
            arrays = None if value.dtype == bool else value.data, value.indices, value.indptr
            packed = _Sparse(pack(arrays, matrices.folder, None, passing), value.shape[1])
            matrices.packed[id(value)] = value, packed
        return matrices.packed[id(value)][1]
    return _map_elements(lambda element: pack(element, folder, matrices, passing), value)


def unpack(value: object) -> Any:  # noqa: ANN401 -- the type of what was packed
    """Return the value that was packed; its arrays are mapped from their files."""
    if isinstance(value, _File):
        # Compiled loops would be compiled again for read-only arrays. Writes do not reach the file.
        array = np.asarray(np.memmap(value.path, value.dtype, "c", value.offset, value.shape, value.order))
        if value.passing:
            array = np.array(array)
            os.unlink(value.path)
        return array
    if isinstance(value, _Sparse):
        data, indices, indptr = unpack(value.arrays)
        return as_csr(data, indices, indptr, value.columns)
    return _map_elements(unpack, value)


def array_in_file(folder: Path, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Return a new array in a file of a folder, which `pack` does not write again; OSError names a folder that is full.

    Its zeros are written: on a full disk, writing to a map of a sparse file would end the process (SIGBUS).
    """
    file = _written(np.zeros(shape, dtype), folder, passing=False)
    return np.asarray(np.lib.format.open_memmap(file.path, mode="r+"))


def _map_elements(function: Callable[[object], object], value: object) -> object:
    """Return a container with the results of a function for its elements, and any other value as it is."""
    if isinstance(value, dict):
        return {name: function(element) for name, element in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(value, **{name: function(field) for name, field in vars(value).items()})
    if isinstance(value, list | tuple):
        elements = [function(element) for element in value]
        return value._make(elements) if hasattr(value, "_make") else type(value)(elements)
    return value


def _written(array: NDArray[Any], folder: Path, passing: bool) -> _File:
    path = os.fspath(folder / f"{secrets.token_hex(8)}.npy")
    with report_errors_as(folder, path), open(path, "xb") as stream:
        write_array(stream, array)
        return _File(path, array.dtype, stream.tell() - array.nbytes, array.shape, _order(array), passing)


def _mapped_file(array: NDArray[Any]) -> _File | None:
    """Return the file of the cache folder, which is xmlgp's own, that a whole array is mapped from, or None."""
    base: object = array
    while base is not None and not isinstance(base, np.memmap):
        base = getattr(base, "base", None)
    if base is None or (base.shape, base.strides, base.dtype) != (array.shape, array.strides, array.dtype):
        return None
    file = Path(os.path.realpath(base.filename or ""))
    if Path(os.path.realpath(cache_root())) not in file.parents:
        return None
    base.flush()
    return _File(os.fspath(file), base.dtype, base.offset, base.shape, _order(base))


def _order(array: NDArray[Any]) -> Literal["C", "F"]:
    """Return the order in which an array is written: Fortran's only if it is in this order."""
    return "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
