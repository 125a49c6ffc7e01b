"""Cells of GPC: a training run that ends after a given time and is measured on the test points while it runs."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_array

from benchmarks.papers.cells import Cell, CellData
from xmlgp.features.inputs import Inputs
from xmlgp.gp.expectations import Quadrature
from xmlgp.gp.inner_products import Covariances
from xmlgp.metrics.binary import binary_statistics
from xmlgp.metrics.statistics import values
from xmlgp.models.gpc import record
from xmlgp.models.gpc.inference import JJ, SVIAdaDelta
from xmlgp.models.gpc.model import KERNEL, POSTERIOR, Predictive, uncollapsed_bound
from xmlgp.models.gpc.predictor import GPCPredictor
from xmlgp.models.gpc.settings import GPCSettings
from xmlgp.models.model import Model
from xmlgp.prediction.scores_file import Scores
from xmlgp.runtime.errors import CatalogueError, NumericalError
from xmlgp.runtime.threads import one_blas_thread, run_parallel
from xmlgp.training.minibatches import make_batch

__all__ = ["FullBatch", "GPCCell", "Stopwatch", "TrainingProblem", "quadrature_bound"]

#: Share of a cell's seconds that each learning rate is tried for.
PILOT_SHARE = 0.25

#: Points of which one core computes the bound at a time.
BLOCK = 4096

#: A limit of iterations and of evaluations that is never reached: time ends the training, or convergence.
NO_LIMIT = 10**9

#: Least ratio of the seconds of two successive measurements: even steps on a logarithmic axis.
GROWTH = 1.1

#: Points of a run before the measured ones, so that loading and compiling are not measured.
WARM_UP_POINTS = 64

#: Inducing inputs of that run.
WARM_UP_INDUCING = 8


@dataclasses.dataclass(frozen=True)
class GPCCell(Cell[GPCSettings]):
    """A cell of Gaussian-process classification."""

    #: Training time after which training ends.
    seconds: float = 0.0

    #: Candidates; short training runs choose one. Empty: the learning rate in the settings.
    learning_rates: tuple[float, ...] = ()

    #: Whether L-BFGS-B maximises the bound over all points at once (`FullBatch`), instead of the settings' inference.
    full_batch: bool = False

    model: ClassVar[Model] = record.GPC
    defaults: ClassVar[dict[str, object]] = {"seconds": {}, "learning_rates": {}, "full_batch": {}}
    in_digest: ClassVar[tuple[str, ...]] = ("held_out", "seconds", "learning_rates", "full_batch")

    @classmethod
    def options(cls, spec: Mapping[str, Any], dataset: str, method: str, epochs_scale: float) -> dict[str, Any]:
        """Return the keyword arguments that only cells of this model take; see `Cell.options`."""
        if dataset not in spec["seconds"]:
            raise CatalogueError(f"seconds must have a number for each data set, but not for {dataset}")
        return {
            "seconds": epochs_scale * spec["seconds"][dataset],
            "learning_rates": tuple(spec["learning_rates"].get(method, ())),
            "full_batch": method in spec["full_batch"],
        }

    @classmethod
    def columns(cls, results: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return the history and how training ended; see `Cell.columns`."""
        names = ("sizes", "full_batch", "seconds_allowed", "ended", "pilots", "history")
        return {name: results[0][name] for name in names}

    def run(self, data: CellData) -> dict[str, Any]:
        """Choose the learning rate, train and measure; see `Cell.run`."""
        train, test, preprocessed, coordinates, _ = data
        settings = self.settings
        positive = np.diff(train.labels.indptr) > 0

        def measure(parameters: Mapping[str, NDArray[Any]]) -> dict[str, float]:
            bound = quadrature_bound(parameters, coordinates, positive, settings.nodes)
            if not np.isfinite(bound):
                raise NumericalError("the bound is not finite")
            blocks = GPCPredictor(settings, preprocessed, parameters, train.D).top(test.features, None, "probability")
            return values(binary_statistics(Scores.stack(list(blocks)).matrix, test.labels)) | {"bound": bound}

        def train_with(settings: GPCSettings, stopwatch: Stopwatch) -> str:
            return _train(
                self.full_batch, TrainingProblem(coordinates, positive, preprocessed.inducing, settings), stopwatch
            )

        with one_blas_thread(), np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            rows = np.arange(min(WARM_UP_POINTS, train.N))
            inducing = preprocessed.inducing[:WARM_UP_INDUCING]
            small = TrainingProblem(coordinates.select(rows), positive[rows], inducing, settings)
            _train(self.full_batch, small, Stopwatch(0.0, lambda parameters: {}))
            pilots = []
            for rate in self.learning_rates:
                stopwatch = Stopwatch(PILOT_SHARE * self.seconds, measure, growth=math.inf)
                ended = train_with(dataclasses.replace(settings, learning_rate=rate), stopwatch)
                last = stopwatch.curve[-1] if ended == "time" else {}
                pilots.append({"learning_rate": rate, "ended": ended} | last)
            if pilots:
                best = max(pilots, key=lambda pilot: pilot.get("bound", -math.inf))
                settings = dataclasses.replace(settings, learning_rate=best["learning_rate"])
            stopwatch = Stopwatch(self.seconds, measure)
            ended = train_with(settings, stopwatch)
        if not stopwatch.curve:
            raise NumericalError(f"{self.dataset}, {settings.inference}: {ended}")
        last = stopwatch.curve[-1]
        return {
            "settings": settings.mapping(),
            "full_batch": self.full_batch,
            "sizes": {"n": train.N, "n_test": test.N, "d": train.D, "m": len(preprocessed.inducing)},
            "seconds_allowed": self.seconds,
            "measures": {name: value for name, value in last.items() if name not in ("epoch", "seconds", "bound")},
            "ended": ended,
            "pilots": pilots,
            "history": stopwatch.curve,
            "epoch_s": last["seconds"] / (last["epoch"] or 1),
        }


