"""Checkpoints: the state of a training run in one file, from which it resumes bit for bit.

A checkpoint is a zip archive of uncompressed `.npy` files and of one JSON file. It is replaced atomically, so a process
that is killed leaves the last complete one. It is in a folder that people exchange, so what it says is not trusted.
"""

from __future__ import annotations

import contextlib
import errno
import json
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from xmlgp.runtime.atomic_files import atomic_write
from xmlgp.runtime.errors import ModelFolderError
from xmlgp.runtime.interrupts import raise_pending_signal, signal_pending
from xmlgp.runtime.npy import read_array, write_array
from xmlgp.runtime.untrusted_json import is_plain, read_json
from xmlgp.runtime.zip_archives import open_archive

__all__ = ["Checkpoint", "CheckpointWriter", "TrainingState", "read_checkpoint"]

#: Name of the JSON file in the archive.
FACTS = "checkpoint.json"

#: Smallest ratio of the time between two checkpoints to the time that writing one takes.
TIME_RATIO = 20


class TrainingState(NamedTuple):
    """The state that a training run resumes from: facts that JSON can hold, and arrays by name."""

    facts: dict[str, Any]
    arrays: Mapping[str, NDArray[Any]]


class Checkpoint:
    """A checkpoint that was read; its arrays stay in the file until `fill`.

    `about` describes the run, as `CheckpointWriter` got it. `facts` are those of the state.
    """

    def __init__(self, path: Path, about: dict[str, Any], facts: dict[str, Any]) -> None:
        self.path = path
        self.about = about
        self.facts = facts

    def fill(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Copy the stored arrays into arrays of the same names, shapes and types.

        Raises ModelFolderError if an array is missing or damaged, or has another shape or type.
        """
        with self.checked(), open_archive(self.path) as archive:
            for name, array in arrays.items():
                with _member(archive, f"{name}.npy") as stream:
                    np.copyto(array, read_array(stream, array.shape, array.dtype))

    @contextlib.contextmanager
    def checked(self) -> Iterator[None]:
        """Raise `ModelFolderError` for whatever a damaged file, a missing fact or a wrong type raises in the block."""
        try:
            yield
        except (MemoryError, ModelFolderError):
            raise
        except OSError as error:
            # Damaged archives name offsets outside the file, which cannot be sought.
            if error.errno not in (None, errno.EINVAL):
                raise
            raise self.damaged() from error
        except Exception as error:
            raise self.damaged() from error

    def damaged(self) -> ModelFolderError:
        """Return the error for a damaged checkpoint."""
        return ModelFolderError(f"{self.path}: the checkpoint is damaged; use `resume=False` to start a new run")


def read_checkpoint(path: Path) -> Checkpoint | None:
    """Return the `Checkpoint` in a file, or None if there is no such file; ModelFolderError if it is damaged."""
    checkpoint = Checkpoint(path, {}, {})
    if path.exists() and not path.is_file():
        # Opening a named pipe would wait forever.
        raise checkpoint.damaged()
    try:
        with checkpoint.checked(), open_archive(path) as archive, _member(archive, FACTS) as stream:
            content = read_json(stream)
            if not is_plain(content):
                raise ValueError("a number is not finite, or a text not printable")
            checkpoint.about = dict(content["about"])
            checkpoint.facts = dict(content["state"])
    except (FileNotFoundError, NotADirectoryError):
        return None
    return checkpoint


class CheckpointWriter:
    """Writes the checkpoints of one training run, which `about` describes, and holds the one to resume from.

    A checkpoint is written at the end of an epoch, unless writing would take more than 1/`TIME_RATIO` of the time;
    within an epoch every `interval` seconds; and when a signal waits for the end of a step. If the interval is 0, there
    are none. The training loop sets `resume_from` to None.
    """

    def __init__(
        self, path: Path, about: dict[str, Any], interval: float, resume_from: Checkpoint | None = None
    ) -> None:
        self.path = path
        self.resume_from = resume_from
        self._about = about
        self._interval = interval
        self._last = time.monotonic()
        self._duration = 0.0

    def maybe_save(self, state: Callable[[], TrainingState], epoch_ended: bool = False, now: bool = False) -> None:
        """Write a checkpoint if it is time for one, then raise `Interrupted` if a signal waits.

        The function `state` returns the `TrainingState`. It is time in any case if training cannot go on (`now`).
        """
        wait = TIME_RATIO * self._duration
        if not epoch_ended:
            wait = max(wait, self._interval)
        if self._interval and (now or signal_pending() or time.monotonic() - self._last >= wait):
            self.save(state())
        raise_pending_signal()

    def save(self, state: TrainingState) -> None:
        """Write a checkpoint now."""
        start = time.monotonic()
        content = {"about": self._about, "state": state.facts}
        with atomic_write(self.path) as stream, _new_archive(stream) as archive:
            for name, array in state.arrays.items():
                with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                    write_array(member, array)
            archive.writestr(zipfile.ZipInfo(FACTS), json.dumps(content))
        self._last = time.monotonic()
        self._duration = self._last - start


def _member(archive: zipfile.ZipFile, name: str) -> zipfile.ZipExtFile:
    member = archive.getinfo(name)
    # Some methods of compression expand without a limit.
    if member.compress_type != zipfile.ZIP_STORED:
        raise ValueError("a member is compressed")
    return cast(zipfile.ZipExtFile, archive.open(member))


@contextlib.contextmanager
def _new_archive(stream: BinaryIO) -> Iterator[zipfile.ZipFile]:
    archive = zipfile.ZipFile(stream, "w")
    try:
        yield archive
        archive.close()
    except BaseException:
        # Its destructor would report the incomplete member instead of what went wrong.
        archive.fp = None
        raise
