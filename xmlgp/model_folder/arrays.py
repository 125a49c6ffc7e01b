"""Arrays of a model folder: files in `arrays/`, each written once under a unique name and never changed."""

import contextlib
import re
import secrets
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypedDict, TypeGuard

import numpy as np
from numpy.typing import NDArray

from xmlgp.runtime.atomic_files import create_file, make_folders, remove_empty
from xmlgp.runtime.errors import ModelFolderError
from xmlgp.runtime.interrupts import uninterruptible
from xmlgp.runtime.npy import map_array, write_array

__all__ = [
    "FOLDER",
    "Entry",
    "is_array_file",
    "is_entry",
    "make_model_folder",
    "read_array",
    "remove",
    "remove_unused_arrays",
    "write_arrays",
]

FOLDER = "arrays"

#: Files that are written at a time.
WRITERS = 8

#: Arrays of a model hold floating point numbers, or integer indices, in either byte order, or text.
DTYPES = ("|u1", "<f2", ">f2", "<f4", "<f8", ">f4", ">f8", "|i1", "<i2", ">i2", "<i4", "<i8", ">i4", ">i8")

#: Names of the array files that xmlgp writes; all other files belong to the user.
ARRAY_FILE = re.compile(r"(preprocess|parameters|points|names)\.[a-z_.]+\.[0-9a-f]{8}\.npy")


class Entry(TypedDict):
    """What the description of a model says of an array."""

    file: str
    dtype: str
    shape: list[int]


def is_array_file(file: str) -> bool:
    """Return whether xmlgp writes array files of this name; others are not removed."""
    return ARRAY_FILE.fullmatch(Path(file).name) is not None


def is_entry(path: Path, entry: object) -> TypeGuard[Entry]:
    """Return whether an untrusted entry describes an array in the folder as `write_arrays` does."""
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("file"), str)
        # Untrusted folders must not name files outside.
        and entry["file"] == f"{FOLDER}/{Path(entry['file']).name}"
        and not (path / entry["file"]).is_symlink()
        and not (path / FOLDER).is_symlink()
        and entry.get("dtype") in DTYPES
        and isinstance(entry.get("shape"), list)
        and all(type(length) is int and length >= 0 for length in entry["shape"])
    )


def make_model_folder(path: Path) -> list[Path]:
    """Make a model folder and its folder of arrays; return the folders that were missing, the innermost first.

    ModelFolderError is raised if the folder of arrays is a symbolic link, through which an untrusted folder could have
    files written elsewhere.
    """
    folder = path / FOLDER
    if folder.is_symlink():
        raise ModelFolderError(f"{folder}: this is a symbolic link, which is not followed; remove it")
    return make_folders(folder)


def remove(files: Iterable[Path], folders: Iterable[Path]) -> None:
    """Remove files, and then the folders that are empty; ignore errors.

    A file that cannot be removed does no harm: the next write of the model tries again.
    """
    for file in files:
        with contextlib.suppress(OSError):
            file.unlink(missing_ok=True)
    remove_empty(folders)


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], entries: dict[str, Entry]) -> None:
    """Write arrays by name into a model folder, and add the entry of each to `entries`; equal arrays share a file.

    An entry is added before its file is created, so that after a failure the caller knows what to remove.
    """
    files: dict[str, NDArray[Any]] = {}
    for name, array in arrays.items():
        # The pattern of training points, for example, is that of their index.
        same = (other for other in entries if other in arrays and _are_same(arrays[other], array))
        if other := next(same, None):
            entries[name] = entries[other]
            continue
        # A unique name, so that the files of an earlier model remain as they are.
        file = f"{FOLDER}/{name}.{secrets.token_hex(4)}.npy"
        entries[name] = {"file": file, "dtype": array.dtype.str, "shape": list(array.shape)}
        files[file] = array

    def write(file: str) -> None:
        with create_file(path / file, path) as stream:
            write_array(stream, files[file])

    # Several files are flushed to disk in the time of one. `with` waits if a signal comes before `uninterruptible`.
    with ThreadPoolExecutor(WRITERS) as pool:
        try:
            list(pool.map(write, files))
        finally:
            # The caller of a function that fails removes the files.
            with uninterruptible:
                pool.shutdown(cancel_futures=True)


def _are_same(one: NDArray[Any], other: NDArray[Any]) -> bool:
    return one.dtype == other.dtype and np.array_equal(one, other)


def read_array(path: Path, name: str, entry: Entry) -> NDArray[Any]:
    """Return an array, memory-mapped and read-only; a copy if it is not in the byte order of this machine.

    ModelFolderError is raised if the array is missing, damaged, or not what the entry, one of `write_arrays`, says.
    """
    file = path / entry["file"]
    if not file.is_file():
        raise ModelFolderError(f"{file}: the array {name} is missing")
    try:
        array = map_array(file)
    except OSError as error:
        raise ModelFolderError(f"{file}: the array {name} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ModelFolderError(f"{file}: the array {name} is damaged") from error
    if list(array.shape) != entry["shape"] or array.dtype.str != entry["dtype"]:
        raise ModelFolderError(f"{file}: the array {name} is not the one that is described")
    if not array.dtype.isnative:
        array = np.asarray(array).astype(array.dtype.newbyteorder("="))
        array.flags.writeable = False
    return array


def remove_unused_arrays(path: Path, entries: Iterable[Entry]) -> None:
    """Remove array files that no entry names, of an earlier model or of a killed process.

    A reader that still maps one keeps its content.
    """
    used = {entry["file"] for entry in entries}
    # The model is written already, so an error here must not fail the write.
    with contextlib.suppress(OSError):
        unused = [file for file in (path / FOLDER).iterdir() if f"{FOLDER}/{file.name}" not in used]
        remove([file for file in unused if is_array_file(file.name)], ())
