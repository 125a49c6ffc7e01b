"""The interrupted run in a model folder: what its checkpoint says, and whether it is resumed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xmlgp.api.points import FilePath
from xmlgp.model_folder.arrays import Entry, is_entry, remove, remove_unused_arrays
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.models.fields import Settings, in_words
from xmlgp.runtime.errors import ModelFolderError
from xmlgp.runtime.interrupts import Interrupted
from xmlgp.runtime.threads import core_count
from xmlgp.training.checkpoints import Checkpoint, read_checkpoint

__all__ = [
    "CHECKPOINT",
    "InterruptedRun",
    "describe_run",
    "different_settings",
    "discard_run",
    "left_by_failure",
    "protected_arrays",
    "readable_run",
    "run_to_resume",
]

CHECKPOINT = "checkpoint.npz"

#: Incremented whenever the state of a training changes.
FORMAT_VERSION = 10


def describe_run(data: Mapping[str, Any], settings: Settings, preprocess: Mapping[str, Entry]) -> dict[str, Any]:
    """Return what a checkpoint stores about a run, in JSON types.

    `preprocess` are the entries of the arrays of preprocessing in the model folder.
    """
    return {
        "format_version": FORMAT_VERSION,
        "cores": core_count(),
        "data": dict(data),
        "settings": settings.with_model(),
        "preprocess": dict(preprocess),
    }


@dataclass(frozen=True, eq=False)
class InterruptedRun:
    """An interrupted run, of whose steps `step` are done; its data and settings are not checked."""

    checkpoint: Checkpoint
    data: object
    settings: dict[str, Any]
    preprocess: dict[str, Entry]
    cores: int
    step: int
    steps: int

    @classmethod
    def read(cls, path: FilePath) -> InterruptedRun | None:
        """Return the run in a model folder, or None; ModelFolderError if it is damaged or of another version."""
        checkpoint = read_checkpoint(Path(path) / CHECKPOINT)
        if checkpoint is None:
            return None
        about = checkpoint.about
        if about.get("format_version") != FORMAT_VERSION:
            raise ModelFolderError(
                f"{checkpoint.path}: another version of xmlgp wrote it; use `resume=False` to start a new run"
            )
        with checkpoint.checked():
            counts = about["cores"], *(checkpoint.facts[name] for name in ("step", "steps"))
            entries = about["preprocess"]
            # The files of arrays are removed with the run.
            are_entries = all(is_entry(Path(path), entry) for entry in entries.values())
            if not are_entries or not all(type(count) is int for count in counts) or not 0 <= counts[1] <= counts[2]:
                raise ValueError("an entry has another type")
            return cls(checkpoint, about["data"], dict(about["settings"]), entries, *counts)

    @property
    def where(self) -> str:
        """How far the run came, in words."""
        return f"after {self.step} of {self.steps} steps of training"

    def difference(self, data: Mapping[str, Any], settings: Settings) -> str | None:
        """Return how this run differs from another, after "a run"; None if it does not."""
        return different_settings(self.settings, settings) if self.data == data else "on other data"


def different_settings(earlier: Mapping[str, Any], settings: Settings) -> str | None:
    """Return how the settings of an earlier run, with its model, differ from others; None if they do not."""
    # The model comes first: the other settings of another model have other names.
    for name, value in settings.with_model().items():
        if earlier.get(name) != value:
            return f"with different settings ({name} {in_words(earlier.get(name))}, now {in_words(value)})"
    return None


def readable_run(path: FilePath) -> InterruptedRun | None:
    """Return the interrupted run in a model folder; None if there is none, or none that can be read."""
    try:
        return InterruptedRun.read(path)
    except (ModelFolderError, OSError):
        return None


def run_to_resume(
    path: Path, data: Mapping[str, Any], settings: Settings, note: Callable[[str], object]
) -> InterruptedRun | None:
    """Return the interrupted run in a folder, or None; ModelFolderError if it has other data or settings."""
    run = InterruptedRun.read(path)
    if run is None:
        return None
    if difference := run.difference(data, settings):
        raise ModelFolderError(
            f"{path}: an unfinished run {difference} exists, which stopped {run.where}; "
            "finish it as it was started, or discard it with `resume=False`"
        )
    note(f"resuming {run.where}")
    if run.cores != core_count():
        note(
            f"the checkpoint used {run.cores} threads, this run uses {core_count()}; "
            f"results may differ in the last digits, but not with --threads {run.cores}"
        )
    return run


def discard_run(path: Path) -> None:
    """Remove the checkpoint in a folder, and the arrays that the model in it does not name."""
    remove([path / CHECKPOINT], ())
    # Nothing is removed beside a model that cannot be read.
    with contextlib.suppress(ModelFolderError):
        remove_unused_arrays(path, ModelFolder(path).entries("").values() if ModelFolder.exists(path) else ())


def protected_arrays(path: FilePath) -> Iterable[Entry]:
    """Return the entries of the arrays in a model folder that its interrupted run needs."""
    run = readable_run(path)
    return run.preprocess.values() if run else ()


@contextlib.contextmanager
def left_by_failure(path: Path, note: Callable[[str], object]) -> Iterator[None]:
    """Say that a run that fails or is interrupted can be resumed; without a checkpoint, remove what it wrote."""
    try:
        yield
    except BaseException as error:
        if run := readable_run(path):
            text = "run the same command again to resume"
            if isinstance(error, Interrupted):
                error.advice = text
            elif not isinstance(error, ModelFolderError):  # of the checkpoint itself
                note(f"stopped {run.where}; {text}")
        elif not (path / CHECKPOINT).exists():
            discard_run(path)
        raise
