"""Latent functions with inducing inputs: h_p ~ GP(0, k), and q(u_p) of their values at Z."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from xmlgp.features.inputs import Points
from xmlgp.gp.inner_products import Covariances
from xmlgp.gp.kernels import Kernel, PointsTape
from xmlgp.gp.likelihood import Moments
from xmlgp.gp.parameters import Parameters
from xmlgp.gp.posteriors import Posterior
from xmlgp.linear_algebra import dense
from xmlgp.runtime.threads import run_parallel, start_task

__all__ = ["Inducing", "InducingPrediction"]

#: Points whose moments one core computes at a time.
POINT_BLOCK = 128


Value = TypeVar("Value")


class Tape(NamedTuple):
    """The tapes of the kernel and of the posterior."""

    kernel: PointsTape
    posterior: Any


class Inducing:
    """Latent functions h_p ~ GP(0, k) with inducing inputs Z; the posterior q(u_p) is one of `posteriors`.

    Parameters named `fixed` have no gradients: Z, if `inputs_fixed`. Steps of Z are relative: one that moves each
    coordinate by the learning rate η moves an inducing input by η √D, which for rows of unit length is far beyond the
    lengthscale.
    """

    relative: frozenset[str] = frozenset({"inducing"})

    def __init__(self, kernel: Kernel, posterior: Posterior, inputs_fixed: bool = False) -> None:
        self.kernel = kernel
        self.posterior = posterior
        self.fixed = frozenset({"inducing"} if inputs_fixed else ())

    @property
    def parameter_names(self) -> list[str]:
        """The names of the parameters: Z, those of the kernel and those of the posterior."""
        return ["inducing", *self.kernel.parameter_names(), *self.posterior.parameter_names]

    def forward(
        self, parameters: Parameters, points: Points, value_needed: bool = True
    ) -> tuple[Moments, np.floating, Tape]:
        """Return the moments at the points of a minibatch, the sum of the KL divergences, and the tape.

        The divergences cost little beside the moments, so they are always computed. NumericalError is raised if a
        covariance matrix cannot be factorised.
        """
        K_Z, inducing_tape = self.kernel.forward_inducing(parameters)
        prepare = partial(self.posterior.prepare, parameters, K_Z)
        # The factorisation of K_Z uses one core; meanwhile the others multiply points and inducing inputs.
        prepared: Callable[[], Any] = prepare if self.posterior.prepare_is_parallel else start_task(prepare)
        K_BZ, K_diag, kernel_tape = self.kernel.forward_points(points, inducing_tape)
        moments, kl, posterior_tape = self.posterior.forward(prepared(), Covariances(K_BZ, K_Z, K_diag))
        return moments, kl, Tape(kernel_tape, posterior_tape)

    def backward(self, tape: Tape, d_moments: Moments, for_step: bool = False) -> dict[str, NDArray[np.floating]]:
        """Return the gradients of the bound by parameter name, given those by the moments.

        With `for_step`, ascent directions replace the gradients by the parameters of q(u_p).
        """
        d_covariances, gradients = self.posterior.backward(tape.posterior, d_moments)
        if for_step:
            gradients = self.posterior.precondition(tape.posterior, gradients)
        return gradients | self.kernel.backward(tape.kernel, d_covariances, "inducing" not in self.fixed)


class InducingPrediction:
    """The latent functions of a trained model; what does not depend on the points is computed once."""

    def __init__(self, kernel: Kernel, posterior: Posterior, parameters: Parameters) -> None:
        self._kernel = kernel
        self._posterior = posterior
        self._parameters = parameters
        K_Z, self._inducing_tape = kernel.forward_inducing(parameters)
        self._prepared: Any = posterior.prepare(parameters, K_Z)
        self._alpha = posterior.alpha(self._prepared)

    def moments(self, points: Points) -> Moments:
        """Return the moments of the latent functions at points, B×P."""

        def moments_of(block: Points) -> Moments:
            K_BZ, K_diag, _ = self._kernel.forward_points(block, self._inducing_tape)
            return self._posterior.moments(self._prepared, K_BZ, K_diag)[0]

        return Moments(*map(np.concatenate, zip(*_by_blocks(moments_of, points), strict=True)))

    def mean(self, points: Points) -> NDArray[np.floating]:
        """Return the means alone, B×P."""

        def mean_of(block: Points) -> NDArray[np.floating]:
            K_BZ, _, _ = self._kernel.forward_points(block, self._inducing_tape)
            return dense.product(K_BZ, self._alpha)

        return np.concatenate(_by_blocks(mean_of, points))

    def weights(self) -> NDArray[np.floating] | None:
        """Return T, R×P or D×P, so that means are C T for coordinates C; None if the kernel is not linear."""
        return self._kernel.primal_weights(self._parameters, self._alpha)


def _by_blocks(function: Callable[[Points], Value], points: Points) -> list[Value]:
    """Return the values of a function for blocks of points, on all cores.

    Blocks do not depend on the number of cores, because BLAS sums matrices of different numbers of rows in different
    orders.
    """
    starts = range(0, len(points.residual), POINT_BLOCK) or range(1)
    blocks = (points.rows(slice(start, start + POINT_BLOCK)) for start in starts)
    return run_parallel(partial(function, block) for block in blocks)
