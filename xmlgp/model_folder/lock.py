"""One writer at a time for a model folder."""

import contextlib
from collections.abc import Iterator
from os import PathLike
from pathlib import Path

from xmlgp.model_folder.arrays import FOLDER, make_model_folder, remove
from xmlgp.runtime.atomic_files import check_writable, remove_abandoned
from xmlgp.runtime.errors import ModelFolderError, ModelInUseError
from xmlgp.runtime.locks import LockedError, hold_lock

__all__ = ["LOCK", "lock_model_folder"]

LOCK = ".lock"


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
        check_writable(path / FOLDER, path)
        # No other process writes here, so what is temporary is left by one that was killed.
        for folder in (path, path / FOLDER):
            remove_abandoned(folder)
        yield
