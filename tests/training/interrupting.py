"""Interrupt training after given steps, resume it from its checkpoints, and compare the results."""

import os

import pytest

from xmlgp.runtime.interrupts import Interrupted, handle_signals
from xmlgp.training.checkpoints import CheckpointWriter, read_checkpoint


class Interrupting(CheckpointWriter):
    """Interrupts training after `steps` steps."""

    steps = 1

    def maybe_save(self, state, epoch_ended=False):
        self.steps -= 1
        if not self.steps:
            self.save(state())
            raise Interrupted(15)


def train_with_interruptions(train, problem, path, lengths):
    """Train with an interruption after each number of steps; return the result and the number of interruptions."""
    for interruptions, steps in enumerate(lengths):
        checkpoints = Interrupting(path, {}, 0, read_checkpoint(path))
        checkpoints.steps = steps
        try:
            return train(*problem, checkpoints=checkpoints), interruptions
        except Interrupted:
            pass
    raise AssertionError("training does not end")


def untimed(history):
    return [{name: value for name, value in epoch.items() if name != "seconds"} for epoch in history]


def assert_same_result(found, expected):
    """Check that two results of training have the same parameters, bit for bit, and the same history."""
    (parameters, history), (others, other_history) = found, expected
    assert list(parameters) == list(others)
    for name, value in others.items():
        assert parameters[name].dtype == value.dtype
        assert parameters[name].tobytes() == value.tobytes(), name
    assert untimed(history) == untimed(other_history)


def check_writing_checkpoints(train, problem, path):
    """Check that writing checkpoints does not change the result."""
    assert_same_result(train(*problem, checkpoints=CheckpointWriter(path, {}, 1e-9)), train(*problem))
    assert read_checkpoint(path).facts["step"]


def check_signal_in_a_step(train, problem, path, kind, number, monkeypatch):
    """Check that a signal in the second step of an inference method takes effect at its end and can be resumed from."""
    steps, step = [], kind.step

    def interrupted(self, *arguments):
        steps.append(arguments)
        if len(steps) == 2:
            os.kill(os.getpid(), number)
        return step(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(kind, "step", interrupted)
        with pytest.raises(Interrupted) as caught, handle_signals():
            train(*problem, checkpoints=CheckpointWriter(path, {}, 1e9))
    assert caught.value.number == number
    assert len(steps) == 2
    assert read_checkpoint(path).facts["step"] == 2
    resumed = CheckpointWriter(path, {}, 1e9, read_checkpoint(path))
    assert_same_result(train(*problem, checkpoints=resumed), train(*problem))