class TrainingProblem(NamedTuple):
    """The arguments of an inference method of GPC: points, whether each is positive, Z, M×D, and settings."""

    coordinates: Inputs
    positive: NDArray[np.bool_]
    inducing: NDArray[np.floating]
    settings: GPCSettings


class Stopwatch:
    """Time a training run and measure its parameters at intervals, without counting the time of measuring.

    Training must end after `limit` seconds. The curve has the `epoch`, the `seconds` of training until then and the
    measures of each measurement; two successive ones are apart by a ratio of seconds of at least `growth`.
    """

    def __init__(
        self, limit: float, measure: Callable[[Mapping[str, NDArray[Any]]], dict[str, float]], growth: float = GROWTH
    ) -> None:
        self.curve: list[dict[str, float]] = []
        self._limit = limit
        self._measure = measure
        self._growth = growth
        self._due = 0.0
        self._seconds = 0.0
        self._start = time.perf_counter()

    def lap(self, epoch: float, parameters: Callable[[], Mapping[str, NDArray[Any]]]) -> bool:
        """Record the time after a step and return whether the time limit is reached.

        The first lap is measured, and the lap that reaches the time limit.
        """
        now = time.perf_counter()
        self._seconds = now - self._start
        over = self._seconds >= self._limit
        if over or self._seconds >= self._due:
            self.finish(epoch, parameters)
            self._due = self._seconds * self._growth
            self._start += time.perf_counter() - now
        return over

    def finish(self, epoch: float, parameters: Callable[[], Mapping[str, NDArray[Any]]]) -> None:
        """Measure the last lap if it has not been measured."""
        if not self.curve or self.curve[-1]["epoch"] != epoch:
            self.curve.append({"epoch": epoch, "seconds": self._seconds} | self._measure(parameters()))


