"""Interrupt training after given steps, and resume it from its checkpoints."""

from xmlgp.runtime.interrupts import Interrupted
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
