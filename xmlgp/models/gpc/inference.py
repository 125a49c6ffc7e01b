"""The inference methods of GPC: four with q(u) in closed form ([I] algorithm 1), and AdaDelta.

The four alternate closed-form updates and L-BFGS-B, except `Full`, which uses L-BFGS-B alone. AdaDelta over minibatches
is the baseline of [I].
"""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import Bounds, minimize
from scipy.sparse import csr_array

from xmlgp.features.inputs import Inputs
from xmlgp.gp.expectations import JaakkolaJordan, Quadrature, Taylor
from xmlgp.gp.kernels import NOISE_VARIANCE
from xmlgp.models.gpc import model
from xmlgp.models.gpc.collapsed import (
    CollapsedBound,
    Optimum,
    PointMoments,
    optimal_tangent_points,
    tangent_point_gradient,
)
from xmlgp.models.gpc.settings import GPCSettings
from xmlgp.training.inference import Inference
from xmlgp.training.minibatches import SeededMinibatches, make_batch
from xmlgp.training.optimisers import AdaDelta

__all__ = ["Full", "Hybrid", "JJ", "SVIAdaDelta", "TaylorExpansion"]

#: Closed-form updates of (ξ, û, Ŝ) in each iteration ([I] section 2).
UPDATES = 3

#: Evaluations of the bound by L-BFGS-B in each iteration ([I] section 2).
EVALUATIONS = 5

#: Evaluations of the bound in each iteration of vi-JJ-full. L-BFGS-B starts anew in each iteration, so that training
#: can be resumed between them without its estimate of the curvature.
FULL_EVALUATIONS = 50

#: An iteration that raises the bound by less than this for each point is the last.
TOLERANCE = 1e-4

#: Smallest noise variance: with less, K_Z is so ill-conditioned that rounding errors mislead L-BFGS-B.
MIN_NOISE_VARIANCE = 1e-6

#: Largest variance of the SE kernel: if a plane separates the classes, the bound rises without limit in variance and
#: lengthscale, until rounding errors dominate the moments of q(f_i).
MAX_VARIANCE = 1e3

#: Largest lengthscale, as a multiple of the initial one: beyond it the kernel is constant but for rounding errors.
MAX_LENGTHSCALE = 1e3

#: Share of the bound's magnitude that L-BFGS-B on θ with Taylor expansions may lose in an iteration. Near the end of
#: training an iteration gains little.
MAX_LOSS = 0.01

#: A change of θ that loses more is halved, at most this many times; the last time it is undone instead.
HALVINGS = 5

#: Number of consecutive iterations with Taylor expansions that do not raise the bound, after which training ends.
PATIENCE = 3


