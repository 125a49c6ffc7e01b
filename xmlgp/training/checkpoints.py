"""Checkpoints: a file with all that training goes on from, bit for bit, as if it had not been interrupted.

It is a zip archive of NumPy's `.npy` files, stored as they are, and of a JSON file; nothing in it is code. It is
replaced in one piece, so a process that is killed leaves the last whole one.
"""

import contextlib
import errno
import json
import math
import os
import time
import warnings
import zipfile
from typing import NamedTuple

import numpy as np

from xmlgp.errors import ModelFolderError
from xmlgp.runtime.atomic_files import atomic_write
from xmlgp.runtime.interrupts import raise_pending_signal, signal_pending
from xmlgp.runtime.npy import read_array, read_header, write_array

__all__ = ["Checkpoint", "Checkpoints", "State", "read_checkpoint", "restore_random"]

FACTS = "checkpoint.json"

#: Largest JSON file that is read: real ones have some kilobytes.
FACTS_LIMIT = 64 << 20

#: Ends of epochs are left out where writing would take more than the inverse of this share of the time.
PATIENCE = 20


class State(NamedTuple):
    """What something goes on from.

    Attributes
    ----------
    facts : dict
        As JSON has them.
    arrays : dict of str to ndarray
    """

    facts: dict
    arrays: dict

    def joined(self, other):
        """Return this and another `State`, whose names are others, in one."""
        return State(self.facts | other.facts, self.arrays | other.arrays)


class Checkpoint:
    """A checkpoint that was read.

    Attributes
    ----------
    path : Path
    about : dict
        What was trained: see `Checkpoints`.
    facts : dict or None
        Of the state; None where training had not begun.
    """

    def __init__(self, path, about, facts):
        self.path, self.about, self.facts = path, about, facts

    def fill(self, arrays):
        """Copy stored arrays into others of the same types and shapes.

        Parameters
        ----------
        arrays : mapping of str to ndarray
            By the names under which they are stored.

        Raises
        ------
        ModelFolderError
            Where one is missing, damaged or another, or not finite.
        """
        with _read_as_damaged(self), _opened(self.path) as archive:
            for name, array in arrays.items():
                np.copyto(array, _read_array(archive, f"{name}.npy", array))

    def check_shape(self, name, shape):
        """Raise ModelFolderError where a stored array has another shape than what is to be filled will have.

        Parameters
        ----------
        name : str
        shape : tuple of int
        """
        with _read_as_damaged(self), _opened(self.path) as archive:
            if _header(archive, f"{name}.npy")[0] != shape:
                raise ValueError(name)

    def damaged(self):
        """Return the error for a checkpoint that is not as it should be."""
        return ModelFolderError(f"{self.path}: the checkpoint is damaged; --no-resume begins anew without it")


def read_checkpoint(path):
    """Return a `Checkpoint`, or None where there is no file.

    Parameters
    ----------
    path : Path

    Raises
    ------
    ModelFolderError
        For a file that is none.
    """
    with _read_as_damaged(Checkpoint(path, {}, None)):
        # Nothing else is opened: a pipe would be waited for.
        if not path.is_file():
            if os.path.lexists(path):
                raise ModelFolderError(f"{path}: this is no checkpoint; remove it")
            return None
        with _opened(path) as archive:
            content = json.loads(_read(archive, FACTS, FACTS_LIMIT))
        about, facts = content["about"], content["state"]
        if not isinstance(about, dict) or not isinstance(facts, dict | None):
            raise TypeError
    return Checkpoint(path, about, facts)


@contextlib.contextmanager
def _read_as_damaged(checkpoint):
    """Raise the error for a damaged checkpoint for whatever damaged archives and headers raise within the block."""
    try:
        # NumPy warns of headers as Python 2 wrote them, Python of odd escapes in them: ours have neither.
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            # Of a file that a signal left open nobody need be told.
            warnings.simplefilter("ignore", ResourceWarning)
            yield
    except (MemoryError, ModelFolderError):
        raise
    except OSError as error:
        # Without a name it is of a place in the file that an archive names and that there cannot be.
        if error.filename is None and error.errno in (None, errno.EINVAL):
            raise checkpoint.damaged() from error
        raise
    except Exception as error:
        raise checkpoint.damaged() from error


