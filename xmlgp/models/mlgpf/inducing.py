"""The method of MLGPF with inducing inputs, in a subspace or free: stochastic steps for all parameters."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.data.dataset import Features
from xmlgp.features.inputs import Inputs, Selected
from xmlgp.features.pipeline import Preprocessed
from xmlgp.gp.bound import Bound
from xmlgp.gp.expectations import Quadrature
from xmlgp.gp.inducing import Inducing, InducingPrediction
from xmlgp.gp.inner_products import Points
from xmlgp.gp.kernels import Kernel
from xmlgp.gp.likelihood import AllPairs
from xmlgp.gp.posteriors import POSTERIORS, Cholesky, SharedDiagonal
from xmlgp.linear_algebra.array_groups import FLOAT, Array, ArrayGroup, is_not_empty
from xmlgp.models.mlgpf.initial import initial_bias, newton_start, random_rows
from xmlgp.models.mlgpf.method import MLGPFMethod, Parameters
from xmlgp.models.mlgpf.settings import MLGPFSettings
from xmlgp.runtime.executor import Executor
from xmlgp.training.minibatches import ChoosePairs, sample_negatives

__all__ = ["InducingMethod"]

#: Largest number of points for the Newton step: a hundred for each of a few hundred inducing inputs.
NEWTON_POINTS = 1 << 15

#: Number of points whose coordinates are computed at a time.
CHUNK = 2048


class InducingMethod(MLGPFMethod):
    """The method of MLGPF with h_p ~ GP(0, k) and inducing inputs ([S] section 3, [L] section 3).

    Steps change the parameters of the model themselves.
    """

    def __init__(self, settings: MLGPFSettings) -> None:
        self.settings = settings
        self.posterior = POSTERIORS[settings.posterior]
        kernel = Kernel(settings.kernel.split("+"), settings.ard)
        self.latent = Inducing(kernel, self.posterior, settings.inducing_fixed)
        self.quadrature = Quadrature(settings.nodes)

    def coordinates(self, features: Features, preprocessed: Preprocessed, work: Executor) -> Inputs:
        """Return the `Inputs` of training points, given X as read."""
        return preprocessed.inputs(features, self.settings.dtype)

    def pairs(self, labels: csr_array) -> ChoosePairs:
        """Return the function that chooses the pairs of a minibatch of points with these labels.

        Of `negatives` that are half of the labels or more, a sample would hardly be cheaper than all.
        """
        count = self.settings.negatives
        if count is None or 2 * count >= labels.shape[1]:
            return lambda positives, random: AllPairs(positives)
        return functools.partial(sample_negatives, count=count)

    def bound(self, coordinates: Inputs | Selected) -> Bound:
        """Return the bound, which is the same for all points."""
        return Bound(self.latent, self.quadrature)

    def initial(
        self,
        coordinates: Inputs | Selected,
        labels: csr_array,
        inducing: NDArray[np.floating] | None,
        random: np.random.Generator,
    ) -> Parameters:
        """Return initial parameters by name, given the points to train on and the initial A or Z.

        b is at the log odds of each label's frequency, Φ ~ N(0, 1/P) and the means of q(u_p) are small and random. A
        Newton step replaces Φ and the means, if so set.
        """
        settings = self.settings
        dtype = np.dtype(settings.dtype)
        kernel = self.latent.kernel
        posterior = self.posterior
        # Fortran order, which the products of `inner_products` are fastest with.
        Z = np.array(inducing, dtype, order="F")
        size = len(Z), settings.factor_count, settings.diagonal, random, dtype
        parameters = {"inducing": Z} | kernel.initial(Z.shape[1], settings.lengthscale, dtype)
        parameters |= posterior.initial(*size)
        if isinstance(posterior, Cholesky):
            # A diagonal covariance of q(u_p) would be far from a prior of lower rank than M.
            diagonal = SharedDiagonal().initial(*size)
            parameters |= posterior.parameters_of_diagonal(diagonal, kernel.forward_inducing(parameters)[0])
        parameters["loadings"] = random_rows(labels.shape[1], settings.factor_count, random, dtype)
        parameters["bias"] = initial_bias(labels, dtype)
        if settings.start == "newton":
            self._newton_step(parameters, coordinates, labels, random)
        return parameters

    def _newton_step(
        self, parameters: Parameters, coordinates: Inputs | Selected, labels: csr_array, random: np.random.Generator
    ) -> None:
        """Replace the means of q(u_p) and Φ by those of `newton_start`, from at most `NEWTON_POINTS` points."""
        kernel = self.latent.kernel
        posterior = self.posterior
        N = labels.shape[0]
        rows = np.arange(N)
        if N > NEWTON_POINTS:
            rows = np.sort(random.choice(N, NEWTON_POINTS, replace=False))
        K_Z, between = kernel.forward_inducing(parameters)
        cross = np.empty((len(rows), len(K_Z)), coordinates.dtype)
        for first in range(0, len(rows), CHUNK):
            chunk = slice(first, first + CHUNK)
            cross[chunk], _, _ = kernel.forward_points(Points(*coordinates.rows(rows[chunk])), between)
        weights, loadings = newton_start(
            cross, K_Z, labels[rows], parameters["bias"], self.settings.factor_count, N / len(rows)
        )
        rank = loadings.shape[1]
        parameters[posterior.parameter_names[0]][:, :rank] = posterior.mean_from_alpha(weights, K_Z)
        parameters["loadings"][:, :rank] = loadings

    def trained(self, parameters: Parameters) -> Parameters:
        """Return the parameters themselves."""
        return parameters

    def predict(self, parameters: Parameters) -> InducingPrediction:
        """Return the latent functions of a trained model."""
        return InducingPrediction(self.latent.kernel, self.posterior, parameters)

    @property
    def array_groups(self) -> Mapping[ArrayGroup, bool | None]:
        """The arrays of the latent functions of a model. Compiled functions would not compile for other kernels'."""
        shapes = {"log_variance": "", "log_lengthscale": "", "log_relevance": "J"}
        kernel = {name: Array(shapes[name.rpartition(".")[2]]) for name in self.latent.kernel.parameter_names()}
        posterior = dict(zip(self.posterior.parameter_names, map(Array, self.posterior.shapes), strict=True))
        return {ArrayGroup(inducing=Array("M J", FLOAT, is_not_empty), **kernel, **posterior): True}
