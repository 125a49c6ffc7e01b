"""The model folder: `model.json` and memory-mappable arrays, the one format of all subcommands.

`model.json` describes the model and names the file of each array; it is replaced as the last act of every
write, so a reader sees the earlier model or the new one, never a mixture. Array files are never changed once
written. The format is described for other readers in docs/model-folder.md.
"""

import contextlib
import hashlib
import json
import re
import secrets
from pathlib import Path

import numpy as np

from xmlgp import __version__
from xmlgp.durable import created, replacing
from xmlgp.errors import ModelFolderError, SettingsError
from xmlgp.models.plain import is_plain
from xmlgp.settings import Settings

__all__ = ["FORMAT_VERSION", "STAGES", "ModelFolder", "fingerprint"]

#: Raised when an older xmlgp could not read what is written.
FORMAT_VERSION = 3

#: Settings that models of earlier formats were made with, though they do not say so.
UNSAID = {3: {}}
UNSAID[2] = {"label_weights": False, "regression_points": 0, "validation": 0}
UNSAID[1] = UNSAID[2] | {"start": "random", "sampling": "uniform"}

#: How far a model has come, in order.
STAGES = ("preprocessed", "trained")

DESCRIPTION = "model.json"

#: Largest description that is read: real ones have some kilobytes.
DESCRIPTION_LIMIT = 64 << 20

#: Arrays of a model are floating point numbers, or integers that say where they belong, of either byte order.
DTYPES = ("<f4", "<f8", ">f4", ">f8", "<i4", "<i8", ">i4", ">i8")

#: Names of array files as they are written here; whatever else lies in the folder is somebody else's.
ARRAY_FILE = re.compile(r"(preprocess|parameters)\.[a-z_.]+\.[0-9a-f]{8}\.npy")


def fingerprint(dataset):
    """Return the SHA-256 of a data set's content, whatever file it came from.

    Parameters
    ----------
    dataset : Dataset
    """
    digest = hashlib.sha256(repr((dataset.N, dataset.D, dataset.K)).encode())
    for matrix in (dataset.features, dataset.labels):
        for array, dtype in ((matrix.indptr, "<i8"), (matrix.indices, "<i4")):
            digest.update(np.ascontiguousarray(array, dtype).data)
    digest.update(np.ascontiguousarray(dataset.features.data, "<f4").data)
    return digest.hexdigest()


class ModelFolder:
    """A model on disk.

    Attributes
    ----------
    path : Path
    description : dict
        The content of model.json.
    settings : Settings
    stage : str
        One of `STAGES`.

    Raises
    ------
    ModelFolderError
        On opening a folder that holds no model, a damaged one, or one of a later format.
    """

    def __init__(self, path):
        self.path = Path(path)
        self.description = _read_description(self.path)
        self.stage = self.description["stage"]
        try:
            self.settings = Settings.from_mapping(self.description["settings"], self.path / DESCRIPTION)
        except SettingsError as error:
            raise ModelFolderError(str(error)) from None

    @staticmethod
    def exists(path):
        """Say whether the folder holds a model of any version, whole or damaged."""
        return (Path(path) / DESCRIPTION).exists()

    def array(self, name):
        """Return an array, memory-mapped and read-only, or None where the model has none of that name.

        Of numbers that are not in this machine's byte order it is a copy that is.

        Raises
        ------
        ModelFolderError
            Where its file is missing, damaged or not as described.
        """
        entry = self.description["arrays"].get(name)
        if entry is None:
            return None
        file = self.path / entry["file"]
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
            raise ModelFolderError(f"{file}: the array {name} is not the one that {DESCRIPTION} describes")
        if not array.dtype.isnative:
            array = np.asarray(array).astype(array.dtype.newbyteorder("="))
            array.flags.writeable = False
        return array

    def arrays(self, prefix):
        """Return all arrays whose names start with a prefix, as a mapping without it."""
        return {name.removeprefix(prefix): self.array(name) for name in self.entries(prefix)}

    def entries(self, prefix):
        """Return the description's entries of all arrays whose names start with a prefix."""
        return {name: entry for name, entry in self.description["arrays"].items() if name.startswith(prefix)}

    @staticmethod
    def check_writable(path):
        """Raise OSError where a model could not be written: before the work that it is to hold, not after."""
        folder = Path(path) / "arrays"
        made = _make(folder)
        probe = folder / f".{secrets.token_hex(4)}"
        try:
            with created(probe):
                pass
        finally:
            _unmake([probe], made)

    @classmethod
    def write(cls, path, *, settings, stage, data, arrays, keep=(), **facts):
        """Write a model and return it opened.

        Parameters
        ----------
        path : path
            Folder; made where missing. An earlier model in it is replaced.
        settings : Settings
        stage : str
            One of `STAGES`.
        data : mapping
            Facts of the training data: N, D, K, fingerprint.
        arrays : mapping of str to ndarray
        keep : mapping
            Entries of arrays that the folder already holds and that stay beside the new ones (`entries`).
        **facts
            Further entries of the description, such as the training history.
        """
        path = Path(path)
        folder = path / "arrays"
        made = _make(folder)
        entries = dict(keep)
        written = []
        try:
            for name, array in arrays.items():
                # A name of its own for every write: files of an earlier model stay as they are.
                file = folder / f"{name}.{secrets.token_hex(4)}.npy"
                written.append(file)
                _write_array(file, array)
                entry = {"file": f"arrays/{file.name}", "dtype": array.dtype.str, "shape": list(array.shape)}
                entries[name] = entry
            description = {
                "format": "xmlgp model folder",
                "format_version": FORMAT_VERSION,
                "written_by": f"xmlgp {__version__}",
                "model": "mlgpf",
                "stage": stage,
                "data": dict(data),
                "settings": {spec: getattr(settings, spec) for spec in settings.__dataclass_fields__},
                **facts,
                "arrays": entries,
            }
            with replacing(path / DESCRIPTION) as stream:
                stream.write(json.dumps(description, indent=1, ensure_ascii=False).encode() + b"\n")
        except BaseException:
            _unmake(written, made)
            raise
        used = {entry["file"] for entry in entries.values()}
        for file in folder.iterdir():
            # What the earlier model alone needed; a reader that still maps it keeps its own hold.
            if ARRAY_FILE.fullmatch(file.name) and f"arrays/{file.name}" not in used:
                file.unlink(missing_ok=True)
        return cls(path)