def restore_random(random, state):
    """Set a generator of random numbers to a state from a checkpoint; return whether it is one of the same seed.

    One with another increment may repeat itself, and be waited for without end.

    Parameters
    ----------
    random : numpy.random.Generator
    state : object
        Whatever a stranger's file has in the place of one: setting it may raise what wrong types and keys do.
    """
    generator, known = random.bit_generator, random.bit_generator.state
    generator.state = state
    return generator.state == state and state["state"]["inc"] == known["state"]["inc"]


class Checkpoints:
    """Writes checkpoints of one training now and then.

    At the ends of epochs, unless that takes more than a twentieth of the time; within an epoch `every` so many
    seconds; and when a signal waits for the end of a step.

    Parameters
    ----------
    path : Path
        Of the file.
    about : mapping
        What is trained, as JSON has it.
    every : float
        Seconds; 0 to write none.
    begun : Checkpoint, optional
        What training goes on from; None where it begins.

    Attributes
    ----------
    begun : Checkpoint or None
    kept : bool
        Whether there is a state to go on from.
    """

    def __init__(self, path, about, every, begun=None):
        self.path, self.begun, self.kept = path, begun, begun is not None
        self._about, self._every = about, every
        self._written, self._took = time.monotonic(), 0.0

    def offer(self, state, epoch_ended=False):
        """Write a checkpoint if it is time for one; then raise `Interrupted` if a signal is waiting.

        Parameters
        ----------
        state : callable
            Returns the `State`; called only where it is written.
        epoch_ended : bool
        """
        wait = PATIENCE * self._took
        if not epoch_ended:
            wait = max(wait, self._every)
        if self._every and (signal_pending() or time.monotonic() - self._written >= wait):
            self.write(state())
        raise_pending_signal()

    def write(self, state=None):
        """Write a checkpoint; without a state it says what is to be trained.

        Parameters
        ----------
        state : State, optional
        """
        arrays = {} if state is None else state.arrays
        begun = time.monotonic()
        content = {"about": self._about, "state": None if state is None else state.facts}
        with atomic_write(self.path) as stream, _archive(stream) as archive:
            for name, array in arrays.items():
                with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                    write_array(member, array)
            archive.writestr(zipfile.ZipInfo(FACTS), json.dumps(content))
        if state is not None:
            self.kept, self._written = True, time.monotonic()
            self._took = self._written - begun


@contextlib.contextmanager
def _opened(path):
    with zipfile.ZipFile(path) as archive:
        yield archive


@contextlib.contextmanager
def _archive(stream):
    archive = zipfile.ZipFile(stream, "w")
    try:
        yield archive
        archive.close()
    except BaseException:
        # A member that is not whole would be complained of, in the place of what went wrong.
        archive.fp = None
        raise


def _header(archive, name):
    """Return shape, order and dtype of a stored array, which is as large as these say."""
    member = _stored(archive, name)
    with archive.open(member) as stream:
        shape, in_columns, dtype = read_header(stream)
        if member.file_size != stream.tell() + math.prod(shape) * dtype.itemsize:
            raise ValueError(name)
    return shape, in_columns, dtype


def _read_array(archive, name, like):
    with archive.open(_stored(archive, name)) as stream:
        values = read_array(stream, like.shape, like.dtype)
    if not np.isfinite(values).all():
        raise ValueError(name)
    return values


def _read(archive, name, limit):
    with archive.open(_stored(archive, name)) as stream:
        content = stream.read(limit + 1)
    if len(content) > limit:
        raise ValueError(name)
    return content


def _stored(archive, name):
    """Return a member that is as large as it says: what is packed could be a bomb."""
    member = archive.getinfo(name)
    size = os.fstat(archive.fp.fileno()).st_size
    if member.compress_type != zipfile.ZIP_STORED or not member.file_size == member.compress_size <= size:
        raise ValueError(name)
    if archive.namelist().count(name) > 1:
        raise ValueError(name)
    return member
