"""Interrupt training after given steps, resume it from its checkpoints, and compare the results."""

import contextlib
import itertools

from xmlgp.runtime.interrupts import Interrupted
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


class Recorder:
    """A progress that records how each bar starts, and its updates as counts and facts."""

    def __init__(self):
        self.starts, self.updates = {}, {}

    @contextlib.contextmanager
    def __call__(self, label, total=None, unit="it"):
        self.starts[label], updates = (total, unit), self.updates.setdefault(label, [])

        class Bar:
            def update(self, count=1, **facts):
                updates.append((count, facts))

        yield Bar()


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
