"""The training loop of all models: steps, epochs, history, progress, interruption and checkpoints."""

from __future__ import annotations

import contextlib
import time
from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from xmlgp.linear_algebra.dense import all_finite
from xmlgp.runtime.errors import ClusterError, NumericalError
from xmlgp.runtime.interrupts import Interrupted, defer_signals
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.progress import Progress, silent
from xmlgp.runtime.threads import one_blas_thread
from xmlgp.training.checkpoints import Checkpoint, CheckpointWriter, TrainingState
from xmlgp.training.inference import Inference
from xmlgp.training.result import is_valid_history
from xmlgp.training.time_left import TimeLeft

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
        self._facts: dict[str, Any] = {}

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
        signals that end the process wait for the end of a step, or until it asks for them. Checkpoints also hold
        `facts`, as JSON has them.

        Raises TrainingDiverged if the objective or a parameter becomes non-finite, and ModelFolderError if the
        checkpoint is damaged.
        """
        self._facts = facts or {}
        # An overflow is not warned about where it happens; it is refused once it reaches the objective or a parameter.
        with one_blas_thread(), np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            try:
                self.inference = self._inference_class(*self._arguments)
            except NumericalError as error:
                raise self._diverged(error) from error
            if checkpoints and checkpoints.resume_from:
                self._restore(checkpoints.resume_from)
                # A second attempt, or the next training of the same run, starts from the beginning.
                checkpoints.resume_from = None
            else:
                self.inference.begin(0)
            progress.plan(TimeLeft(self.inference.costs))
            with defer_signals() if checkpoints else contextlib.nullcontext():
                self._run_epochs(progress, after_epoch, checkpoints)
            progress.at("writing")
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
            "steps": self._first_step(self.inference.epochs),
            "estimates": self._estimates,
            "seconds": self._seconds,
            "ended": self._ended,
            "history": self.history,
            "random": random and random.bit_generator.state,
        }
        return TrainingState(facts | self._facts, arrays)

    def _restore(self, checkpoint: Checkpoint) -> None:
        """Continue after the last step of an untrusted checkpoint."""
        facts = checkpoint.facts
        inference = self.inference
        with checkpoint.checked():
            starts = [self._first_step(epoch) for epoch in range(inference.epochs + 1)]
            if not 0 <= facts["step"] <= facts["steps"] == starts[-1]:
                raise ValueError("the steps are those of another training")
            if not is_valid_history(facts["history"], inference.objective):
                raise ValueError("the history is damaged")
            self._epoch = bisect_right(starts, facts["step"]) - 1
            self._done = range(starts[-1] + 1)[facts["step"]] - starts[self._epoch]
            self.history = facts["history"]
            self._estimates = [float(estimate) for estimate in facts["estimates"]]
            self._seconds = float(facts["seconds"])
            self._ended = bool(facts["ended"])
            if inference.random:
                inference.random.bit_generator.state = facts["random"]
        # No epoch begins after the last one.
        inference.begin(self._epoch - self._is_over)
        checkpoint.fill(inference.arrays())
        with checkpoint.checked():
            inference.check_restored(self._epoch, self._done)

    def _run_epochs(
        self, progress: Progress, after_epoch: EpochHook | None, checkpoints: CheckpointWriter | None
    ) -> None:
        """Make the steps of all epochs that remain, and write checkpoints."""
        inference = self.inference
        while not self._is_over:
            steps = inference.steps_in(self._epoch)
            began = time.perf_counter() - self._seconds
            while self._done < steps:
                progress.at(*inference.phase(self._epoch, self._done))
                try:
                    self._make_step()
                except (ClusterError, Interrupted) as error:
                    if checkpoints and (isinstance(error, ClusterError) or error.was_asked_for):
                        checkpoints.maybe_save(self.state, now=True)
                    raise
                self._seconds = time.perf_counter() - began
                if checkpoints and self._done < steps:
                    checkpoints.maybe_save(self.state)
            self._end_epoch(after_epoch)
            if checkpoints:
                checkpoints.maybe_save(self.state, epoch_ended=True)

    def _make_step(self) -> None:
        """Make one step."""
        try:
            value = self.inference.step(self._epoch, self._done)
        except NumericalError as error:
            raise self._diverged(error) from error
        if value is not None:
            if not np.isfinite(value):
                raise self._diverged(f"the {self.inference.objective.replace('_', ' ')} is not finite")
            self._estimates.append(float(value))
        self._done += 1

    def _end_epoch(self, after_epoch: EpochHook | None) -> None:
        """Add an epoch with an objective to the history and call the hook; begin the next epoch."""
        self._epoch += 1
        self._done = 0
        self._ended = self.inference.converged
        if self._estimates:
            entry = {
                "epoch": len(self.history) + 1,
                self.inference.objective: float(np.mean(self._estimates)),
                "seconds": round(self._seconds, 6),
                **self.inference.notes(),
            }
            self._estimates = []
            self.history.append(entry)
            if after_epoch:
                after_epoch(entry["epoch"], self._parameters)
        if not self._is_over:
            self.inference.begin(self._epoch)

    @property
    def _is_over(self) -> bool:
        return self._ended or self._epoch == self.inference.epochs

    def _parameters(self) -> dict[str, NDArray[Any]]:
        return self.inference.parameters(self._epoch)

    @property
    def _step(self) -> int:
        """Steps made."""
        return self._first_step(self._epoch) + self._done

    def _first_step(self, epoch: int) -> int:
        """Return the number of the first step of an epoch."""
        return sum(self.inference.steps_in(earlier) for earlier in range(epoch))

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
