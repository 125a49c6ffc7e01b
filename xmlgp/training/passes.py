"""The loop of a training that goes pass by pass through the data, whatever makes its steps."""

import time

import numpy as np

from xmlgp.errors import NumericalError
from xmlgp.linear_algebra.dense import all_finite
from xmlgp.training.checkpoints import State, restore_random
from xmlgp.training.history import OBJECTIVES, is_history, is_number

__all__ = ["Passes"]


class Passes:
    """A training under way.

    Parameters
    ----------
    inference
        What makes its steps: `steps_a_pass`; `step(pass, done)`, which makes one, both counted from 0, and returns the
        objective or an estimate; `moving()`, the arrays that it goes on from by their names; `parameters(passes)`,
        those of the model; and `converged`, whether no further pass is needed.
    settings : Settings
        With `passes`, how many there are at most.
    random : numpy.random.Generator
        Of the inference.
    after_pass : callable, optional
        Called as `after_pass(epoch, parameters)`, passes counted from 1 and parameters a function that returns them;
        the time it takes is not training time. If it returns true this pass is the last.
    advice : str, optional
        What a user can try where the numbers are lost.

    Attributes
    ----------
    history : list of dict
        For each pass done `epoch`, the objective (the mean of what its steps returned) and `seconds` since the start.
    """

    def __init__(self, inference, settings, random, after_pass=None, advice="try other settings"):
        self.inference, self.settings, self.random, self.after_pass = inference, settings, random, after_pass
        self.history = []
        self._objective, self._advice = OBJECTIVES[settings.model], advice
        #: Of the pass under way: how many steps are done, and what they returned.
        self._done, self._estimates, self._seconds, self._ended = 0, [], 0.0, False

    @property
    def step(self):
        """Steps done."""
        return len(self.history) * self.inference.steps_a_pass + self._done

    @property
    def steps(self):
        """Steps in all, if none are saved."""
        return self.settings.passes * self.inference.steps_a_pass

    def go_on(self, progress, keep=None):
        """Go on to the end.

        Parameters
        ----------
        progress : callable
            See `xmlgp.runtime.progress`.
        keep : callable, optional
            Called after each step as `keep(state, pass_ended)`, where `state()` returns what training goes on from.

        Raises
        ------
        NumericalError
            Where the objective stops being a finite number.
        """
        with progress("train", total=self.steps, unit="step") as bar:
            if self.step:
                bar.update(self.steps if self._ended else self.step)
            while len(self.history) < self.settings.passes and not self._ended:
                began = time.perf_counter() - self._seconds
                while True:
                    try:
                        value = self.inference.step(len(self.history), self._done)
                    except NumericalError as error:
                        raise self.lost(error) from error
                    if not np.isfinite(value):
                        raise self.lost(f"the {self._objective.replace('_', ' ')} is not finite")
                    self._estimates.append(float(value))
                    self._done += 1
                    self._seconds = time.perf_counter() - began
                    shown = {"epoch": f"{len(self.history) + 1}/{self.settings.passes}"}
                    shown[self._objective] = f"{value:.6g}"
                    bar.update(**shown)
                    if self._done == self.inference.steps_a_pass:
                        break
                    if keep:
                        keep(self.state, False)
                self._end_pass()
                if self._ended:
                    # The steps that are saved count as done, so the bar ends full.
                    bar.update(self.steps - self.step, **shown)
                if keep:
                    keep(self.state, True)

    def _end_pass(self):
        self.history.append(
            {
                "epoch": len(self.history) + 1,
                self._objective: float(np.mean(self._estimates)),
                "seconds": round(self._seconds, 4),
            }
        )
        self._done, self._estimates, self._ended = 0, [], self.inference.converged
        if self.after_pass:
            passes = len(self.history)
            self._ended |= bool(self.after_pass(passes, lambda: self.inference.parameters(passes)))

    def lost(self, reason):
        """Return the error for numbers that are lost."""
        return NumericalError(f"after {self.step} training steps: {reason}; {self._advice}")

    def state(self):
        """Return what a training of the same data with the same settings goes on from (`State`)."""
        arrays = self.inference.moving()
        for name, value in arrays.items():
            if not all_finite(value):
                raise self.lost(f"{name} is not finite")
        facts = {
            "step": self.step,
            "steps": self.steps,
            "done": self._done,
            "estimates": self._estimates,
            "seconds": self._seconds,
            "spent": 0.0,
            "ended": self._ended,
            "history": self.history,
            "random": self.random.bit_generator.state,
        }
        return State(facts, arrays)

    def restore(self, checkpoint):
        """Take up where a state was left.

        Raises
        ------
        ModelFolderError
            Where the checkpoint is damaged.
        """
        facts, passes = checkpoint.facts, self.settings.passes
        try:
            self.history, self._done = facts["history"], facts["done"]
            self._estimates, self._seconds = facts["estimates"], facts["seconds"]
            # Earlier checkpoints are of trainings that do not end before their last pass.
            self._ended = facts.get("ended", False)
            whole = (
                is_history(self.history, self.settings.model)
                and len(self.history) <= passes
                and type(self._ended) is bool
                and self._ended <= (bool(self.history) and self._done == 0)
                and type(self._done) is int
                and 0 <= self._done < (self.inference.steps_a_pass if len(self.history) < passes else 1)
                and isinstance(self._estimates, list)
                and len(self._estimates) == self._done
                and all(map(is_number, self._estimates))
                and is_number(sum(map(abs, self._estimates)))
                and is_number(self._seconds, 0)
                and facts["step"] == self.step
                and facts["steps"] == self.steps
            )
            whole = whole and restore_random(self.random, facts["random"])
        except (AttributeError, KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
            raise checkpoint.damaged() from error
        if not whole:
            raise checkpoint.damaged()
        checkpoint.fill(self.inference.moving())