class JJ(Inference):
    """vi-JJ: closed-form updates of ξ, û and Ŝ, then L-BFGS-B on θ, in each iteration.

    The tangent points t are ξ here. The class is the base of the other methods with q(u) in closed form.
    `after_evaluation` is called after each evaluation of the collapsed bound F by L-BFGS-B; `parameters` returns the
    best so far then.
    """

    advice = "try another inference"
    advice_at_start = "check the scale of the features"
    expectations: JaakkolaJordan | Taylor = JaakkolaJordan()
    #: Whether L-BFGS-B changes the tangent points as well.
    ascends_tangent_points = False

    def __init__(
        self, coordinates: Inputs, positive: NDArray[np.bool_], inducing: ArrayLike, settings: GPCSettings
    ) -> None:
        self._fixed = model.initial_parameters(inducing)
        self._names = model.KERNEL.parameter_names()
        self._positive = positive
        self._quadrature = Quadrature(settings.nodes)
        theta = np.array([float(self._fixed.pop(name)) for name in self._names])
        self._max_log_lengthscale = theta[self._names.index("kernel.se.log_lengthscale")] + np.log(MAX_LENGTHSCALE)
        #: θ, the logarithms of the hyperparameters, then the tangent points t; the next two attributes are views.
        self._state = np.concatenate([theta, np.empty(len(positive))])
        self._theta, self._tangent_points = self._split(self._state)
        self._collapsed = CollapsedBound(coordinates, positive, self.expectations)
        self._start(np.sqrt(model.prior_variance(self._parameters(theta))))
        #: The optimal q(u) for θ and t, or None if it has to be computed; see `_current_optimum`.
        self._optimum: Optimum | None = None
        self.epochs = settings.passes
        self.after_evaluation: Callable[[], None] = lambda: None

    def _start(self, std: NDArray[np.floating]) -> None:
        """Set the initial tangent points, given the prior standard deviations of f_i."""
        # Optimal for q(u) = p(u).
        self._tangent_points[:] = std

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that steps change, by name."""
        return {"hyperparameters": self._theta, "tangent_points": self._tangent_points}

    def parameters(self, epochs: int) -> dict[str, NDArray[Any]]:
        """Return the parameters of the model, by name."""
        return self._parameters(self._theta) | self._current_optimum().posterior()

    def step(self, epoch: int, done: int) -> float:
        """Make one iteration; return the bound of its q(u) and θ, by quadrature."""
        before = self._current_optimum().value
        self._iterate()
        self.converged = abs(self._current_optimum().value - before) < TOLERANCE * len(self._tangent_points)
        return self._bound()

    def _split(self, state: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return views of θ and t."""
        return state[: len(self._names)], state[len(self._names) :]

    def _optimum_at(self, state: NDArray[np.float64]) -> Optimum:
        """Return the optimal q(u) for the θ and t in a state."""
        theta, tangent_points = self._split(state)
        return self._collapsed.optimum(self._parameters(theta), tangent_points)

    def _parameters(self, theta: NDArray[np.float64]) -> dict[str, NDArray[Any]]:
        """Return the parameters of the kernel and the inducing inputs, by name."""
        return self._fixed | {name: np.array(value) for name, value in zip(self._names, theta, strict=True)}

    def _current_optimum(self) -> Optimum:
        """Return the optimal q(u) for the current θ and t."""
        if self._optimum is None:
            self._optimum = self._optimum_at(self._state)
        return self._optimum

    def _bound(self) -> float:
        """Return the bound at the current θ and its optimal q(u), by quadrature."""
        return self._current_optimum().bound(self._positive, self._quadrature)

    def _update(self) -> None:
        """Set t to the optimum for q(u), then q(u) to the optimum for t."""
        self._tangent_points[:] = self._next_tangent_points(self._current_optimum().moments)
        self._optimum = None

    def _next_tangent_points(self, moments: PointMoments) -> NDArray[np.float64]:
        """Return the tangent points that follow from the moments of q(f_i)."""
        return optimal_tangent_points(moments)

    def _iterate(self) -> None:
        """Make one iteration."""
        for _ in range(UPDATES):
            self._update()
        self._ascend(EVALUATIONS)

    def _ascend(self, evaluations: int) -> None:
        """Maximise F by L-BFGS-B over θ, or θ and t, from the current values; keep the best values evaluated."""
        start = (self._state if self.ascends_tangent_points else self._theta).copy()
        at_start = self._current_optimum()
        values: list[float] = []

        def negative_bound(x: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            # L-BFGS-B evaluates the start first.
            optimum = self._optimum_at(np.concatenate([x, self._state[len(x) :]])) if values else at_start
            gradients = optimum.gradients()
            gradient = np.array([gradients[name] for name in self._names])
            if self.ascends_tangent_points:
                _, tangent_points = self._split(x)
                slopes = self._collapsed.slope_and_curvature(tangent_points)
                gradient = np.concatenate([gradient, tangent_point_gradient(tangent_points, optimum.moments, *slopes)])
            if optimum.value > max(values, default=-np.inf):
                self._state[: len(x)] = x
                self._optimum = optimum
            values.append(optimum.value)
            self.after_evaluation()
            return -optimum.value, -gradient

        # t is not limited to be positive: the bound is an even function of it and flat at zero, where L-BFGS-B would
        # stay. Each part of θ is limited on one side at most: if all were limited on both sides, SciPy's first step
        # would be as long as the gradient.
        lower = np.full(len(start), -np.inf)
        upper = np.full(len(start), np.inf)
        lower[self._names.index(NOISE_VARIANCE)] = np.log(MIN_NOISE_VARIANCE)
        upper[self._names.index("kernel.se.log_variance")] = np.log(MAX_VARIANCE)
        upper[self._names.index("kernel.se.log_lengthscale")] = self._max_log_lengthscale
        options = {"maxfun": evaluations, "maxiter": evaluations}
        minimize(negative_bound, start, jac=True, method="L-BFGS-B", bounds=Bounds(lower, upper), options=options)


class TaylorExpansion(JJ):
    """vi-Taylor: as vi-JJ, with Taylor expansions around the means of q(f_i) in place of bounds.

    F is then an approximation that is good near those means. A change of θ by L-BFGS-B is shortened if the bound falls
    with it by more than `MAX_LOSS`. The maximum of F is not that of the bound, which can fall slowly on the way there:
    θ and t of the highest bound are kept, and training ends when the bound has not risen for `PATIENCE` iterations.
    """

    expectations = Taylor()

    def _start(self, std: NDArray[np.floating]) -> None:
        self._tangent_points[:] = 0
        self._kept = self._state.copy()
        #: The highest bound, and the number of iterations since it last rose by more than the tolerance.
        self._record = np.array([-sys.float_info.max, 0.0])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that steps change, by name."""
        theta, tangent_points = self._split(self._kept)
        kept = {"kept.hyperparameters": theta, "kept.tangent_points": tangent_points}
        return super().arrays() | kept | {"record": self._record}

    def parameters(self, epochs: int) -> dict[str, NDArray[Any]]:
        """Return the parameters with the highest bound so far."""
        is_current = np.array_equal(self._kept, self._state)
        optimum = self._current_optimum() if is_current else self._optimum_at(self._kept)
        return self._parameters(self._split(self._kept)[0]) | optimum.posterior()

    def step(self, epoch: int, done: int) -> float:
        """Make one iteration; return the highest bound so far, by quadrature."""
        self._iterate()
        bound = self._bound()
        highest, waited = self._record.tolist()
        has_risen = bound > highest + TOLERANCE * len(self._tangent_points)
        waited = 0 if has_risen else waited + 1
        if bound > highest:
            highest = bound
            self._kept[:] = self._state
        self._record[:] = highest, waited
        self.converged = bool(waited >= PATIENCE)
        return float(highest)

    def _next_tangent_points(self, moments: PointMoments) -> NDArray[np.float64]:
        return moments.mean

    def _iterate(self) -> None:
        for _ in range(UPDATES):
            self._update()
        theta_before = self._theta.copy()
        bound_before = self._bound()
        self._ascend(EVALUATIONS)
        for halving in range(1, HALVINGS + 1):
            if self._bound() >= bound_before - MAX_LOSS * abs(bound_before):
                return
            self._theta[:] = theta_before if halving == HALVINGS else (theta_before + self._theta) / 2
            self._optimum = None


class Hybrid(JJ):
    """vi-JJ-hybrid: the closed-form updates of vi-JJ, then L-BFGS-B on θ and ξ."""

    ascends_tangent_points = True


class Full(JJ):
    """vi-JJ-full: L-BFGS-B on θ and ξ alone."""

    ascends_tangent_points = True

    def _iterate(self) -> None:
        self._ascend(FULL_EVALUATIONS)


class SVIAdaDelta(Inference):
    """Maximise the bound [I] (11) over q(u) and the hyperparameters by AdaDelta over minibatches."""

    advice = "try a lower learning_rate"
    advice_at_start = "check the scale of the features"

    def __init__(
        self, coordinates: Inputs, positive: NDArray[np.bool_], inducing: ArrayLike, settings: GPCSettings
    ) -> None:
        self._bound, self._all_parameters = model.uncollapsed_bound(inducing, settings.nodes)
        fixed = self._bound.fixed
        self._free_parameters = {name: value for name, value in self._all_parameters.items() if name not in fixed}
        self._adadelta = AdaDelta(self._free_parameters)
        self._rate = settings.learning_rate or AdaDelta.default_rate
        self._coordinates = coordinates
        self._labels = csr_array(positive[:, None])
        self._minibatches = SeededMinibatches(len(positive), settings.batch_size, settings.seed)
        self.epochs = settings.passes
        self.steps_per_epoch = len(self._minibatches)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that steps change, by name."""
        arrays = {f"parameters.{name}": value for name, value in self._free_parameters.items()}
        return arrays | {f"optimiser.{name}": value for name, value in self._adadelta.state.items()}

    def parameters(self, epochs: int) -> dict[str, NDArray[Any]]:
        """Return the parameters of the model, by name."""
        return {name: self._all_parameters[name].copy() for name in model.PARAMETER_NAMES}

    def step(self, epoch: int, done: int) -> float | None:
        """Update with one minibatch; return an estimate of the bound before the update."""
        batch = make_batch(self._coordinates, self._labels, self._minibatches.rows(epoch, done))
        value, gradients = self._bound.value_and_gradients(self._all_parameters, batch)
        self._adadelta.step(self._all_parameters, gradients, self._rate)
        return value
