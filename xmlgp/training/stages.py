"""A run of several stages: one inference method after the other, over the same parameters."""

from xmlgp.training.inference import Inference

__all__ = ["Stages"]


class Stages(Inference):
    """Stages that run one after the other: each has epochs of its own, and the arrays that its steps change.

    Later stages may change arrays of earlier ones. Parameters of a stage replace those of the same name before it.

    Parameters
    ----------
    stages : sequence of Inference
        `begin(0)` of a stage is called after the last step of the one before, whose `end` frees what only its steps
        need. A resumed run begins the stages before its own as well, and fills the arrays of all of them at once.
    """

    def __init__(self, stages):
        self._stages = stages
        self._starts = [sum(stage.epochs for stage in stages[:number]) for number in range(len(stages))]
        self.epochs = sum(stage.epochs for stage in stages)
        self.equal_steps = all(stage.equal_steps for stage in stages)
        self.random = stages[0].random
        #: Stages that have begun.
        self._begun = []

    def _at(self, epoch):
        """Return the stage of an epoch, and the number of the epoch in it."""
        number = max(i for i, start in enumerate(self._starts) if start <= epoch)
        return self._stages[number], epoch - self._starts[number]

    def place(self, epoch):
        """Return the numbers that the progress shows, of this stage and of those before."""
        stage, own = self._at(epoch)
        shown = {}
        for before in self._stages[: self._stages.index(stage)]:
            shown |= before.place(before.epochs - 1)
        return shown | stage.place(own)

    def begin(self, epoch):
        """Begin the stages up to that of an epoch."""
        current, own = self._at(epoch)
        for stage in self._stages[len(self._begun) : self._stages.index(current) + 1]:
            if self._begun:
                self._begun[-1].end()
            self._begun.append(stage)
            stage.begin(own if stage is current else stage.epochs - 1)

    def steps_in(self, epoch):
        """Return the number of steps in an epoch."""
        stage, own = self._at(epoch)
        return stage.steps_in(own)

    def cost(self, epoch, done):
        """Return the time that a step takes."""
        stage, own = self._at(epoch)
        return stage.cost(own, done)

    def step(self, epoch, done):
        """Make one step."""
        stage, own = self._at(epoch)
        return stage.step(own, done)

    def arrays(self):
        """Return the arrays that steps of the stages so far change, by name."""
        return {name: array for stage in self._begun for name, array in stage.arrays().items()}

    def parameters(self, epochs):
        """Return the parameters by name; steps may change these arrays."""
        return {name: value for stage in self._begun for name, value in stage.parameters(epochs).items()}

    def notes(self):
        """Return the notes of the stages so far."""
        return {name: value for stage in self._begun for name, value in stage.notes().items()}
