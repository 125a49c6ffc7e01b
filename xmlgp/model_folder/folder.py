"""The model folder: `model.json` and memory-mappable arrays, the one format of all subcommands.

`model.json` describes the model and names the file of each array. It is replaced as the last step of every write, so a
reader sees the old model or the new one, never a mixture. Array files are never changed, but are removed once another
model replaces theirs; `ModelFolder.read` handles that. docs/model-folder.md describes the format for other readers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from xmlgp.data.names import format_names, parse_names
from xmlgp.model_folder.arrays import (
    FOLDER,
    Entry,
    make_model_folder,
    read_array,
    remove,
    remove_unused_arrays,
    write_arrays,
)
from xmlgp.model_folder.description import DESCRIPTION, FORMAT_VERSION, read_description, write_description
from xmlgp.models.fields import Settings
from xmlgp.models.table import settings_from
from xmlgp.runtime.atomic_files import remove_abandoned
from xmlgp.runtime.errors import ModelFolderError, ModelInUseError, SettingsError
from xmlgp.runtime.interrupts import uninterruptible
from xmlgp.runtime.locks import LockedError, hold_lock
from xmlgp.text.names import Names
from xmlgp.text.word_counts import WordCounts
from xmlgp.version import __version__

__all__ = ["LOCK", "ModelFolder", "lock_model_folder"]

T = TypeVar("T")

#: What every description begins with.
HEAD = {"format": "xmlgp model folder", "format_version": FORMAT_VERSION, "written_by": f"xmlgp {__version__}"}

#: The name of the lock of a model folder.
LOCK = ".lock"

#: Bytes of names that are checked at once.
CHUNK = 1 << 20


class ModelFolder:
    """A model on disk; ModelFolderError is raised for a folder without one, or with a damaged one.

    Attributes
    ----------
    path : Path
        As the user calls it.
    description : dict
        The content of model.json.
    settings : Settings
    stage : str
        One of `STAGES`.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        self.description = read_description(self.path)
        self.stage: str = self.description["stage"]
        try:
            self.settings: Settings = settings_from(
                self.description["settings"], str(self.path / DESCRIPTION), self.description["model"]
            )
        except SettingsError as error:
            raise ModelFolderError(str(error)) from None

    @classmethod
    def read(cls, path: str | PathLike[str], use: Callable[[ModelFolder], T]) -> T:
        """Return `use(folder)`, a function that reads arrays; call it again if another model replaces this one."""
        folder = cls(path)
        while True:
            try:
                return use(folder)
            except ModelFolderError:
                # Array files have other names in every model, so a new description means another model.
                before = folder
                folder = cls(path)
                if folder.description == before.description:
                    raise

    @staticmethod
    def exists(path: str | PathLike[str]) -> bool:
        """Return whether the folder holds a model of any version, even a damaged one."""
        return (Path(path) / DESCRIPTION).exists()

    def array(self, name: str) -> NDArray[Any] | None:
        """Return an array, memory-mapped and read-only, or None if the model has none of that name.

        An array whose byte order is not this machine's is copied. ModelFolderError is raised if its file is missing,
        damaged, or not as described.
        """
        entry = self.description["arrays"].get(name)
        return None if entry is None else read_array(self.path, name, entry)

    def arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """Return all arrays whose names start with a prefix, by their names without it."""
        return {
            name.removeprefix(prefix): read_array(self.path, name, entry)
            for name, entry in self.entries(prefix).items()
        }

    def entries(self, prefix: str) -> dict[str, Entry]:
        """Return the entries in the description of all arrays whose names start with a prefix."""
        return {name: entry for name, entry in self.description["arrays"].items() if name.startswith(prefix)}

    @classmethod
    def write(
        cls,
        path: str | PathLike[str],
        *,
        settings: Settings,
        stage: str,
        data: Mapping[str, object],
        arrays: Mapping[str, NDArray[Any]],
        keep: Mapping[str, Entry] | None = None,
        protected: Iterable[Entry] = (),
        names: Names | None = None,
        **facts: object,
    ) -> ModelFolder:
        """Write a model and return it opened.

        Parameters
        ----------
        path : path
            The folder, created if it does not exist. An existing model is replaced.
        settings : Settings
        stage : str
            One of `STAGES`.
        data : mapping
            Facts of the training data: N, D, K, fingerprint.
        arrays : mapping of str to ndarray
        keep : mapping
            Entries of arrays in the folder that also belong to the new model (`entries`).
        protected : iterable of dict
            Entries of other arrays in the folder that must not be removed.
        names : Names, optional
            Of the labels and features.
        **facts
            Further entries of the description, such as the training history.
        """
        path = Path(path)
        names = names or Names()
        if names.vectorizer:
            facts["vectorizer"] = names.vectorizer.description()
        made = make_model_folder(path)
        written: dict[str, Entry] = {}
        try:
            keep = keep or {}
            write_arrays(path, {**arrays, **_arrays_of(names)}, written)
            entries = {**keep, **written}
            facts = {"data": dict(data), "settings": settings.mapping(), **facts, "arrays": entries}
            description = {**HEAD, "model": settings.model, "stage": stage, **facts}
            # A signal between these lines would remove the arrays of the finished model, or leave the earlier ones.
            with uninterruptible:
                write_description(path, description)
                written = {}
                remove_unused_arrays(path, [*entries.values(), *protected])
        except BaseException:
            remove([path / entry["file"] for entry in written.values()], made)
            raise
        return cls(path)

    @property
    def vectorizer(self) -> WordCounts | None:
        """What maps text to the features, or None."""
        mapping = self.description.get("vectorizer")
        if mapping is None:
            return None
        words = self._names("features", "D")
        vectorizer = None if words is None else WordCounts.from_description(mapping, words)
        if vectorizer is None:
            raise ModelFolderError(f"{self.path}: the model is damaged, its features are not those of text")
        return vectorizer

    @property
    def names(self) -> Names:
        """The names of labels and features, and what maps text to features."""
        vectorizer = self.vectorizer
        # There may be millions of words, so they are read once.
        words = vectorizer.words if vectorizer else self._names("features", "D")
        labels, uris, preferred = (self._names(kind, "K") for kind in ("labels", "uris", "preferred"))
        vocabulary = (uris, preferred) if uris and preferred else ()
        texts = self._names("texts", None)
        return Names(labels, words, vectorizer, *vocabulary)._replace(texts=texts)

    def _names(self, kind: str, count: str | None) -> list[str] | None:
        """Return names of a kind, as many as a letter of the data says, or as there are labels of texts."""
        array = self.array(f"names.{kind}")
        if array is None:
            return None
        of_texts = self.array("parameters.label_texts.labels")
        number = self.description["data"][count] if count else 0 if of_texts is None else of_texts.size
        if array.dtype == np.uint8 and array.ndim == 1 and _has_lines(array, number):
            names: list[str] | None = parse_names(array.tobytes(), number)
            if names is not None:
                return names
        raise ModelFolderError(f"{self.path}: the model is damaged, its {kind} do not have a name each")


