"""Gaussian-process classification of two classes: one latent function, an SE kernel with noise, a full posterior."""

import numpy as np

from xmlgp.gp.bound import Bound
from xmlgp.gp.expectations import Quadrature
from xmlgp.gp.kernels import Kernel
from xmlgp.gp.log_parameters import bounded_exp
from xmlgp.gp.posteriors import Cholesky

__all__ = ["GPC", "Predictive"]


class GPC:
    """The model of [I]: p(y = 1 | f) = σ(f), f ~ GP(0, k), k(x, x′) = σ² exp(−‖x − x′‖²/2ℓ²) + ν² [x is x′].

    Inducing inputs Z are fixed, and q(u) = N(m, L Lᵀ) whichever way it was found. It is MLGPF with P = K = 1, Φ = 1 and
    b = 0, so parameters have the same names. Source: [I] (7) to (11).

    Attributes
    ----------
    kernel : Kernel
    posterior : Cholesky
    """

    def __init__(self):
        self.kernel = Kernel(("se", "noise"), ard=False)
        self.posterior = Cholesky()

    def parameter_names(self):
        """Return the names of the parameters."""
        return ["inducing", *self.kernel.parameter_names(), *self.posterior.parameter_names]

    def initial(self, inducing):
        """Return inducing inputs and hyperparameters to start from, in double precision.

        σ² is one, and ℓ² half of the mean squared distance of two inducing inputs: there the kernel is neither flat nor
        diagonal, in whatever units and however many dimensions points are.

        Parameters
        ----------
        inducing : ndarray, M×D
            Z.
        """
        inducing = np.array(inducing, np.float64, order="F")
        # The mean squared distance of two of them is twice their variance.
        scale = np.sqrt(np.square(inducing - inducing.mean(axis=0)).sum(axis=1).mean()) if len(inducing) else 0
        return {"inducing": inducing} | self.kernel.initial(inducing.shape[1], scale or 1.0, np.float64)

    def prior_variance(self, parameters):
        """Return the variance of the prior of f at any point, σ² + ν²."""
        return sum(bounded_exp(parameters[f"kernel.{name}.log_variance"]) for name in ("se", "noise"))

    def uncollapsed(self, inducing, nodes):
        """Return the bound of section 1 with q(u) left free, [I] (11), and all its parameters to start from.

        q(u) starts from the prior; Z, Φ = 1 and b = 0 are fixed.

        Parameters
        ----------
        inducing : ndarray, M×D
            Z.
        nodes : int
            Quadrature nodes.

        Returns
        -------
        bound : Bound
        parameters : dict of str to ndarray
        """
        parameters = self.initial(inducing)
        prior, _ = self.kernel.forward_inducing(parameters)
        parameters |= self.posterior.parameters_of_prior(prior, 1)
        parameters |= {"loadings": np.ones((1, 1)), "bias": np.zeros(1)}
        return Bound(self.kernel, self.posterior, ("inducing", "loadings", "bias"), Quadrature(nodes)), parameters

    def predictive(self, parameters):
        """Return what gives the mean and variance of f at any points (`Predictive`)."""
        return Predictive(self, parameters)


class Predictive:
    """The predictive distribution q(f*); what does not depend on the points is computed once.

    Parameters
    ----------
    model : GPC
    parameters : mapping of str to ndarray
        By `GPC.parameter_names`.
    """

    def __init__(self, model, parameters):
        self._model = model
        prior, self._between = model.kernel.forward_inducing(parameters)
        self._prepared = model.posterior.prepare(parameters, prior)

    def __call__(self, points):
        """Return mean and variance of f, noise included, both B ([I] (10)).

        Parameters
        ----------
        points : Points
        """
        cross, variances, _ = self._model.kernel.forward_points(points, self._between)
        moments, _ = self._model.posterior.moments(self._prepared, cross, variances)
        # Rounding can take the variance of what is known for certain below zero.
        return moments.mean[:, 0], np.maximum(moments.variance[:, 0], 0)
