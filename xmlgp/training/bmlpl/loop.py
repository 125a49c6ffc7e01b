"""The loop that turns labels and features into topics."""

import contextlib
import time

import numpy as np

from xmlgp.bmlpl.parameters import are_parameters
from xmlgp.errors import NumericalError
from xmlgp.linear_algebra.dense import all_finite
from xmlgp.progress import silent
from xmlgp.signals import held
from xmlgp.threads import one_blas_thread
from xmlgp.training.bmlpl import start
from xmlgp.training.bmlpl.em import EM
from xmlgp.training.bmlpl.online import OnlineEM
from xmlgp.training.bmlpl.sampling import Gibbs
from xmlgp.training.checkpoints import State, restore_random
from xmlgp.training.history import is_history, is_number

__all__ = ["INFERENCES", "train_topics"]

#: By the setting `inference`: what makes steps.
INFERENCES = {"em": EM, "em-cg": EM, "online-em": OnlineEM, "gibbs": Gibbs}

#: Which of the arrays that each goes on from are of the size K×T, and N×T where there is one.
LARGEST = {"online-em": ("counts.labels",), "gibbs": ("parameters.topics", "activations")}
LARGEST |= dict.fromkeys(("em", "em-cg"), ("counts.labels", "counts.points"))

#: What is never zero or less, and what is never less, of the arrays that they go on from.
POSITIVE = {"parameters.shapes", "parameters.precisions"}
NOT_NEGATIVE = {"parameters.topics", "counts.labels", "counts.points", "activations"}


def train_topics(coordinates, labels, settings, progress=silent, after_pass=None, checkpoints=None):
    """Infer the parameters of BMLPL.

    Parameters
    ----------
    coordinates : Coordinates
        Of the N training points, their features themselves.
    labels : csr_array of bool, N×K
        Y.
    settings : BMLPLSettings
    progress : callable
        See `xmlgp.progress`.
    after_pass : callable, optional
        Called as `after_pass(epoch, parameters)`, passes counted from 1 and parameters a function that returns them;
        the time it takes is not training time.
    checkpoints : Checkpoints, optional
        Where to keep what training goes on from, and what it goes on from now. Signals that end the process wait for
        the end of a step.

    Returns
    -------
    parameters : dict of str to ndarray
        `topics` V, K×T; `weights` W, D×T; `intercepts`, T; `shapes` r, T; `precisions` τ, D; `shares`, T
        (`bmlpl.topics.label_shares`).
    history : list of dict
        For each pass `epoch`, `log_posterior` (of online-em the mean of its estimates) and `seconds` since the start.

    Raises
    ------
    SettingsError
        For exact M-steps with so many features that no machine has room for them.
    NumericalError
        Where the log posterior stops being a finite number.
    ModelFolderError
        Where the checkpoint is damaged.
    """
    random = np.random.default_rng(settings.seed)
    resumed, keep = (checkpoints.begun, checkpoints.offer) if checkpoints else (None, None)
    labels = start.revealed(labels, settings.revealed, np.random.default_rng([settings.seed, 1]))
    with one_blas_thread(), np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        (N, K), D = labels.shape, coordinates.feature_count
        T = start.topic_count(settings, K)
        if resumed is not None:
            # Before anything is made as large as the settings of a stranger say.
            resumed.check_shape("parameters.weights", (D + 1, T))
            for name, rows in zip(LARGEST[settings.inference], (K, N), strict=False):
                resumed.check_shape(name, (rows, T))
        inference = INFERENCES[settings.inference](coordinates, labels, settings, random)
        run = _Run(inference, settings, random, after_pass)
        if resumed is not None:
            run.restore(resumed)
        with held() if keep else contextlib.nullcontext():
            run.go_on(progress, keep)
        parameters = inference.parameters(len(run.history))
    for name, value in parameters.items():
        if not all_finite(value):
            raise _lost(f"{name} is not finite", run.step)
    # Training leaves nothing else, but of what it goes on from not all can be known to be as it left it.
    if resumed is not None and not are_parameters(parameters, (D, K, T)):
        raise resumed.damaged()
    return parameters, run.history


