"""The stochastic bound of MLGPF and its gradient: latent functions, then the likelihood, and both backwards."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xmlgp.features.inputs import Points
from xmlgp.gp.expectations import Quadrature
from xmlgp.gp.inducing import Inducing
from xmlgp.gp.likelihood import Likelihood, Moments
from xmlgp.gp.parameters import Gradients, IndexedRows, Parameters
from xmlgp.gp.weight_space import WeightSpace
from xmlgp.linear_algebra.dense import all_finite
from xmlgp.runtime.errors import NumericalError

__all__ = ["Batch", "Bound"]


class Batch(NamedTuple):
    """A minibatch: its points, the pairs of points and labels that it uses, and the scale N/B."""

    points: Points
    likelihood: Likelihood
    scale: float


class Bound:
    """The lower bound F = N/|B| Σ_{i∈B} Σ_k E log σ(y_ik f_ik) − Σ_p KL[q(u_p) ‖ p(u_p)] on log p(Y).

    f_ik = Σ_p φ_kp h_p(x_i) + b_k. The expectations are by `Quadrature`. Parameters named `fixed` and the fixed ones of
    the latent functions have no gradients. Sources: [S] (12), [L] (13).
    """

    def __init__(
        self, latent: Inducing | WeightSpace, quadrature: Quadrature | None = None, fixed: Iterable[str] = ()
    ) -> None:
        self.latent = latent
        self.quadrature = quadrature or Quadrature()
        self.fixed = frozenset(fixed) | latent.fixed

    def value_and_gradients(
        self, parameters: Parameters, batch: Batch, value_needed: bool = True, for_step: bool = False
    ) -> tuple[float | None, Gradients]:
        """Return the unbiased estimate of the bound, and its gradients by every parameter name that is not fixed.

        Parameters are those of the latent functions, `loadings` (Φ, K×P) and `bias` (b, K). If not all negatives are
        used, the gradients by Φ and b are `IndexedRows`. Without `value_needed` the value is None, which is faster.
        With `for_step`, preconditioned directions replace some gradients, and expectations are only as precise as a
        training step needs. NumericalError is raised if a covariance matrix cannot be factorised or a gradient is not
        finite.

        Quadrature approximates the expectations and their derivatives separately. With enough nodes for the variances,
        the latter are the derivatives of the former; with few nodes and large variances, they are closer to the
        derivatives of the exact bound.
        """
        # Forward.
        tape: Any
        moments, kl, tape = self.latent.forward(parameters, batch.points, value_needed)
        log_likelihood, d_moments, d_utilities = batch.likelihood.value_and_gradients(
            moments, parameters["loadings"], parameters["bias"], self.quadrature, value_needed, for_step
        )

        # Backward.
        scale = float(batch.scale)
        for gradient in d_utilities.values():
            np.multiply(_values(gradient), scale, out=_values(gradient))
        d_moments = Moments(*(scale * gradient for gradient in d_moments))
        gradients = {**d_utilities, **self.latent.backward(tape, d_moments, for_step)}
        gradients = {name: gradient for name, gradient in gradients.items() if name not in self.fixed}
        for name, gradient in gradients.items():
            if not all_finite(_values(gradient)):
                raise NumericalError(f"the gradient of {name} is not finite")
        value = None if log_likelihood is None or kl is None else scale * log_likelihood - float(kl)
        return value, gradients


def _values(gradient: NDArray[np.floating] | IndexedRows) -> NDArray[np.floating]:
    return gradient.values if isinstance(gradient, IndexedRows) else gradient
