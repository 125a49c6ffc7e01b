"""The loop that turns a bound into a model."""

import contextlib
import math
import time
from typing import NamedTuple

import numpy as np

from xmlgp.errors import NumericalError
from xmlgp.linear_algebra.dense import all_finite
from xmlgp.mlgpf.model import MLGPF
from xmlgp.mlgpf.start import start
from xmlgp.runtime.interrupts import defer_signals
from xmlgp.runtime.progress import silent
from xmlgp.runtime.threads import one_blas_thread
from xmlgp.training.checkpoints import State, restore_random
from xmlgp.training.history import is_history, is_number
from xmlgp.training.minibatches import SAMPLERS, epoch_rows, make_batch
from xmlgp.training.optimisers import OPTIMISERS
from xmlgp.training.schedules import SCHEDULES, batch_size_of_epoch, usual_epochs

__all__ = ["BOUND_EVERY", "Diverged", "Verdict", "train"]

#: Steps from one evaluation of the bound to the next; its gradients alone are cheaper.
BOUND_EVERY = 10


class Verdict(NamedTuple):
    """What is found after an epoch: measures of the parameters by their names, and whether training ends here."""

    measures: dict
    stop: bool = False


class Diverged(NumericalError):
    """The numbers were lost in training.

    Parameters
    ----------
    reason : object
        What is no longer finite, or cannot be computed.
    steps : int
        Steps done; before the first one it is the start that is bad.
    rate : float, optional
        Learning rate.
    """

    def __init__(self, reason, steps, rate=None):
        advice = "try a lower --learning-rate or another --weighting"
        if not steps:
            advice = "try another --weighting, --lengthscale or --diagonal"
        super().__init__(f"after {steps} training steps: {reason}; {advice}")
        self.reason, self.steps, self.rate = reason, steps, rate


def train(
    coordinates, labels, inducing, settings, progress=silent, after_epoch=None, *, rate=None, keep=None, resumed=None
):
    """Maximise the bound of MLGPF and return its parameters.

    Parameters
    ----------
    coordinates : Coordinates
        Of the N training points.
    labels : csr_array, N×K
        Y.
    inducing : ndarray, M×R or M×D
        Start of A or Z.
    settings : MLGPFSettings
    progress : callable
        See `xmlgp.runtime.progress`.
    after_epoch : callable, optional
        Called as `after_epoch(epoch, parameters)`, epochs counted from 1; the time it takes is not training time. It
        returns None, or a `Verdict`: its measures, floats, join those of the epoch in the history and are shown with
        the progress, and where it says stop this epoch is the last.
    rate : float, optional
        Learning rate, where it is not that of the settings.
    keep : callable, optional
        Called after each step as `keep(state, epoch_ended)`, where `state()` returns what training goes on from
        (`State`); signals that end the process wait for it. It includes what `after_epoch` goes on from, which then has
        `state` and `restore`, like `EarlyStopping`.
    resumed : Checkpoint, optional
        With such a state.

    Returns
    -------
    parameters : dict of str to ndarray
        Of the last epoch.
    history : list of dict
        For each epoch done: `epoch`, `bound` (mean of its estimates), `seconds` since the start, the measures of
        its verdict, and `learning_rate` where it is not that of the settings.

    Raises
    ------
    Diverged
        Where the bound, a gradient or a parameter stops being a finite number.
    ModelFolderError
        Where the checkpoint is damaged.
    """
    random = np.random.default_rng(settings.seed)
    model = MLGPF(settings)
    # What overflows is not warned of on the way, but refused once it has reached a gradient or the bound.
    with one_blas_thread(), np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        if resumed is not None:
            # Before anything is made as large as the settings of a stranger say.
            resumed.check_shape("parameters.loadings", (labels.shape[1], settings.factors))
            if settings.posterior == "cholesky":
                resumed.check_shape("parameters.posterior.factor", (settings.factors, *2 * [len(inducing)]))
        try:
            parameters = start(model, coordinates, labels, inducing, random)
        except NumericalError as error:
            raise Diverged(error, 0) from error
        ascent = _Ascent(model, parameters, coordinates, labels, random, rate, after_epoch)
        if resumed is not None:
            ascent.restore(resumed)
        with defer_signals() if keep else contextlib.nullcontext():
            ascent.run(progress, keep)
    return parameters, ascent.history