class _Run:
    """An inference under way, pass by pass."""

    def __init__(self, inference, settings, random, after_pass):
        self.inference, self.settings, self.random, self.after_pass = inference, settings, random, after_pass
        self.history = []
        #: Of the pass under way: how many steps are done, and what they returned.
        self.done, self.estimates, self.seconds = 0, [], 0.0

    @property
    def step(self):
        """Steps done."""
        return len(self.history) * self.inference.steps_a_pass + self.done

    @property
    def steps(self):
        """Steps in all."""
        return self.settings.passes * self.inference.steps_a_pass

    def go_on(self, progress, keep):
        """Go on to the end; see `train_topics`."""
        with progress("train", total=self.steps, unit="step") as bar:
            if self.step:
                bar.update(self.step)
            while len(self.history) < self.settings.passes:
                began = time.perf_counter() - self.seconds
                while True:
                    try:
                        value = self.inference.step(len(self.history), self.done)
                    except NumericalError as error:
                        raise _lost(error, self.step) from error
                    if not np.isfinite(value):
                        raise _lost("the log posterior is not finite", self.step)
                    self.estimates.append(float(value))
                    self.done += 1
                    self.seconds = time.perf_counter() - began
                    shown = f"{len(self.history) + 1}/{self.settings.passes}"
                    bar.update(epoch=shown, log_posterior=f"{value:.6g}")
                    if self.done == self.inference.steps_a_pass:
                        break
                    if keep:
                        keep(self.state, False)
                self._end_pass()
                if keep:
                    keep(self.state, True)

    def _end_pass(self):
        self.history.append(
            {
                "epoch": len(self.history) + 1,
                "log_posterior": float(np.mean(self.estimates)),
                "seconds": round(self.seconds, 4),
            }
        )
        self.done, self.estimates = 0, []
        if self.after_pass:
            passes = len(self.history)
            self.after_pass(passes, lambda: self.inference.parameters(passes))

    def state(self):
        """Return what an inference of the same data with the same settings goes on from."""
        arrays = self.inference.moving()
        for name, value in arrays.items():
            if not all_finite(value):
                raise _lost(f"{name} is not finite", self.step)
        facts = {
            "step": self.step,
            "steps": self.steps,
            "done": self.done,
            "estimates": self.estimates,
            "seconds": self.seconds,
            "spent": 0.0,
            "history": self.history,
            "random": self.random.bit_generator.state,
        }
        return State(facts, arrays)

    def restore(self, checkpoint):
        """Take up where a state was left."""
        facts = checkpoint.facts
        try:
            self.history, self.done = facts["history"], facts["done"]
            self.estimates, self.seconds = facts["estimates"], facts["seconds"]
            whole = (
                is_history(self.history, "bmlpl")
                and len(self.history) <= self.settings.passes
                and type(self.done) is int
                and 0 <= self.done < (self.inference.steps_a_pass if len(self.history) < self.settings.passes else 1)
                and isinstance(self.estimates, list)
                and len(self.estimates) == self.done
                and all(map(is_number, self.estimates))
                and is_number(sum(map(abs, self.estimates)))
                and is_number(self.seconds, 0)
                and facts["step"] == self.step
                and facts["steps"] == self.steps
            )
            whole = whole and restore_random(self.random, facts["random"])
        except (AttributeError, KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
            raise checkpoint.damaged() from error
        if not whole:
            raise checkpoint.damaged()
        moving = self.inference.moving()
        checkpoint.fill(moving)
        # Else there is no distribution to draw from.
        for names, holds in ((POSITIVE, np.greater), (NOT_NEGATIVE, np.greater_equal)):
            if not all(holds(moving[name], 0).all() for name in names & moving.keys()):
                raise checkpoint.damaged()


def _lost(reason, steps):
    return NumericalError(f"after {steps} training steps: {reason}; try another --weighting or --precision")
