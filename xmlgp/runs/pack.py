"""Pack a trained model: its folder as one zip file, which all commands read like the folder."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import NamedTuple

from xmlgp.data.streams import check_outputs
from xmlgp.errors import ModelFolderError, UsageError, memory_errors_reported
from xmlgp.inputs.kinds import FilePath, is_path
from xmlgp.model_folder import words
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.model_folder.packing import write_packed
from xmlgp.runs.trained_model import TrainedModel, open_model
from xmlgp.runtime.atomic_files import atomic_write
from xmlgp.runtime.locks import temporary_folder
from xmlgp.runtime.progress import Progress, silent

__all__ = ["PackedModel", "pack"]

#: Endings of archives that are not zip archives, and of compressed files.
OTHER_ARCHIVE = re.compile(r"(\.tar)?\.(gz|bz2|xz|zst|Z|lz4)$|\.(tar|tgz|tbz2?|txz|tzst|7z|rar)$", re.IGNORECASE)


class PackedModel(NamedTuple):
    """A file that `pack` has written.

    `size` and `unpacked` are the bytes of the file and of the files in it; `rows` says what the model contains of its
    training points, after "it contains".
    """

    path: str
    size: int
    unpacked: int
    rows: str


@memory_errors_reported()
def pack(
    model: FilePath | TrainedModel, path: FilePath, *, overwrite: bool = False, progress: Progress | None = None
) -> PackedModel:
    """Write a trained model as one zip file, from which `load`, the estimators and all commands read it.

    The same model has the same bytes in a file of the same name, which the card shows. The file has what `model.json`
    names, and the card of the model, `README.md`: no checkpoint, and nothing else that is in the folder.

    Parameters
    ----------
    model : path or TrainedModel
        In memory, in a folder, or packed; another process may write the folder.
    path : path
        The file, which is written whole or not at all.
    overwrite : bool
        Whether to replace a file.
    progress : callable, optional
        As for `train`.

    Raises
    ------
    ModelFolderError
        If the model is not trained yet or damaged, or another one has replaced it in the folder of a TrainedModel.
    """
    if os.fspath(path) == "-":
        raise UsageError("A packed model cannot be written to standard output; give the name of a file.")
    target = Path(path)
    ending = OTHER_ARCHIVE.search(target.name)
    if ending:
        raise UsageError(f"{target}: a packed model is a zip archive; end its name in .zip, not in {ending[0]}.")
    loaded = None if is_path(model) else _checked(model).folder
    folder = model if is_path(model) else loaded.path if loaded else None
    check_outputs([target], [folder])
    if target.exists() and not (overwrite and target.is_file()):
        advice = ", or replace it with `overwrite=True`" if target.is_file() else ""
        raise UsageError(f"There is {target} already; choose another file{advice}.")
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(target.parent))
    if folder is not None:
        return _packed(folder, loaded, target, progress or silent)
    try:
        with temporary_folder(target.parent) as temporary:
            _checked(model).save(temporary / "model")
            return _packed(temporary / "model", None, target, progress or silent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(target)) from error


def _checked(model: object) -> TrainedModel:
    """Return a model that is not given by its path; UsageError for anything else."""
    if not isinstance(model, TrainedModel):
        raise UsageError(f"A model is a path or a TrainedModel, not {type(model).__name__}.")
    return model


def _packed(folder: FilePath, loaded: ModelFolder | None, target: Path, progress: Progress) -> PackedModel:
    """Pack the model in a folder, which must be the one that was loaded from it, if it was."""

    def write(folder: ModelFolder) -> tuple[int, str]:
        open_model(folder)
        if loaded and loaded.description["arrays"] != folder.description["arrays"]:
            raise ModelFolderError(f"{folder.path}: the folder holds another model by now; load it again")
        return write_packed(stream, folder, target.name, progress), words.rows_kept(folder.description)

    with atomic_write(target) as stream:
        unpacked, rows = ModelFolder.read(folder, write)
    return PackedModel(os.fspath(target), target.stat().st_size, unpacked, rows)
