"""Latent functions with inducing inputs: h_p ~ GP(0, k), and q(u_p) of their values at Z."""

from functools import partial

import numpy as np

from xmlgp.gp.inner_products import Covariances, Points
from xmlgp.gp.likelihood import Moments
from xmlgp.gp.posteriors.ratio import expected_log_ratio
from xmlgp.linear_algebra import dense
from xmlgp.runtime.threads import run_parallel, start_task

__all__ = ["Inducing"]

#: Points whose moments one core computes at a time.
POINT_BLOCK = 128


class Inducing:
    """Latent functions h_p ~ GP(0, k) with inducing inputs Z; the posterior q(u_p) is one of `posteriors`.

    Parameters named `fixed` have no gradients: Z, if `inputs_fixed`.
    """

    def __init__(self, kernel, posterior, inputs_fixed=False):
        self.kernel = kernel
        self.posterior = posterior
        self.fixed = frozenset({"inducing"} if inputs_fixed else ())

    @property
    def parameter_names(self):
        """The names of the parameters: Z, those of the kernel and those of the posterior."""
        return ["inducing", *self.kernel.parameter_names(), *self.posterior.parameter_names]

    def forward(self, parameters, points, kl_needed=True):
        """Return the moments at the `Points` of a minibatch, the sum of the KL divergences, and the tape.

        The divergences cost nothing beside the gradients, needed or not. A covariance matrix that cannot be factorised
        raises NumericalError.
        """
        K_Z, between = self.kernel.forward_inducing(parameters)
        prepared = self._start_preparing(parameters, K_Z)
        K_BZ, K_diag, kernel_tape = self.kernel.forward_points(points, between)
        moments, kl, tape = self.posterior.forward(prepared(), Covariances(K_BZ, K_Z, K_diag))
        return moments, kl, (kernel_tape, tape)

    def _start_preparing(self, parameters, K_Z):
        """Return a function that returns the prepared posterior.

        The factorisation of K_Z uses one core; meanwhile the others multiply points and inducing inputs.
        """
        prepare = partial(self.posterior.prepare, parameters, K_Z)
        return prepare if self.posterior.prepare_is_parallel else start_task(prepare)

    def backward(self, tape, d_moments, for_step=False):
        """Return the gradients of the bound by parameter name, given those by the moments.

        With `for_step` they are ascent directions in place of the gradients by the parameters of q(u_p).
        """
        kernel_tape, tape = tape
        d_covariances, gradients = self.posterior.backward(tape, d_moments)
        if for_step:
            gradients = self.posterior.precondition(tape, gradients)
        inducing_needed = "inducing" not in self.fixed
        return gradients | self.kernel.backward(kernel_tape, d_covariances, inducing_needed=inducing_needed)

    def predict(self, parameters):
        """Return the latent functions of trained parameters at any points (`InducingPrediction`)."""
        return InducingPrediction(self.kernel, self.posterior, parameters)

    def as_prior(self, parameters):
        """Return the latent functions whose prior is the posterior of trained parameters (`LearnedInducing`)."""
        return LearnedInducing(self.kernel, self.posterior, parameters)


class LearnedInducing(Inducing):
    """Latent functions with an earlier posterior q₀(u_p), that of the given parameters, as prior; only q(u_p) moves."""

    def __init__(self, kernel, posterior, parameters):
        super().__init__(kernel, posterior)
        self.fixed = frozenset(self.parameter_names) - set(posterior.parameter_names)
        self._K_Z, self._between = kernel.forward_inducing(parameters)
        self._log_ratio = expected_log_ratio(posterior, parameters, self._K_Z)

    def forward(self, parameters, points, kl_needed=True):
        """Return the moments, the sum of KL[q(u_p) ‖ q₀(u_p)], and the tape; see `Inducing.forward`."""
        K_BZ, K_diag, _ = self.kernel.forward_points(points, self._between)
        prepared = self.posterior.prepare(parameters, self._K_Z)
        moments, kl, tape = self.posterior.forward(prepared, Covariances(K_BZ, self._K_Z, K_diag))
        value, gradients = self._log_ratio(tape)
        return moments, kl - value, (tape, gradients)

    def backward(self, tape, d_moments, for_step=False):
        """Return the gradients by the parameters of q(u_p); see `Inducing.backward`."""
        tape, of_ratio = tape
        _, gradients = self.posterior.backward(tape, d_moments)
        gradients = {name: gradient + of_ratio[name] for name, gradient in gradients.items()}
        return self.posterior.precondition(tape, gradients) if for_step else gradients


class InducingPrediction:
    """The latent functions of a trained model; what does not depend on the points is computed once."""

    def __init__(self, kernel, posterior, parameters):
        self._kernel = kernel
        self._posterior = posterior
        self._parameters = parameters
        K_Z, self._between = kernel.forward_inducing(parameters)
        self._prepared = posterior.prepare(parameters, K_Z)
        self._alpha = posterior.alpha(self._prepared)

    def moments(self, points):
        """Return the moments of the latent functions (`Moments`, B×P) at points (`Points`)."""

        def moments(part):
            K_BZ, K_diag, _ = self._kernel.forward_points(part, self._between)
            return self._posterior.moments(self._prepared, K_BZ, K_diag)[0]

        return Moments(*map(np.concatenate, zip(*_by_blocks(moments, points), strict=True)))

    def mean(self, points):
        """Return the means alone, B×P."""

        def mean(part):
            K_BZ, _, _ = self._kernel.forward_points(part, self._between)
            return dense.product(K_BZ, self._alpha)

        return np.concatenate(_by_blocks(mean, points))

    def weights(self):
        """Return T, R×P or D×P, so that means are C T for coordinates C; None if the kernel is not linear."""
        return self._kernel.primal_weights(self._parameters, self._alpha)


def _by_blocks(function, points):
    """Return the values of a function of `Points` for blocks of them, on all cores.

    BLAS sums in another order if a matrix has another number of rows. So blocks do not depend on the number of cores.
    """
    starts = range(0, len(points.residual), POINT_BLOCK) or range(1)
    blocks = (Points(*(array[start : start + POINT_BLOCK] for array in points)) for start in starts)
    return run_parallel(partial(function, block) for block in blocks)
