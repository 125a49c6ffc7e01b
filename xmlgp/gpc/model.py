"""GPC as a whole: one latent function with an SE kernel and noise, its parameters, and its predictive distribution."""

import numpy as np

from xmlgp.gp.bound import Bound
from xmlgp.gp.expectations import Quadrature
from xmlgp.gp.inducing import Inducing
from xmlgp.gp.kernels import Kernel
from xmlgp.gp.log_parameters import bounded_exp
from xmlgp.gpc.posterior import FullPosterior

__all__ = ["GPC", "Predictive"]


class GPC:
    """The model of [I]: p(y = 1 | f) = σ(f), f ~ GP(0, k), k(x, x′) = σ² exp(−‖x − x′‖²/2ℓ²) + ν² [x is x′].

    The inducing inputs Z are fixed, and q(u) = N(m, L Lᵀ) for every inference method. The model is MLGPF with
    P = K = 1, Φ = 1 and b = 0, so parameters have the same names. Source: [I] (7) to (11).
    """

    def __init__(self):
        self.kernel = Kernel(("se", "noise"), ard=False)
        self.posterior = FullPosterior()

    def parameter_names(self):
        """Return the names of the parameters."""
        return ["inducing", *self.kernel.parameter_names(), *self.posterior.parameter_names]

    def initial(self, inducing):
        """Return the inducing inputs Z, M×D, and initial hyperparameters by name, in double precision.

        σ² = 1, and ℓ² is half of the mean squared distance between two inducing inputs: the kernel is then neither
        constant nor diagonal, for any units and any number of dimensions.
        """
        inducing = np.array(inducing, np.float64, order="F")
        # The mean squared distance between two of them is twice their variance.
        scale = np.sqrt(np.square(inducing - inducing.mean(axis=0)).sum(axis=1).mean()) if len(inducing) else 0
        return {"inducing": inducing} | self.kernel.initial(inducing.shape[1], scale or 1.0, np.float64)

    def prior_variance(self, parameters):
        """Return the prior variance of f at any point, σ² + ν²."""
        return sum(bounded_exp(parameters[f"kernel.{name}.log_variance"]) for name in ("se", "noise"))

    def uncollapsed(self, inducing, nodes):
        """Return the bound [I] (11), a function of q(u) as well (`Bound`), and initial values of its parameters.

        Initially q(u) is the prior. Z, Φ = 1 and b = 0 are fixed.
        """
        parameters = self.initial(inducing)
        prior, _ = self.kernel.forward_inducing(parameters)
        parameters |= self.posterior.parameters_of_prior(prior)
        parameters |= {"loadings": np.ones((1, 1)), "bias": np.zeros(1)}
        latent = Inducing(self.kernel, self.posterior, inputs_fixed=True)
        return Bound(latent, Quadrature(nodes), ("loadings", "bias")), parameters

    def predictive(self, parameters):
        """Return the predictive distribution of trained parameters (`Predictive`)."""
        return Predictive(self, parameters)


class Predictive:
    """The predictive distribution q(f*) of trained parameters; what does not depend on the points is computed once."""

    def __init__(self, model, parameters):
        self._model = model
        prior, self._between = model.kernel.forward_inducing(parameters)
        self._prepared = model.posterior.prepare(parameters, prior)

    def __call__(self, points):
        """Return mean and variance of f with noise at `Points`, both B ([I] (10))."""
        cross, variances, _ = self._model.kernel.forward_points(points, self._between)
        moments, _ = self._model.posterior.moments(self._prepared, cross, variances)
        # Rounding errors can make a variance near zero negative.
        return moments.mean[:, 0], np.maximum(moments.variance[:, 0], 0)
