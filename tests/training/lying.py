"""What a stranger's checkpoint says, changed, and what is said of it."""

import math

import numpy as np
import pytest

from xmlgp.errors import ModelFolderError
from xmlgp.runtime.interrupts import Interrupted
from xmlgp.training.checkpoints import Checkpoints, State, read_checkpoint

#: Of no type that any fact has.
ODD = [..., "x", "1", [None], {"x": 1}, -1, -1.5, math.nan, math.inf, 10**400]

#: What can be wrong with an array, as `spoilt` makes it.
DAMAGES = ["missing", "shorter", "longer", "of another type", "not finite"]


class _Stopping(Checkpoints):
    """Interrupts after four steps: of minibatches in the midst of a pass."""

    def offer(self, state, epoch_ended=False):
        if state().facts["step"] == 4:
            self.write(state())
            raise Interrupted(15)


def left(train, problem, folder):
    """Return the state that a training is left in after four steps."""
    checkpoints = _Stopping(folder / "checkpoint", {}, 1)
    with pytest.raises(Interrupted):
        train(*problem, checkpoints=checkpoints)
    content = read_checkpoint(checkpoints.path)
    with np.load(checkpoints.path) as arrays:
        return State(content.facts, {name: arrays[name] for name in arrays if name.count(".json") == 0})


def gone_on(train, problem, path, state, facts=lambda facts: None, arrays=lambda arrays: None):
    """Return what a training goes on to from a state that two functions change."""
    state = State(_copied(state.facts), {name: np.copy(value) for name, value in state.arrays.items()})
    facts(state.facts)
    arrays(state.arrays)
    Checkpoints(path, {}, 1).write(state)
    return train(*problem, checkpoints=Checkpoints(path, {}, 1e9, read_checkpoint(path)))


def _copied(value):
    if isinstance(value, dict):
        return {key: _copied(child) for key, child in value.items()}
    return [_copied(child) for child in value] if isinstance(value, list) else value


def spoilt(array, damage):
    """Return what changes an array of a state so that it is no more what it was."""

    def changed(value):
        flat = np.atleast_1d(value)
        last = np.arange(value.size).reshape(value.shape) == value.size - 1
        return {
            "shorter": flat[:-1],
            "longer": np.concatenate([flat, flat]),
            "of another type": value.astype(np.float32 if value.dtype == np.float64 else np.float64),
            "not finite": np.where(last, np.nan, value).astype(value.dtype),
        }[damage]

    def arrays(arrays):
        value = arrays.pop(array)
        if damage != "missing":
            arrays[array] = changed(value)

    return arrays


def refused(call, *arguments, **options):
    """Make sure that a call refuses the checkpoint as damaged."""
    with pytest.raises(
        ModelFolderError, match="checkpoint: the checkpoint is damaged; --no-resume begins anew without it$"
    ):
        call(*arguments, **options)


def change(*path, to):
    """Return what sets a value that a path of keys leads to; ... takes it out."""

    def facts(content):
        for key in path[:-1]:
            content = content[key]
        if to is ...:
            del content[path[-1]]
        else:
            content[path[-1]] = to

    return facts
