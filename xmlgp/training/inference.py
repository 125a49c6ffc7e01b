"""The interface of inference methods for the training loop, and runs of several of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["Inference", "Stages", "merged"]

T = TypeVar("T")


class Inference:
    """The steps of a training run, or of a stage of it; the base class of every inference method.

    The loop makes `epochs` epochs of `steps_in(epoch)` steps each, both counted from 0. The state of an inference is
    its arrays and its random generator: the loop writes both to checkpoints. To resume, it makes a new object from the
    same arguments and copies the stored state into it.
    """

    #: Name of what training maximises, as the history has it.
    objective = "bound"
    #: Advice for the user when training diverges, and when it diverges before the first step (None for the same).
    advice = "try other settings"
    advice_at_start: str | None = None
    #: The largest number of epochs, 0 for a stage that does not apply, and the steps in each, unless `steps_in` says
    #: otherwise.
    epochs = 1
    steps_per_epoch = 1
    #: The expected costs of its phases; one phase needs no numbers.
    costs: Mapping[str, tuple[float, float]] = {"steps": (0.0, 1.0)}  # noqa: RUF012 -- it is never changed
    #: Whether no further epoch is needed.
    converged = False
    #: The `numpy.random.Generator` that steps draw from; None if they draw nothing.
    random: np.random.Generator | None = None

    def steps_in(self, epoch: int) -> int:
        """Return the number of steps in an epoch."""
        return self.steps_per_epoch

    def check_restored(self, epoch: int, done: int) -> None:
        """Raise ValueError if the arrays of an untrusted checkpoint, after `done` steps of an epoch, are impossible."""

    def phase(self, epoch: int, done: int) -> tuple[str, float | None]:
        """Return what the progress shows after `done` steps of an epoch: a phase and the share of it; None for zero."""
        return "steps", (epoch + done / self.steps_in(epoch)) / self.epochs or None

    def begin(self, epoch: int) -> None:
        """Prepare for the steps of an epoch.

        Called before each epoch. A resumed run calls it for the epoch of its checkpoint only, before it fills the
        arrays, so the arrays may differ from epoch to epoch.
        """

    def end(self) -> None:
        """Free what only steps need, after the last one, where another stage follows."""

    def step(self, epoch: int, done: int) -> float | None:
        """Make one step, after `done` others of this epoch; return an estimate of the objective, or None.

        An epoch without estimates has no entry in the history. Raises NumericalError if a computation becomes
        non-finite, ClusterError if the cluster is lost, and Interrupted where a long step asks for signals. The state
        is then that before the step, except for the random generator.
        """
        raise NotImplementedError

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that steps change, by name; a resumed run fills them in place."""
        raise NotImplementedError

    def parameters(self, epochs: int) -> dict[str, NDArray[Any]]:
        """Return the parameters of the model by name, after some epochs; steps may change these arrays."""
        raise NotImplementedError

    def notes(self) -> dict[str, Any]:
        """Return numbers that join each epoch's entry in the history, by name."""
        return {}


class Stages(Inference):
    """Stages that run one after the other: each has epochs of its own, and the arrays that its steps change.

    A stage that has no epochs does not apply, and is left out. Later stages may change arrays of earlier ones;
    parameters replace those of the same name before. `begin(0)` of a stage is called after `end` of the one before. A
    resumed run begins the stages before its own as well, and fills the arrays of all of them at once.
    """

    def __init__(self, stages: Sequence[Inference]) -> None:
        self._stages = [stage for stage in stages if stage.epochs]
        self._begun: list[Inference] = []
        self.epochs = sum(stage.epochs for stage in stages)
        self.random = stages[0].random

    def _at(self, epoch: int) -> tuple[Inference, int]:
        """Return the stage of an epoch, and the number of the epoch in it."""
        for stage in self._stages:
            if epoch < stage.epochs:
                return stage, epoch
            epoch -= stage.epochs
        raise IndexError("there are not so many epochs")

    def phase(self, epoch: int, done: int) -> tuple[str, float | None]:
        """Return what the progress shows of the stage of an epoch."""
        stage, stage_epoch = self._at(epoch)
        return stage.phase(stage_epoch, done)

    def begin(self, epoch: int) -> None:
        """Begin the stages up to that of an epoch."""
        current, stage_epoch = self._at(epoch)
        for stage in self._stages[len(self._begun) : self._stages.index(current) + 1]:
            if self._begun:
                self._begun[-1].end()
            self._begun.append(stage)
            stage.begin(stage_epoch if stage is current else stage.epochs - 1)

    def steps_in(self, epoch: int) -> int:
        """Return the number of steps in an epoch."""
        stage, stage_epoch = self._at(epoch)
        return stage.steps_in(stage_epoch)

    def check_restored(self, epoch: int, done: int) -> None:
        """Check the arrays of the stage of an epoch."""
        if epoch < self.epochs:
            stage, stage_epoch = self._at(epoch)
            stage.check_restored(stage_epoch, done)

    def step(self, epoch: int, done: int) -> float | None:
        """Make one step."""
        stage, stage_epoch = self._at(epoch)
        return stage.step(stage_epoch, done)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of the stages so far."""
        return merged(stage.arrays() for stage in self._begun)

    def parameters(self, epochs: int) -> dict[str, NDArray[Any]]:
        """Return the parameters of the stages so far."""
        return merged(stage.parameters(epochs) for stage in self._begun)

    def notes(self) -> dict[str, Any]:
        """Return the notes of the stages so far."""
        return merged(stage.notes() for stage in self._begun)


def merged(mappings: Iterable[Mapping[str, T]]) -> dict[str, T]:
    """Return the entries of mappings; the last of the same name counts."""
    return {name: value for mapping in mappings for name, value in mapping.items()}
