"""Bounds with q(u) in closed form, maximised in turn by closed-form updates and by L-BFGS-B ([I] algorithm 1)."""

import sys

import numpy as np
from scipy.optimize import Bounds, minimize

from xmlgp.gp.expectations import JaakkolaJordan, Quadrature, Taylor
from xmlgp.gp.kernels import NOISE_VARIANCE
from xmlgp.gpc.collapsed import CollapsedBound, optimal_tangent_points, tangent_point_gradient
from xmlgp.gpc.model import GPC
from xmlgp.training.inference import Inference

__all__ = ["Full", "Hybrid", "JJ", "TaylorExpansion"]

#: Closed-form updates of (ξ, û, Ŝ) of an iteration, and evaluations of the bound by L-BFGS-B ([I] section 2).
UPDATES, EVALUATIONS = 3, 5

#: Evaluations that L-BFGS-B on everything makes in an iteration: from one to the next it forgets curvatures, so that a
#: training can be gone on with from there.
FULL_EVALUATIONS = 50

#: Gain of the bound by an iteration, a point, that is not worth another.
TOLERANCE = 1e-4

#: Least noise variance: without any K_Z is so badly conditioned that rounding leads L-BFGS-B astray.
LEAST_NOISE = 1e-6

#: Most variance of the function: where classes can be told apart by a plane the bound rises without end in variance and
#: lengthscale, until q(f_i) is the difference of numbers so large that rounding makes the bound whatever it likes.
MOST_VARIANCE = 1e3

#: Longest lengthscale, as a multiple of the one to start from: beyond it the kernel is a constant, and what is left of
#: distances is rounding.
MOST_LENGTHSCALE = 1e3

#: Share of the bound's magnitude that a move of θ by Taylor's expansion may cost: near the end it need not gain any.
LOSS = 0.01

#: Cuts of a move that costs more: each halves it, and the last leaves it undone.
HALVINGS = 5

#: Iterations by Taylor's expansion in a row without such a gain that end training.
PATIENCE = 3


class _Variational(Inference):
    """What the ways with q(u) in closed form have in common; each says how an iteration goes.

    Parameters
    ----------
    coordinates : Coordinates
        Of the N training points, in double precision.
    positive : ndarray of bool, N
    inducing : ndarray, M×D
        Z.
    settings : GPCSettings
    """

    advice = "try another --inference"
    advice_at_start = "check the scale of the features"
    expectations = JaakkolaJordan()

    def __init__(self, coordinates, positive, inducing, settings):
        model = GPC()
        self._fixed = model.initial(inducing)
        self._names = model.kernel.parameter_names()
        self._positive, self._quadrature = positive, Quadrature(settings.nodes)
        #: θ, the logarithms of hyperparameters, and t, in place.
        self._theta = np.array([float(self._fixed.pop(name)) for name in self._names])
        self._most_log_lengthscale = self._theta[self._names.index("kernel.se.log_lengthscale")] + np.log(
            MOST_LENGTHSCALE
        )
        self._tangent_points = np.empty(len(positive))
        self._collapsed = CollapsedBound(model, coordinates, positive, self.expectations)
        self._start(np.sqrt(model.prior_variance(self._parameters(self._theta))))
        #: The optimum at θ and t, and the moments there, once they are known.
        self._optimum, self._moments = None, None
        self.epochs = settings.passes
        #: Called after each evaluation of F by L-BFGS-B, when `parameters` are those of the best so far.
        self.after_evaluation = lambda: None

    def _start(self, deviation):
        # The tightest for q(u) = p(u).
        self._tangent_points[:] = deviation

    def arrays(self):
        """Return the arrays that steps change, by name."""
        return {"hyperparameters": self._theta, "tangent_points": self._tangent_points}

    def parameters(self, epochs):
        """Return the parameters of the model, as `GPC.parameter_names` lists them."""
        return self._parameters(self._theta) | self._best().posterior()

    def step(self, epoch, done):
        """Make an iteration; return the bound of its q(u) and θ, by quadrature."""
        before = self._best().value
        self._iterate()
        self.converged = abs(self._best().value - before) < TOLERANCE * len(self._tangent_points)
        return self._bound()

    def _parameters(self, theta):
        return self._fixed | {name: np.array(value) for name, value in zip(self._names, theta, strict=True)}

    def _best(self):
        """Return the optimum at θ and t."""
        if self._optimum is None:
            self._optimum = self._collapsed.optimum(self._parameters(self._theta), self._tangent_points)
        return self._optimum

    def _bound(self):
        """Return the bound at θ and the best q(u) for t, by quadrature."""
        if self._moments is None:
            self._moments = self._best().moments()
        return self._best().bound(self._moments, self._positive, self._quadrature)

    def _update(self):
        """Move t to where it is best for q(u), and with it q(u) to where that is best for t."""
        moments = self._moments or self._best().moments()
        self._tangent_points[:] = self._next_tangent_points(moments)
        self._optimum, self._moments = None, None

    def _next_tangent_points(self, moments):
        return optimal_tangent_points(moments)

    def _ascend(self, evaluations, everything=False):
        """Maximise F by L-BFGS-B over θ, or θ and t, from where they are; go to the best point seen."""
        size = len(self._theta)
        best = self._best()
        seen = {}

        def negative(x):
            theta, tangent_points = x[:size], x[size:] if everything else self._tangent_points
            optimum = self._collapsed.optimum(self._parameters(theta), tangent_points) if seen else best
            gradients, moments = optimum.gradients()
            gradient = np.array([gradients[name] for name in self._names])
            if everything:
                slopes = self._collapsed.slope_and_curvature(tangent_points)
                by_tangent_points = tangent_point_gradient(tangent_points, moments, *slopes)
                gradient = np.concatenate([gradient, by_tangent_points])
            if not seen or optimum.value > seen["value"]:
                seen["value"] = optimum.value
                self._theta[:] = theta
                if everything:
                    self._tangent_points[:] = tangent_points
                self._optimum, self._moments = optimum, moments
            self.after_evaluation()
            return -optimum.value, -gradient

        start = np.concatenate([self._theta, self._tangent_points]) if everything else self._theta.copy()
        # ξ has no bounds: the bound is an even function of it, and flat at zero, where L-BFGS-B would not leave again.
        # Nor have all of θ: where all have, it makes a first step as long as the gradient.
        least, most = np.full(len(start), -np.inf), np.full(len(start), np.inf)
        least[self._names.index(NOISE_VARIANCE)] = np.log(LEAST_NOISE)
        most[self._names.index("kernel.se.log_variance")] = np.log(MOST_VARIANCE)
        most[self._names.index("kernel.se.log_lengthscale")] = self._most_log_lengthscale
        options = {"maxfun": evaluations, "maxiter": evaluations}
        minimize(negative, start, jac=True, method="L-BFGS-B", bounds=Bounds(least, most), options=options)


