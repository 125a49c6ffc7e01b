"""The model folder: `model.json` and memory-mappable arrays, the one format of all subcommands.

`model.json` describes the model and names the file of each array; it is replaced as the last act of every
write, so a reader sees the earlier model or the new one, never a mixture. Array files are never changed once
written, but removed when another model takes the place of theirs, which `ModelFolder.read` sees to. The format is
described for other readers in docs/model-folder.md.
"""

import json
from pathlib import Path

from xmlgp import __version__
from xmlgp.errors import ModelFolderError, SettingsError
from xmlgp.model_folder.arrays import (
    FOLDER,
    is_entry,
    make_folders,
    read_array,
    remove,
    remove_other_arrays,
    write_arrays,
)
from xmlgp.model_folder.plain import is_plain, once_each
from xmlgp.models import MODELS, settings_from
from xmlgp.runtime.atomic_files import atomic_write, check_writable
from xmlgp.runtime.interrupts import uninterruptible
from xmlgp.runtime.untrusted_text import excerpt

__all__ = ["FORMAT_VERSION", "STAGES", "ModelFolder"]

#: Raised when an older xmlgp could not read what is written.
FORMAT_VERSION = 5

#: The first format of each model.
SINCE = {"mlgpf": 1, "bmlpl": 4, "gpc": 5}

#: Settings that models of mlgpf of earlier formats were made with, though they do not say so.
UNSAID = {5: {}, 4: {"expectations": "quadrature"}}
UNSAID[3] = UNSAID[4]
UNSAID[2] = UNSAID[3] | {"label_weights": False, "regression_points": 0, "validation": 0}
UNSAID[1] = UNSAID[2] | {"start": "random", "sampling": "uniform"}

#: How far a model has come, in order.
STAGES = ("preprocessed", "trained")

DESCRIPTION = "model.json"

#: Largest description that is read: real ones have some kilobytes.
DESCRIPTION_LIMIT = 64 << 20


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
            settings, model = self.description["settings"], self.description["model"]
            self.settings = settings_from(settings, self.path / DESCRIPTION, model)
        except SettingsError as error:
            raise ModelFolderError(str(error)) from None

    @classmethod
    def read(cls, path, use):
        """Return what `use` makes of the model, all of one model: anew where another takes its place meanwhile.

        Parameters
        ----------
        path : path
        use : callable
            Takes the `ModelFolder`, and reads what it needs of its arrays.

        Raises
        ------
        ModelFolderError
            As `use` does, of a model that is still there.
        """
        folder = cls(path)
        while True:
            try:
                return use(folder)
            except ModelFolderError:
                # Files of arrays have names of their own for every write.
                before, folder = folder, cls(path)
                if folder.description == before.description:
                    raise

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
        return read_array(self.path, name, entry, DESCRIPTION)

    def arrays(self, prefix):
        """Return all arrays whose names start with a prefix, as a mapping without it."""
        return {name.removeprefix(prefix): self.array(name) for name in self.entries(prefix)}

    def entries(self, prefix):
        """Return the description's entries of all arrays whose names start with a prefix."""
        return {name: entry for name, entry in self.description["arrays"].items() if name.startswith(prefix)}

    @staticmethod
    def check_writable(path):
        """Raise OSError where a model could not be written: before the work that it is to hold, not after."""
        made = make_folders(path)
        try:
            check_writable(Path(path) / FOLDER, path)
        finally:
            remove([], made)

    @classmethod
    def write(cls, path, *, settings, stage, data, arrays, keep=(), spare=(), **facts):
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
        spare : iterable of dict
            Entries of arrays that the folder holds for something else.
        **facts
            Further entries of the description, such as the training history.
        """
        path = Path(path)
        made = make_folders(path)
        written = {}
        try:
            write_arrays(path, arrays, written)
            entries = dict(keep) | written
            description = {
                "format": "xmlgp model folder",
                "format_version": FORMAT_VERSION,
                "written_by": f"xmlgp {__version__}",
                "model": settings.model,
                "stage": stage,
                "data": dict(data),
                "settings": settings.mapping(),
                **facts,
                "arrays": entries,
            }
            content = json.dumps(description, indent=1, ensure_ascii=False).encode() + b"\n"
            # A signal waits until the arrays are known to be the model's, and not to be removed.
            with uninterruptible:
                with atomic_write(path / DESCRIPTION) as stream:
                    stream.write(content)
                written = {}
        except BaseException:
            remove([path / entry["file"] for entry in written.values()], made)
            raise
        remove_other_arrays(path, [*entries.values(), *spare])
        return cls(path)


def _read_description(path):
    file = path / DESCRIPTION
    # A pipe would be waited for.
    if file.exists() and not (file.is_file() or file.is_dir()):
        raise ModelFolderError(f"{file}: this is not the description of an xmlgp model")
    try:
        with open(file, "rb") as stream:
            content = stream.read(DESCRIPTION_LIMIT + 1)
        known = len(content) <= DESCRIPTION_LIMIT
        description = json.loads(content, object_pairs_hook=once_each) if known else None
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        raise ModelFolderError(f"{path}: there is no model here (no {DESCRIPTION})") from None
    except (ValueError, RecursionError):
        description = None
    if not isinstance(description, dict) or description.get("format") != "xmlgp model folder":
        raise ModelFolderError(f"{file}: this is not the description of an xmlgp model")
    version = description.get("format_version")
    # Python takes true for an integer.
    if type(version) is not int or version not in UNSAID:
        raise ModelFolderError(
            f"{file}: written in format {excerpt(version)} by {excerpt(description.get('written_by'))}; "
            f"this is xmlgp {__version__}, which reads formats {min(UNSAID)} to {FORMAT_VERSION}"
        )
    _check_description(file, description)
    if description["model"] == "mlgpf":
        description["settings"] = UNSAID[version] | description["settings"]
    return description


def _check_description(file, description):
    data, arrays, history, validation = (description.get(key) for key in ("data", "arrays", "history", "validation"))
    # A list, for nothing else can be asked for what JSON may hold in place of a name.
    models = [model for model, first in SINCE.items() if first <= description["format_version"]]
    whole = (
        is_plain(description)
        and description.get("model") in models
        and isinstance(description.get("written_by"), str)
        and description.get("stage") in STAGES
        and isinstance(description.get("settings"), dict)
        and isinstance(data, dict)
        and all(type(data.get(name)) is int and data[name] >= 0 for name in "NDK")
        and isinstance(data.get("fingerprint"), str)
        and isinstance(arrays, dict)
        and all(is_entry(file.parent, entry) for entry in arrays.values())
        and (isinstance(history, list) and bool(history) if description["stage"] == "trained" else history is None)
        and isinstance(validation, list | None)
        and all(_is_epoch(epoch, description["model"]) for epoch in [*(history or []), *(validation or [])])
    )
    if not whole:
        raise ModelFolderError(f"{file}: the description of the model is damaged")


def _is_epoch(entry, model):
    """Return whether an entry of an untrusted history has the numbers that every epoch has."""
    return isinstance(entry, dict) and all(
        isinstance(entry.get(key), int | float) for key in ("epoch", MODELS[model].objective, "seconds")
    )
