"""Interrupt training after given steps, resume it from its checkpoints, and compare the results."""

import itertools

from xmlgp.runtime.interrupts import Interrupted
from xmlgp.runtime.progress import Progress
from xmlgp.training.checkpoints import CheckpointWriter, read_checkpoint
from xmlgp.training.loop import Loop


class Interrupting(CheckpointWriter):
    """Interrupts training after some steps."""

    def __init__(self, path, steps):
        super().__init__(path, {}, 0, read_checkpoint(path))
        self.steps = steps

    def maybe_save(self, state, epoch_ended=False):
        self.steps -= 1
        if not self.steps:
            self.save(state())
            raise Interrupted(15)


class EveryStep(CheckpointWriter):
    """Writes a checkpoint after every step."""

    def __init__(self, path):
        super().__init__(path, {}, 1)

    def maybe_save(self, state, epoch_ended=False):
        self.save(state())


def train_with_interruptions(train, problem, path, lengths):
    """Train with an interruption after each number of steps; return the result and the number of interruptions."""
    for interruptions, steps in enumerate(lengths):
        try:
            return train(*problem, checkpoints=Interrupting(path, steps)), interruptions
        except Interrupted:
            pass
    raise AssertionError("training does not end")


def untimed(history):
    return [{name: value for name, value in epoch.items() if name != "seconds"} for epoch in history]


def assert_same_result(found, expected):
    """Check that two results of training have the same parameters, bit for bit, and the same history."""
    (parameters, history, *_), (others, other_history, *_) = found, expected
    assert list(parameters) == list(others)
    for name, value in others.items():
        assert parameters[name].dtype == value.dtype
        assert parameters[name].flags.c_contiguous == value.flags.c_contiguous
        assert parameters[name].tobytes() == value.tobytes(), name
    assert untimed(history) == untimed(other_history)


class Recorder(Progress):
    """A progress that records the shares of each phase."""

    def __init__(self):
        super().__init__(is_shown=False)
        self.shares = {}

    def at(self, phase, share=None):
        self.shares.setdefault(phase, []).append(share)


def replace_steps(monkeypatch, replacement):
    """Make the loop call `replacement(inference, step, number)` for each step, counted from 0 in each run.

    `step()` makes the step.
    """
    original = Loop.__init__

    def made(self, kind, *arguments):
        numbers = itertools.count()

        class Replaced(kind):
            def step(self, *place):
                return replacement(self, lambda: super(Replaced, self).step(*place), next(numbers))

        original(self, Replaced, *arguments)

    monkeypatch.setattr(Loop, "__init__", made)
