"""Arrays of a model folder: files in `arrays/`, each written once under a name of its own and never changed."""

import contextlib
import re
import secrets
from pathlib import Path

import numpy as np

from xmlgp.errors import ModelFolderError
from xmlgp.runtime.atomic_files import TEMPORARY_NAME, create_file

__all__ = ["FOLDER", "is_entry", "make_folders", "read_array", "remove", "remove_other_arrays", "write_arrays"]

FOLDER = "arrays"

#: Arrays of a model are floating point numbers, or integers that say where they belong, of either byte order.
DTYPES = ("<f4", "<f8", ">f4", ">f8", "<i4", "<i8", ">i4", ">i8")

#: Names of array files as they are written here; whatever else lies in the folder is somebody else's.
ARRAY_FILE = re.compile(r"(preprocess|parameters)\.[a-z_.]+\.[0-9a-f]{8}\.npy")


def is_entry(path, entry):
    """Return whether what a file says of an array is what `write_arrays` could have said.

    Parameters
    ----------
    path : Path
        The model folder.
    entry : object
    """
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("file"), str)
        # Only files directly in arrays/: a stranger's folder must not name any other.
        and entry["file"] == f"{FOLDER}/{Path(entry['file']).name}"
        and not (path / entry["file"]).is_symlink()
        and not (path / FOLDER).is_symlink()
        and entry.get("dtype") in DTYPES
        and isinstance(entry.get("shape"), list)
        and all(isinstance(length, int) for length in entry["shape"])
    )


def make_folders(path):
    """Make a model folder, with its folder of arrays; return all folders that were missing, the innermost first.

    Parameters
    ----------
    path : path

    Raises
    ------
    ModelFolderError
        Where arrays are written elsewhere, for the folder is a link: a stranger's could lead anywhere.
    """
    folder = Path(path) / FOLDER
    if folder.is_symlink():
        raise ModelFolderError(f"{folder}: this is a link, and arrays are not written to where it leads")
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        remove([], missing)
        raise
    return missing


def remove(files, folders):
    """Remove files, and those of the folders that are empty then, as far as that can be done.

    What stays is in nobody's way: whoever writes the model next tries again.

    Parameters
    ----------
    files, folders : iterable of Path
    """
    for file in files:
        with contextlib.suppress(OSError):
            file.unlink(missing_ok=True)
    for folder in folders:
        with contextlib.suppress(OSError):  # somebody else's files are in it by now
            folder.rmdir()


def write_arrays(path, arrays, entries):
    """Write arrays, and add to `entries` for each its `file`, `dtype` and `shape`.

    An entry is there before its file is begun, so that whoever fails knows what to remove.

    Parameters
    ----------
    path : Path
        The model folder, with its folder of arrays.
    arrays : mapping of str to ndarray
    entries : dict
    """
    for name, array in arrays.items():
        # A name of its own for every write: files of an earlier model stay as they are.
        file = f"{FOLDER}/{name}.{secrets.token_hex(4)}.npy"
        entries[name] = {"file": file, "dtype": array.dtype.str, "shape": list(array.shape)}
        _write(path / file, array, path)


def _write(file, array, known):
    # A copy only where there has to be one: a basis in Fortran's order can be a tenth of the memory that there is.
    array = np.asarray(array, order="A")
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        array = np.ascontiguousarray(array)
    with create_file(file, known) as stream:
        np.lib.format.write_array_header_1_0(stream, np.lib.format.header_data_from_array_1_0(array))
        # Not by NumPy, which does not tell why it could not write all.
        stream.write((array if array.flags.c_contiguous else array.T).data)


def read_array(path, name, entry, described_by):
    """Return an array, memory-mapped and read-only.

    Of numbers that are not in this machine's byte order it is a copy that is.

    Parameters
    ----------
    path : Path
        The model folder.
    name : str
    entry : dict
        See `write_arrays`.
    described_by : str
        The file that the entry is from, for messages.

    Raises
    ------
    ModelFolderError
        Where its file is missing, damaged or not as described.
    """
    file = path / entry["file"]
    if not file.is_file():
        raise ModelFolderError(f"{file}: the array {name} is missing")
    try:
        # Never a pickle or an archive, and nothing that a header claims is allocated.
        array = np.lib.format.open_memmap(file, mode="r")
    except OSError as error:
        raise ModelFolderError(f"{file}: the array {name} cannot be read: {error.strerror}") from error
    except Exception as error:  # NumPy lets through whatever evaluating a damaged header raises
        raise ModelFolderError(f"{file}: the array {name} is damaged") from error
    if list(array.shape) != entry["shape"] or array.dtype.str != entry["dtype"]:
        raise ModelFolderError(f"{file}: the array {name} is not the one that {described_by} describes")
    if not array.dtype.isnative:
        array = np.asarray(array).astype(array.dtype.newbyteorder("="))
        array.flags.writeable = False
    return array


def remove_other_arrays(path, entries):
    """Remove the files of arrays that no entry names: of an earlier model, or of a process that was killed.

    A reader that still maps one keeps its own hold.

    Parameters
    ----------
    path : Path
        The model folder.
    entries : iterable of dict
    """
    used = {entry["file"] for entry in entries}
    # The model is written: what cannot be listed or removed now stays until the next one is.
    with contextlib.suppress(OSError):
        left = [file for file in (path / FOLDER).iterdir() if f"{FOLDER}/{file.name}" not in used]
        mine = [file for file in left if ARRAY_FILE.fullmatch(file.name)]
        mine += [file for file in (*left, *path.iterdir()) if TEMPORARY_NAME.fullmatch(file.name)]
        remove(mine, ())