class _Ascent:
    """A training under way: moves the parameters in place, epoch by epoch."""

    def __init__(self, model, parameters, coordinates, labels, random, rate, after_epoch):
        settings = model.settings
        self.model, self.parameters, self.coordinates, self.labels = model, parameters, coordinates, labels
        self.random, self.after_epoch = random, after_epoch
        self.optimiser = OPTIMISERS[settings.optimiser](
            {name: value for name, value in parameters.items() if name not in model.bound.fixed}, model.rates
        )
        self.usual_rate = settings.learning_rate or self.optimiser.usual_rate
        self.rate = rate or self.usual_rate
        count = labels.shape[0]
        epochs = settings.epochs or usual_epochs(count, settings.batch_size)
        first = settings.batch_size_first or settings.batch_size
        self.sizes = [batch_size_of_epoch(epoch, epochs, first, settings.batch_size) for epoch in range(epochs)]
        #: Minibatches of each epoch.
        self.counts = [-(-count // size) for size in self.sizes]
        self.history = []
        #: Of the epoch under way: its minibatches once drawn, how many are done, the estimates of the bound so far.
        self.batches, self.done, self.estimates = None, 0, []
        self.seconds, self.ended = 0.0, False

    @property
    def step(self):
        """Steps done."""
        return sum(self.counts[: len(self.history)]) + self.done

    def run(self, progress, keep):
        """Go on to the end; see `train`."""
        settings, total = self.model.settings, sum(self.counts)
        schedule, sampler = SCHEDULES[settings.schedule], SAMPLERS[settings.sampling](self.labels)
        own, shown = "label_weights.mean" in self.parameters, {}
        with progress("train", total=total, unit="step") as bar:
            if self.step:
                bar.update(self.step)
            while len(self.history) < len(self.counts) and not self.ended:
                began = time.perf_counter() - self.seconds
                if self.batches is None:
                    self.batches = epoch_rows(self.labels.shape[0], self.sizes[len(self.history)], self.random)
                shown |= {"epoch": f"{len(self.history) + 1}/{len(self.counts)}"}
                while True:
                    rows = self.batches[self.done]
                    batch = make_batch(
                        self.coordinates, self.labels, rows, settings.negatives, self.random, sampler, own
                    )
                    self._ascend(batch, self.rate * schedule(self.step / total))
                    self.done += 1
                    shown |= {"bound": f"{self.estimates[-1]:.5g}"}
                    bar.update(**shown)
                    self.seconds = time.perf_counter() - began
                    if self.done == len(self.batches):
                        break
                    if keep:
                        keep(self.state, False)
                shown |= self._end_epoch()
                if self.ended:
                    # The steps that are saved count as done, so the bar ends full.
                    bar.update(total - self.step, **shown)
                if keep:
                    keep(self.state, True)
        self._check_parameters()

    def _ascend(self, batch, rate):
        """Make one step."""
        value_needed = self.step % BOUND_EVERY == 0 or not self.estimates
        try:
            value, gradients = self.model.bound.value_and_gradients(self.parameters, batch, value_needed, for_step=True)
        except NumericalError as error:
            raise Diverged(error, self.step, self.rate) from error
        if value_needed:
            if not np.isfinite(value):
                raise Diverged(f"the bound is {value}", self.step, self.rate)
            self.estimates.append(float(value))
        self.optimiser.step(self.parameters, gradients, rate)

    def _end_epoch(self):
        """Add the epoch to the history; return the measures of its verdict, to be shown."""
        epoch = {
            "epoch": len(self.history) + 1,
            "bound": float(np.mean(self.estimates)),
            "seconds": round(self.seconds, 3),
        }
        if self.rate != self.usual_rate:
            epoch["learning_rate"] = self.rate
        self.history.append(epoch)
        self.batches, self.done, self.estimates = None, 0, []
        try:
            verdict = self.after_epoch and self.after_epoch(epoch["epoch"], self.parameters)
        except NumericalError as error:
            raise Diverged(error, self.step, self.rate) from error
        if not verdict:
            return {}
        epoch |= verdict.measures
        self.ended = verdict.stop
        return {name: f"{value:.5g}" for name, value in verdict.measures.items()}

    def _check_parameters(self):
        for name, value in self.parameters.items():
            if not all_finite(value):
                raise Diverged(f"{name} is not finite", self.step, self.rate)

    def state(self):
        """Return what a training of the same data with the same settings goes on from."""
        self._check_parameters()
        facts = {
            "step": self.step,
            "steps": sum(self.counts),
            "done": self.done,
            "estimates": self.estimates,
            "seconds": self.seconds,
            "ended": self.ended,
            "history": self.history,
            "learning_rate": self.rate,
            "random": self.random.bit_generator.state,
        }
        arrays = self._moving()
        if self.batches is not None:
            arrays["order"] = np.concatenate(self.batches)
        state = State(facts, arrays)
        return state.joined(self.after_epoch.state()) if self.after_epoch else state

    def _moving(self):
        """Return the arrays that training changes, by their names in a state."""
        arrays = {f"parameters.{name}": self.parameters[name] for name in self.parameters}
        fixed = {f"parameters.{name}" for name in self.model.bound.fixed}
        arrays = {name: value for name, value in arrays.items() if name not in fixed}
        return arrays | {f"optimiser.{name}": value for name, value in self.optimiser.state.items()}

    def restore(self, checkpoint):
        """Take up where a state was left."""
        facts, order = checkpoint.facts, np.empty(self.labels.shape[0], np.int64)
        try:
            self.history, self.done, self.ended = facts["history"], facts["done"], facts["ended"]
            self.estimates, self.seconds, self.rate = facts["estimates"], facts["seconds"], facts["learning_rate"]
            whole = (
                is_history(self.history, "mlgpf")
                and type(self.done) is int
                and 0 <= self.done < [*self.counts, 1][len(self.history)]
                and type(self.ended) is bool
                and self.ended <= bool(self.history)
                and isinstance(self.estimates, list)
                and all(map(is_number, self.estimates))
                and is_number(sum(map(abs, self.estimates)))
                and bool(self.done) == bool(self.estimates)
                and is_number(self.seconds, 0)
                and is_number(self.rate, math.ulp(0))
                and facts["step"] == self.step
                and facts["steps"] == sum(self.counts)
            )
            whole = whole and restore_random(self.random, facts["random"])
        except (AttributeError, KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
            raise checkpoint.damaged() from error
        if not whole:
            raise checkpoint.damaged()
        self.optimiser.step_count = self.step
        checkpoint.fill(self._moving())
        if self.done:
            checkpoint.fill({"order": order})
            if not np.array_equal(np.sort(order), np.arange(len(order))):
                raise checkpoint.damaged()
            self.batches = np.array_split(order, self.counts[len(self.history)])
        if self.after_epoch:
            self.after_epoch.restore(checkpoint, self.parameters)