class FullBatch:
    """The bound and the start of svi-AdaDelta, maximised by SciPy's L-BFGS-B over m, L and θ and all points at once.

    Source: [I] (11), and its section on experiments, where it is the worst of the methods.
    """

    def __init__(
        self, coordinates: Inputs, positive: NDArray[np.bool_], inducing: NDArray[np.floating], settings: GPCSettings
    ) -> None:
        self._bound, start = uncollapsed_bound(inducing, settings.nodes)
        self._fixed = {name: start.pop(name) for name in ("inducing", "loadings", "bias")}
        self._shapes = {name: value.shape for name, value in start.items()}
        self.start = self._packed(start)
        labels = csr_array(positive[:, None])
        blocks = np.array_split(np.arange(len(positive)), -(-len(positive) // BLOCK))
        # Each block is scaled to all points, so the mean over the blocks is the bound.
        self._batches = [make_batch(coordinates, labels, rows)._replace(scale=len(blocks)) for rows in blocks]

    def value_and_gradient(self, x: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Return the bound and its gradient."""
        parameters = self._fixed | self._unpacked(x)
        results = run_parallel(partial(self._bound.value_and_gradients, parameters, batch) for batch in self._batches)
        value = float(np.mean([value for value, _ in results]))
        if not np.isfinite(value):
            raise NumericalError("the bound is not finite")
        return value, np.mean([self._packed(gradients) for _, gradients in results], axis=0)

    def parameters(self, x: NDArray[np.float64]) -> dict[str, NDArray[np.floating]]:
        """Return the parameters of the model by name."""
        return {"inducing": self._fixed["inducing"]} | self._unpacked(x)

    def maximise(self, stopwatch: Stopwatch) -> str:
        """Maximise the bound until the time limit or until it converges; return which, "time" or "converged"."""
        iterations = 0
        current = self.start

        def negative(x: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            value, gradient = self.value_and_gradient(x)
            return -value, -gradient

        def after_iteration(x: NDArray[np.float64]) -> None:
            nonlocal iterations, current
            iterations = iterations + 1
            current = x.copy()
            if stopwatch.lap(iterations, lambda: self.parameters(current)):
                raise _TimeIsUp

        try:
            options = {"maxiter": NO_LIMIT, "maxfun": NO_LIMIT}
            minimize(negative, self.start, jac=True, method="L-BFGS-B", callback=after_iteration, options=options)
            ended = "converged"
        except _TimeIsUp:
            ended = "time"
        stopwatch.finish(iterations, lambda: self.parameters(current))
        return ended

    def _packed(self, arrays: Mapping[str, NDArray[np.floating]]) -> NDArray[np.float64]:
        """Return arrays as one vector. Elements above the diagonal of L are zero, and so are their gradients."""
        return np.concatenate([arrays[name].ravel() for name in self._shapes])

    def _unpacked(self, x: NDArray[np.float64]) -> dict[str, NDArray[np.floating]]:
        """Return the arrays of a vector."""
        vectors = np.split(x, np.cumsum([math.prod(shape) for shape in self._shapes.values()])[:-1])
        return {name: v.reshape(shape) for (name, shape), v in zip(self._shapes.items(), vectors, strict=True)}


def quadrature_bound(
    parameters: Mapping[str, NDArray[Any]], coordinates: Inputs, positive: NDArray[np.bool_], nodes: int
) -> float:
    """Return the bound with the expectations by quadrature, Σ_i E_q[log p(y_i | f_i)] − KL(q(u) ‖ p(u)).

    All kinds of inference can be compared by it. Source: [I] (11).
    """
    expectations = Quadrature(nodes)
    predictive = Predictive(parameters)
    expected = np.empty(len(positive))

    def fill(rows: slice) -> None:
        mean, variance = predictive(coordinates.rows(rows))
        expected[rows] = mean * positive[rows] - expectations.expected_softplus(mean, variance)

    run_parallel(partial(fill, slice(start, start + BLOCK)) for start in range(0, len(positive), BLOCK))
    prior, _ = KERNEL.forward_inducing(parameters)
    prepared = POSTERIOR.prepare(parameters, prior)
    _, kl, _ = POSTERIOR.forward(prepared, Covariances(np.empty((0, len(prior))), prior, np.empty(0)))
    return float(expected.sum() - kl)


def _train(full_batch: bool, problem: TrainingProblem, stopwatch: Stopwatch) -> str:
    """Train until the time limit, convergence or divergence; return which of them, in words."""
    try:
        if full_batch:
            return FullBatch(*problem).maximise(stopwatch)
        return _step_by_step(problem.settings.method.load()(*problem), stopwatch)
    except NumericalError as error:
        return f"diverged: {error}"


def _step_by_step(inference: JJ | SVIAdaDelta, stopwatch: Stopwatch) -> str:
    steps = 0
    evaluations = 0
    over = False

    def look(passes: float) -> bool:
        return stopwatch.lap(passes, partial(inference.parameters, math.ceil(passes)))

    def within_iteration() -> None:
        # One iteration of vi-jj-full can take longer than a training by another method.
        nonlocal evaluations
        evaluations += 1
        if look(steps + 1 - 1 / (1 + evaluations)):
            raise _TimeIsUp

    if isinstance(inference, JJ):
        inference.after_evaluation = within_iteration
    while not (over or inference.converged):
        evaluations = 0
        try:
            value = inference.step(*divmod(steps, inference.steps_per_epoch))
        except _TimeIsUp:
            return "time"
        if not np.isfinite(value):
            raise NumericalError("the bound is not finite")
        steps += 1
        passes = steps / inference.steps_per_epoch
        over = look(passes)
    stopwatch.finish(passes, partial(inference.parameters, math.ceil(passes)))
    return "time" if over else "converged"


class _TimeIsUp(Exception):
    """Ends an iteration, or SciPy's loop, before it is complete."""
