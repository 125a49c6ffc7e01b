"""The GPC model: one latent function with an SE kernel and noise, its posterior q(u), and its bound.

The model of [I] (7) to (11): p(y = 1 | f) = σ(f), f ~ GP(0, k), k(x, x′) = σ² exp(−‖x − x′‖²/2ℓ²) + ν² [x is x′]. The
inducing inputs Z are fixed, and q(u) is `Cholesky` for every inference method. This is MLGPF with P = K = 1, Φ = 1 and
b = 0, so its parameters have the same names.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xmlgp.features.inputs import Points
from xmlgp.gp.bound import Bound
from xmlgp.gp.expectations import Quadrature
from xmlgp.gp.inducing import Inducing
from xmlgp.gp.kernels import Kernel
from xmlgp.gp.parameters import bounded_exp
from xmlgp.gp.posteriors import Cholesky

__all__ = [
    "KERNEL",
    "PARAMETER_NAMES",
    "POSTERIOR",
    "Predictive",
    "initial_parameters",
    "prior_variance",
    "uncollapsed_bound",
]

KERNEL = Kernel(("se", "noise"), ard=False)
POSTERIOR = Cholesky()
PARAMETER_NAMES = ["inducing", *KERNEL.parameter_names(), *POSTERIOR.parameter_names]


def initial_parameters(inducing: ArrayLike) -> dict[str, NDArray[np.floating]]:
    """Return the inducing inputs Z, M×D, and initial hyperparameters by name, in double precision.

    σ² = 1, and ℓ² is half of the mean squared distance between two inducing inputs: the kernel is then neither constant
    nor diagonal, for any units and any number of dimensions.
    """
    Z = np.array(inducing, np.float64, order="F")
    # The mean squared distance between two inducing inputs is twice their mean squared distance from their centroid.
    lengthscale = np.sqrt(np.square(Z - Z.mean(axis=0)).sum(axis=1).mean()) if len(Z) else 0
    # If all inducing inputs are equal, any lengthscale does.
    return {"inducing": Z} | KERNEL.initial(Z.shape[1], lengthscale or 1.0, np.float64)


def prior_variance(parameters: Mapping[str, NDArray[np.floating]]) -> NDArray[np.floating]:
    """Return the prior variance of f at any point, σ² + ν², a scalar."""
    return bounded_exp(parameters["kernel.se.log_variance"]) + bounded_exp(parameters["kernel.noise.log_variance"])


def uncollapsed_bound(inducing: ArrayLike, nodes: int) -> tuple[Bound, dict[str, NDArray[np.floating]]]:
    """Return the `Bound` [I] (11), which depends on q(u) too, and initial values of its parameters.

    Initially q(u) is the prior. Z, Φ = 1 and b = 0 are fixed. The expectations are computed with so many `nodes`.
    """
    parameters = initial_parameters(inducing)
    M = len(parameters["inducing"])
    parameters |= dict(zip(POSTERIOR.parameter_names, (np.zeros((M, 1)), np.zeros((1, M, M))), strict=True))
    parameters |= {"loadings": np.ones((1, 1)), "bias": np.zeros(1)}
    latent = Inducing(KERNEL, POSTERIOR, inputs_fixed=True)
    return Bound(latent, Quadrature(nodes), ("loadings", "bias")), parameters


class Predictive:
    """The predictive distribution q(f*) of trained parameters; what does not depend on the points is precomputed."""

    def __init__(self, parameters: Mapping[str, NDArray[np.floating]]) -> None:
        prior, self._inducing_tape = KERNEL.forward_inducing(parameters)
        self._prepared = POSTERIOR.prepare(parameters, prior)

    def __call__(self, points: Points) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """Return mean and variance of f with noise at points, both B ([I] (10))."""
        K_BZ, K_diag, _ = KERNEL.forward_points(points, self._inducing_tape)
        moments, _ = POSTERIOR.moments(self._prepared, K_BZ, K_diag)
        # Rounding errors can make a variance near zero negative.
        return moments.mean[:, 0], np.maximum(moments.variance[:, 0], 0)
