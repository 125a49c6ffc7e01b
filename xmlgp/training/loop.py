"""The training loop of all models: steps, epochs, history, progress, interruption and checkpoints."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from xmlgp.linear_algebra.dense import all_finite
from xmlgp.runtime.errors import ClusterError, NumericalError
from xmlgp.runtime.interrupts import defer_signals
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.progress import Progress, silent
from xmlgp.runtime.threads import one_blas_thread
from xmlgp.training.checkpoints import Checkpoint, CheckpointWriter, TrainingState
from xmlgp.training.inference import Inference
from xmlgp.training.trained import is_history

__all__ = ["Loop", "TrainingDiverged"]

InferenceT = TypeVar("InferenceT", bound=Inference)

#: `(epoch, parameters)`: a hook after each epoch, with a function that returns the parameters.
EpochHook: TypeAlias = "Callable[[int, Callable[[], dict[str, NDArray[Any]]]], None]"


class TrainingDiverged(NumericalError):
    """Something (`reason`) became non-finite, or cannot be computed, after some steps of training."""

    def __init__(self, reason: object, steps: int, advice: str) -> None:
        self.reason = reason
        self.steps = steps
        self.advice = advice
        super().__init__(f"training diverged {self.when}: {reason}; {advice}")

    @property
    def when(self) -> str:
        """When training diverged, in words."""
        return f"after {counted(self.steps, 'step')}" if self.steps else "before the first step"


class Loop(Generic[InferenceT]):
    """One training: runs an inference method to its end, and keeps its history.

    `run` makes the `inference` from its class and arguments, because a starting point can diverge like any step. The
    `history` has an entry for each finished epoch with an objective: `epoch`, the objective under its name (the mean
    of its estimates), `seconds` since the start, and the notes of the inference.
    """

    def __init__(self, inference_class: type[InferenceT], *arguments: Any) -> None:
        self._inference_class = inference_class
        self._arguments = arguments
        self.inference: InferenceT
        self.history: list[dict[str, Any]] = []
        #: The current epoch, steps made in it, and estimates of the objective.
        self._epoch = 0
        self._done = 0
        self._estimates: list[float] = []
        self._seconds = 0.0
        self._ended = False
        self._after_epoch: EpochHook | None = None
        self._facts: dict[str, Any] = {}

    @property
    def _step(self) -> int:
        """Steps made."""
        return self._steps_of(self._epoch) + self._done

    def run(
        self,
        progress: Progress = silent,
        after_epoch: EpochHook | None = None,
        checkpoints: CheckpointWriter | None = None,
        facts: dict[str, Any] | None = None,
    ) -> tuple[dict[str, NDArray[Any]], list[dict[str, Any]]]:
        """Train to the end, and return the parameters by name, and the history.

        After each epoch, counted from 1, `after_epoch(epoch, parameters)` is called with a function that returns the
        parameters; its time is not training time. With a `CheckpointWriter`, training begins at its `resume_from`, and
        signals that end the process wait for the end of a step. Checkpoints also hold `facts`, as JSON has them.

        Raises TrainingDiverged if the objective or a parameter becomes non-finite, and ModelFolderError if the
        checkpoint is damaged.
        """
        self._after_epoch = after_epoch
        self._facts = facts or {}
        # An overflow is not warned about where it happens; it is refused once it reaches the objective or a parameter.
        with one_blas_thread(), np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            try:
                self.inference = self._inference_class(*self._arguments)
            except NumericalError as error:
                raise self._diverged(error) from error
            if checkpoints and checkpoints.resume_from is not None:
                self._restore(checkpoints.resume_from)
                # A second attempt, or the next training of the same run, starts from the beginning.
                checkpoints.resume_from = None
            else:
                self.inference.begin(0)
            with defer_signals() if checkpoints else contextlib.nullcontext():
                self._run_epochs(progress, checkpoints)
            parameters = self._parameters()
        self._check_finite(parameters)
        return parameters, self.history

    def state(self) -> TrainingState:
        """Return the state that training can be resumed from (`TrainingState`)."""
        arrays = self.inference.arrays()
        # Squares that an optimiser keeps may be finite when their sum is not.
        self._check_finite({name: value for name, value in arrays.items() if not name.startswith("optimiser.")})
        random = self.inference.random
        facts = {
            "step": self._step,
            "steps": self._steps_of(self.inference.epochs),
            "epoch": self._epoch,
            "done": self._done,
            "estimates": self._estimates,
            "seconds": self._seconds,
            "ended": self._ended,
            "history": self.history,
            "random": random and random.bit_generator.state,
        }
        return TrainingState(facts | self._facts, arrays)

    def _restore(self, checkpoint: Checkpoint) -> None:
        facts = checkpoint.facts
        random = self.inference.random
        with checkpoint.checked():
            self._check_place(facts)
            self.history = facts["history"]
            self._estimates = facts["estimates"]
            self._epoch = facts["epoch"]
            self._done = facts["done"]
            self._seconds = facts["seconds"]
            self._ended = facts["ended"]
            if (facts["step"], facts["steps"]) != (self._step, self._steps_of(self.inference.epochs)):
                raise ValueError("the steps are those of another training")
            if random:
                random.bit_generator.state = facts["random"]
        # No epoch begins after the last one.
        self.inference.begin(self._epoch - self._is_over)
        checkpoint.fill(self.inference.arrays())
        with checkpoint.checked():
            self.inference.check_restored(self._epoch, self._done)

    def _check_place(self, facts: Mapping[str, Any]) -> None:
        """Raise ValueError unless the facts of a checkpoint, which is untrusted, name a place in this training."""
        valid = (
            is_history(facts["history"], self.inference.objective)
            and isinstance(facts["estimates"], list)
            and all(type(estimate) is float for estimate in facts["estimates"])
            and all(type(facts[name]) is int for name in ("epoch", "done"))
            and type(facts["ended"]) is bool
            and 0 <= facts["epoch"] <= self.inference.epochs
            # Training would never come to the end of an epoch that it is beyond.
            and (facts["done"] == 0 or 0 < facts["done"] < self._steps_of_one(facts["epoch"]))
        )
        if not valid:
            raise ValueError("the checkpoint names no place in this training")

    def _run_epochs(self, progress: Progress, checkpoints: CheckpointWriter | None) -> None:
        inference = self.inference
        shown: dict[str, str] = {}
        total = inference.epochs
        with progress("train", total=total, unit=None) as bar:
            if self._ended:
                bar.update(total)
            elif self._step:
                bar.update(self._epoch + self._done / max(1, self._steps_of_one(self._epoch)))
            while not self._is_over:
                began = time.perf_counter() - self._seconds
                shown |= inference.place(self._epoch)
                while True:
                    with self._saved_if_lost(checkpoints):
                        shown |= self._make_step()
                    bar.update(1 / inference.steps_in(self._epoch), **shown)
                    self._seconds = time.perf_counter() - began
                    if self._done == inference.steps_in(self._epoch):
                        break
                    if checkpoints:
                        checkpoints.maybe_save(self.state)
                self._end_epoch()
                if self._ended:
                    # Steps that are no longer needed count as done, so the bar ends full.
                    bar.update(total - self._epoch, **shown)
                if checkpoints:
                    checkpoints.maybe_save(self.state, epoch_ended=True)

    @contextlib.contextmanager
    def _saved_if_lost(self, checkpoints: CheckpointWriter | None) -> Iterator[None]:
        """Write a checkpoint of the state before a step if the cluster is lost in it."""
        random = self.inference.random
        before = random.bit_generator.state if random else None
        try:
            yield
        except ClusterError:
            if checkpoints:
                if random and before:
                    random.bit_generator.state = before
                checkpoints.maybe_save(self.state, now=True)
            raise

    def _make_step(self) -> dict[str, str]:
        """Make one step; return its estimate of the objective to be shown."""
        try:
            value = self.inference.step(self._epoch, self._done)
        except NumericalError as error:
            raise self._diverged(error) from error
        shown = {}
        if value is not None:
            if not np.isfinite(value):
                raise self._diverged(f"the {self.inference.objective.replace('_', ' ')} is not finite")
            self._estimates.append(float(value))
            shown = {self.inference.objective: f"{value:.6g}"}
        self._done += 1
        return shown

    def _end_epoch(self) -> None:
        """Add an epoch with an objective to the history and call the hook; begin the next epoch."""
        estimates = self._estimates
        self._estimates = []
        self._epoch = self._epoch + 1
        self._done = 0
        self._ended = self.inference.converged
        if estimates:
            entry = {
                "epoch": len(self.history) + 1,
                self.inference.objective: float(np.mean(estimates)),
                "seconds": round(self._seconds, 6),
                **self.inference.notes(),
            }
            self.history.append(entry)
            if self._after_epoch is not None:
                self._after_epoch(entry["epoch"], self._parameters)
        if not self._is_over:
            self.inference.begin(self._epoch)

    @property
    def _is_over(self) -> bool:
        return self._ended or self._epoch == self.inference.epochs

    def _parameters(self) -> dict[str, NDArray[Any]]:
        return self.inference.parameters(self._epoch)

    def _steps_of(self, epochs: int) -> int:
        """Return the number of steps in the first epochs."""
        return sum(self.inference.steps_in(epoch) for epoch in range(epochs))

    def _steps_of_one(self, epoch: int) -> int:
        """Return the number of steps in an epoch, 0 after the last one."""
        return self.inference.steps_in(epoch) if epoch < self.inference.epochs else 0

    def _check_finite(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        for name, value in arrays.items():
            if not all_finite(value):
                raise self._diverged(f"{name.removeprefix('parameters.')} is not finite")

    def _diverged(self, reason: object) -> TrainingDiverged:
        steps = self._step if hasattr(self, "inference") else 0
        advice = self._inference_class.advice
        if not steps:
            advice = self._inference_class.advice_at_start or advice
        return TrainingDiverged(reason, steps, advice)