class JJ(_Variational):
    """vi-JJ: updates of ξ, û and Ŝ, then L-BFGS-B on θ."""

    def _iterate(self):
        for _ in range(UPDATES):
            self._update()
        self._ascend(EVALUATIONS)


class TaylorExpansion(_Variational):
    """vi-Taylor: as vi-JJ, with expansions around the means of q(f_i) in place of bounds.

    F is an approximation here, good near those means: where a move of θ leads so far from them that the bound falls, it
    is cut short. Nor is the maximum of F that of the bound, which can fall slowly on the way there: θ and t of the
    highest bound are kept, and training ends where it has not risen for some iterations.
    """

    expectations = Taylor()

    def _start(self, deviation):
        self._tangent_points[:] = 0
        self._kept = {"kept.hyperparameters": self._theta.copy(), "kept.tangent_points": self._tangent_points.copy()}
        #: The bound of what is kept, and how many iterations have not raised it enough since.
        self._record = np.array([-sys.float_info.max, 0.0])

    def arrays(self):
        """Return the arrays that steps change, by name."""
        return super().arrays() | self._kept | {"record": self._record}

    def parameters(self, epochs):
        """Return the parameters of the model of the highest bound so far."""
        theta, tangent_points = self._kept.values()
        optimum = self._best()
        if not (np.array_equal(theta, self._theta) and np.array_equal(tangent_points, self._tangent_points)):
            optimum = self._collapsed.optimum(self._parameters(theta), tangent_points)
        return self._parameters(theta) | optimum.posterior()

    def step(self, epoch, done):
        """Make an iteration; return the highest bound so far, by quadrature."""
        self._iterate()
        bound, (highest, _) = self._bound(), self._record
        self._record[1] = 0 if bound > highest + TOLERANCE * len(self._tangent_points) else self._record[1] + 1
        if bound > highest:
            self._record[0] = bound
            for kept, value in zip(self._kept.values(), (self._theta, self._tangent_points), strict=True):
                kept[:] = value
        self.converged = bool(self._record[1] >= PATIENCE)
        return self._record[0]

    def _next_tangent_points(self, moments):
        return moments.mean

    def _iterate(self):
        for _ in range(UPDATES):
            self._update()
        theta, bound = self._theta.copy(), self._bound()
        self._ascend(EVALUATIONS)
        for halving in range(1, HALVINGS + 1):
            if self._bound() >= bound - LOSS * abs(bound):
                return
            self._theta[:] = theta if halving == HALVINGS else (theta + self._theta) / 2
            self._optimum, self._moments = None, None


class Hybrid(_Variational):
    """vi-JJ-hybrid: the updates of vi-JJ, then L-BFGS-B on θ and ξ."""

    def _iterate(self):
        for _ in range(UPDATES):
            self._update()
        self._ascend(EVALUATIONS, everything=True)


class Full(_Variational):
    """vi-JJ-full: L-BFGS-B on θ and ξ alone."""

    def _iterate(self):
        self._ascend(FULL_EVALUATIONS, everything=True)
