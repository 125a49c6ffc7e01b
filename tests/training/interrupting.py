"""Trainings that are interrupted after steps of one's choice, and go on from their checkpoints."""

from xmlgp.runtime.interrupts import Interrupted
from xmlgp.training.checkpoints import CheckpointWriter, read_checkpoint


class Interrupting(CheckpointWriter):
    """Interrupts after so many steps from where it begins."""

    steps = 1

    def maybe_save(self, state, epoch_ended=False):
        self.steps -= 1
        if not self.steps:
            self.save(state())
            raise Interrupted(15)


def in_pieces(train, problem, path, lengths):
    """Train, interrupted after so many steps each time; return what it ends in, and how often it was interrupted."""
    for interruptions, steps in enumerate(lengths):
        checkpoints = Interrupting(path, {}, 0, read_checkpoint(path))
        checkpoints.steps = steps
        try:
            return train(*problem, checkpoints=checkpoints), interruptions
        except Interrupted:
            pass
    raise AssertionError("training does not end")