def _arrays_of(names: Names) -> dict[str, NDArray[np.uint8]]:
    """Return the arrays in which names are stored."""
    kinds = names.in_files
    return {f"names.{kind}": np.frombuffer(format_names(values), np.uint8) for kind, values in kinds.items()}


def _has_lines(array: NDArray[np.uint8], count: int) -> bool:
    """Return whether bytes have so many lines, and no zeros: a file of holes takes no disk space, but memory."""
    lines = 0
    for start in range(0, len(array), CHUNK):
        chunk = array[start : start + CHUNK]
        if not chunk.all():
            return False
        lines += np.count_nonzero(chunk == ord("\n"))
    return lines == count


@contextlib.contextmanager
def lock_model_folder(path: str | PathLike[str]) -> Iterator[None]:
    """Keep other writers out of a model folder within the block; readers need no lock.

    The folder is created if it does not exist, and removed afterwards if it is still empty. OSError is raised if it
    cannot be written, so that training fails before it starts; ModelInUseError if another process is writing it, which
    can take hours; ModelFolderError if the path is that of a file.
    """
    path = Path(path)
    if path.is_file():
        raise ModelFolderError(f"{path}: this is a file, but a model is a folder")
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(hold_lock(path / LOCK))
        except LockedError:
            raise ModelInUseError(
                f"{path}: another process is writing this model; wait until it ends, or choose another folder"
            ) from None
        stack.callback(remove, [], make_model_folder(path))
        # No other process writes here, so what is temporary is left by one that was killed.
        for folder in (path, path / FOLDER):
            remove_abandoned(folder)
        yield
