"""A cell of GPC: a training that the clock ends, measured on the test points while it is under way."""

import dataclasses
import math
from functools import partial

import numpy as np

from xmlgp.errors import NumericalError
from xmlgp.experiments.full_batch import FullBatch
from xmlgp.experiments.scored import stacked
from xmlgp.experiments.watch import Watch
from xmlgp.gp.expectations import Quadrature
from xmlgp.gp.inner_products import Points, Products
from xmlgp.gpc.model import GPC
from xmlgp.gpc.predictor import GPCPredictor
from xmlgp.gpc.train import INFERENCES
from xmlgp.metrics.binary import evaluate_binary
from xmlgp.runtime.threads import one_blas_thread, run_parallel

__all__ = ["quadrature_bound", "run_gpc"]

#: Share of a cell's seconds that each learning rate is tried for.
PILOT = 0.25

#: Points of which the bound is computed at a time, each such block by one core.
BLOCK = 4096

#: Points and inducing inputs of the training that goes before, for what is compiled, loaded or begun once.
WARM_UP = 64, 8


def run_gpc(cell, preprocessed, coordinates, data, test, propensity):
    """Return what a cell keeps: measures on the test points, in the end and as history, and what the pilots came to.

    Parameters
    ----------
    cell : Cell
    preprocessed : Preprocessed
    coordinates : Coordinates
        Of the training points.
    data, test : Dataset
    propensity : None
        Of one label there is none.

    Raises
    ------
    NumericalError
        Where the numbers are lost before anything could be measured.
    """
    settings, positive = cell.settings, np.diff(data.labels.indptr) > 0

    def measure(parameters):
        bound = quadrature_bound(parameters, coordinates, positive, settings.nodes)
        if not np.isfinite(bound):
            raise NumericalError("the bound is not finite")
        blocks = GPCPredictor(settings, preprocessed, parameters).top(test.features, None, "probability")
        return evaluate_binary(stacked(blocks), test.labels) | {"bound": bound}

    def trained(settings, watch):
        return _train(cell.full_batch, (coordinates, positive, preprocessed.inducing, settings), watch)

    with one_blas_thread(), np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        points, inducing = WARM_UP
        some = np.arange(min(points, data.N))
        small = coordinates.select(some), positive[some], preprocessed.inducing[:inducing], settings
        _train(cell.full_batch, small, Watch(0.0, lambda parameters: {}))
        pilots = []
        for rate in cell.learning_rates:
            watch = Watch(PILOT * cell.seconds, measure, growth=math.inf)
            ended = trained(dataclasses.replace(settings, learning_rate=rate), watch)
            pilots.append({"learning_rate": rate, "ended": ended} | (watch.curve[-1] if ended == "time" else {}))
        if pilots:
            # What the numbers were not lost with, to where it came.
            best = max(pilots, key=lambda pilot: pilot.get("bound", -math.inf))
            settings = dataclasses.replace(settings, learning_rate=best["learning_rate"])
        watch = Watch(cell.seconds, measure)
        ended = trained(settings, watch)
    if not watch.curve:
        raise NumericalError(f"{cell.dataset}, {settings.inference}: {ended}")
    last = watch.curve[-1]
    return {
        "settings": settings.mapping(),
        "full_batch": cell.full_batch,
        "sizes": {"n": data.N, "n_test": test.N, "d": data.D, "m": len(preprocessed.inducing)},
        "seconds_allowed": cell.seconds,
        "measures": {name: value for name, value in last.items() if name not in ("epoch", "seconds", "bound")},
        "ended": ended,
        "pilots": pilots,
        "history": watch.curve,
        "epoch_s": last["seconds"] / (last["epoch"] or 1),
    }


def quadrature_bound(parameters, coordinates, positive, nodes):
    """Return the bound of section 1 by quadrature, by which all kinds of inference can be compared ([I] (11)).

    Parameters
    ----------
    parameters : mapping of str to ndarray
        As `GPC.parameter_names` lists them.
    coordinates : Coordinates
        Of the N training points, in double precision.
    positive : ndarray of bool, N
    nodes : int
        Quadrature nodes.
    """
    model, expectations = GPC(), Quadrature(nodes)
    predictive = model.predictive(parameters)
    expected = np.empty(len(positive))

    def fill(rows):
        mean, variance = predictive(Points(*coordinates.rows(rows)))
        expected[rows] = mean * positive[rows] - expectations.softplus(mean, variance)

    run_parallel(partial(fill, slice(start, start + BLOCK)) for start in range(0, len(positive), BLOCK))
    prior, _ = model.kernel.between_inducing(parameters)
    _, kl, _ = model.posterior.forward(parameters, Products(np.empty((0, len(prior))), prior, np.empty(0)))
    return float(expected.sum() - kl)


def _train(full_batch, problem, watch):
    """Train until the time is up, or nothing is gained any more, or the numbers are lost; return which, in words.

    Parameters
    ----------
    full_batch : bool
        Whether by L-BFGS-B on the bound with q(u) left free, rather than by the settings' inference.
    problem : tuple
        Coordinates, which points are positive, Z and the settings.
    watch : Watch
    """
    try:
        if full_batch:
            return FullBatch(*problem).maximise(watch)
        return _step_by_step(INFERENCES[problem[-1].inference](*problem), watch)
    except NumericalError as error:
        return f"numbers lost: {error}"


class _TimeIsUp(Exception):
    """Ends an iteration in its midst."""


def _step_by_step(inference, watch):
    steps, over = 0, False

    def look(passes):
        return watch.lap(passes, partial(inference.parameters, math.ceil(passes)))

    def within_iteration():
        # An iteration of vi-jj-full can take longer than all the others' trainings.
        within_iteration.evaluations += 1
        if look(steps + 1 - 1 / (1 + within_iteration.evaluations)):
            raise _TimeIsUp

    inference.after_evaluation = within_iteration
    while not (over or inference.converged):
        within_iteration.evaluations = 0
        try:
            value = inference.step(*divmod(steps, inference.steps_a_pass))
        except _TimeIsUp:
            return "time"
        if not np.isfinite(value):
            raise NumericalError("the bound is not finite")
        steps += 1
        passes = steps / inference.steps_a_pass
        over = look(passes)
    watch.finish(passes, partial(inference.parameters, math.ceil(passes)))
    return "time" if over else "converged"
