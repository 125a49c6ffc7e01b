"""The loop that turns a bound into a model."""

import time
from typing import NamedTuple

import numpy as np

from xmlgp.errors import NumericalError
from xmlgp.gp.mlgpf import MLGPF
from xmlgp.progress import silent
from xmlgp.threads import one_blas_thread
from xmlgp.training.minibatches import SAMPLERS, epoch_rows, make_batch
from xmlgp.training.optimisers import OPTIMISERS
from xmlgp.training.schedules import SCHEDULES, batch_size_of_epoch, usual_epochs
from xmlgp.training.start import start

__all__ = ["BOUND_EVERY", "Verdict", "train"]

#: Steps from one evaluation of the bound to the next; its gradients alone are cheaper.
BOUND_EVERY = 10


class Verdict(NamedTuple):
    """What is found after an epoch: measures of the parameters by their names, and whether training ends here."""

    measures: dict
    stop: bool = False


def train(coordinates, labels, inducing, settings, progress=silent, after_epoch=None):
    """Maximise the bound of MLGPF and return its parameters.

    Parameters
    ----------
    coordinates : Coordinates
        Of the N training points.
    labels : csr_array, N×K
        Y.
    inducing : ndarray, M×R or M×D
        Start of A or Z.
    settings : Settings
    progress : callable
        See `xmlgp.progress`.
    after_epoch : callable, optional
        Called as `after_epoch(epoch, parameters)`, epochs counted from 1; the time it takes is not training time. It
        returns None, or a `Verdict`: its measures, floats, join those of the epoch in the history and are shown with
        the progress, and where it says stop this epoch is the last.

    Returns
    -------
    parameters : dict of str to ndarray
        Of the last epoch.
    history : list of dict
        For each epoch done: `epoch`, `bound` (mean of its estimates), `seconds` since the start, and the measures of
        its verdict.

    Raises
    ------
    NumericalError
        Where the bound or a parameter stops being a finite number.
    """
    random = np.random.default_rng(settings.seed)
    model = MLGPF(settings)
    # What overflows is not warned of on the way, but refused once it has reached the bound or the parameters.
    with one_blas_thread(), np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        try:
            parameters = start(model, coordinates, labels, inducing, random)
        except NumericalError as error:
            raise _diverged(error, 0) from error
        history, step = _ascend(model, parameters, coordinates, labels, random, progress, after_epoch)
    for name, value in parameters.items():
        if not np.isfinite(value).all():
            raise _diverged(f"{name} is not finite", step)
    return parameters, history


def _ascend(model, parameters, coordinates, labels, random, progress, after_epoch):
    """Move the parameters in place, epoch by epoch; return the history and the number of steps."""
    settings = model.settings
    optimiser = OPTIMISERS[settings.optimiser](
        {name: value for name, value in parameters.items() if name not in model.bound.fixed}, model.rates
    )
    rate = settings.learning_rate or optimiser.usual_rate
    schedule = SCHEDULES[settings.schedule]
    first = settings.batch_size_first or settings.batch_size
    count = labels.shape[0]
    epochs = settings.epochs or usual_epochs(count, settings.batch_size)
    sizes = [batch_size_of_epoch(epoch, epochs, first, settings.batch_size) for epoch in range(epochs)]
    total = sum(-(-count // size) for size in sizes)
    sampler = SAMPLERS[settings.sampling](labels)
    history, step, seconds, shown = [], 0, 0.0, {}
    with progress("train", total=total, unit="step") as bar:
        for epoch, size in enumerate(sizes):
            estimates, began = [], time.perf_counter()
            for rows in epoch_rows(count, size, random):
                batch = make_batch(
                    coordinates, labels, rows, settings.negatives, random, sampler, "label_weights.mean" in parameters
                )
                value_needed = step % BOUND_EVERY == 0 or not estimates
                try:
                    value, gradients = model.bound.value_and_gradients(parameters, batch, value_needed, for_step=True)
                except NumericalError as error:
                    raise _diverged(error, step) from error
                if value_needed:
                    if not np.isfinite(value):
                        raise _diverged(f"the bound is {value}", step)
                    estimates.append(value)
                optimiser.step(parameters, gradients, rate * schedule(step / total))
                step += 1
                shown |= {"epoch": f"{epoch + 1}/{epochs}", "bound": f"{estimates[-1]:.5g}"}
                bar.update(**shown)
            seconds += time.perf_counter() - began
            history.append({"epoch": epoch + 1, "bound": float(np.mean(estimates)), "seconds": round(seconds, 3)})
            try:
                verdict = after_epoch and after_epoch(epoch + 1, parameters)
            except NumericalError as error:
                raise _diverged(error, step) from error
            if verdict:
                history[-1] |= verdict.measures
                shown |= {name: f"{value:.5g}" for name, value in verdict.measures.items()}
                if verdict.stop:
                    # The steps that are saved count as done, so the bar ends full.
                    bar.update(total - step, **shown)
                    break
    return history, step


def _diverged(reason, steps):
    """Return the error for numbers that are no longer finite, with what to try: before any step the start is bad."""
    advice = "try a lower --learning-rate" if steps else "try another --weighting, --lengthscale or --diagonal"
    return NumericalError(f"after {steps} training steps: {reason}; {advice}")