def _read_description(path):
    file = path / DESCRIPTION
    try:
        with open(file, "rb") as stream:
            content = stream.read(DESCRIPTION_LIMIT + 1)
        description = json.loads(content) if len(content) <= DESCRIPTION_LIMIT else None
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        raise ModelFolderError(f"{path}: there is no model here (no {DESCRIPTION})") from None
    except (ValueError, RecursionError):
        description = None
    if not isinstance(description, dict) or description.get("format") != "xmlgp model folder":
        raise ModelFolderError(f"{file}: this is not the description of an xmlgp model")
    version = description.get("format_version")
    if not isinstance(version, int) or version not in UNSAID:
        raise ModelFolderError(
            f"{file}: written in format {version} by {description.get('written_by')}; "
            f"this is xmlgp {__version__}, which reads formats {min(UNSAID)} to {FORMAT_VERSION}"
        )
    _check_description(file, description)
    description["settings"] = UNSAID[version] | description["settings"]
    return description


def _check_description(file, description):
    def is_entry(entry):
        return (
            isinstance(entry, dict)
            and isinstance(entry.get("file"), str)
            # Only files directly in arrays/: a stranger's folder must not name any other.
            and entry["file"] == f"arrays/{Path(entry['file']).name}"
            and not (file.parent / entry["file"]).is_symlink()
            and entry.get("dtype") in DTYPES
            and isinstance(entry.get("shape"), list)
            and all(isinstance(length, int) for length in entry["shape"])
        )

    def is_epoch(entry):
        return isinstance(entry, dict) and all(
            isinstance(entry.get(key), int | float) for key in ("epoch", "bound", "seconds")
        )

    data, arrays, history = (description.get(key) for key in ("data", "arrays", "history"))
    whole = (
        is_plain(description)
        and description.get("model") == "mlgpf"
        and isinstance(description.get("written_by"), str)
        and description.get("stage") in STAGES
        and isinstance(description.get("settings"), dict)
        and isinstance(data, dict)
        and all(isinstance(data.get(name), int) for name in "NDK")
        and isinstance(data.get("fingerprint"), str)
        and isinstance(arrays, dict)
        and all(map(is_entry, arrays.values()))
        and (isinstance(history, list) and bool(history) if description["stage"] == "trained" else history is None)
        and all(map(is_epoch, history or []))
    )
    if not whole:
        raise ModelFolderError(f"{file}: the description of the model is damaged")


def _make(folder):
    """Make a folder and return all that were missing, the innermost first."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return missing


def _unmake(files, folders):
    for file in files:
        file.unlink(missing_ok=True)
    for folder in folders:
        with contextlib.suppress(OSError):  # somebody else's files are in it by now
            folder.rmdir()


def _write_array(file, array):
    # A copy only where there has to be one: a basis in Fortran's order can be a tenth of the memory that there is.
    array = np.asarray(array, order="A")
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        array = np.ascontiguousarray(array)
    with created(file) as stream:
        np.lib.format.write_array_header_1_0(stream, np.lib.format.header_data_from_array_1_0(array))
        # Not by NumPy, which does not tell why it could not write all.
        stream.write((array if array.flags.c_contiguous else array.T).data)
