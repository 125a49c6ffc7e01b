"""The methods of MLGPF: how its latent functions are trained, with inducing inputs or in weight space.

`InducingMethod` trains all parameters by stochastic steps, with inducing inputs in a subspace or free.
`WeightSpaceMethod` is for a linear kernel, with f = Φ Tᵀx + b + W x: stochastic steps train T, Φ and b, then sweeps
over the labels update W in closed form.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_array

from xmlgp.data.dataset import Features
from xmlgp.features.inputs import Inputs
from xmlgp.features.pipeline import Preprocessed
from xmlgp.gp.bound import Bound
from xmlgp.gp.expectations import Quadrature
from xmlgp.gp.inducing import Inducing, InducingPrediction
from xmlgp.gp.kernels import Kernel
from xmlgp.gp.likelihood import AllPairs
from xmlgp.gp.posteriors import POSTERIORS, Cholesky, SharedDiagonal
from xmlgp.gp.weight_space import (
    LATENT_WEIGHTS,
    WHITENED,
    WeightSpace,
    WeightSpacePrediction,
    feature_shares,
    unwhitened,
)
from xmlgp.linear_algebra.array_groups import ANY_FLOAT, Array, ArrayGroup, is_not_empty
from xmlgp.models.mlgpf.newton_start import newton_start
from xmlgp.models.mlgpf.settings import MLGPFSettings
from xmlgp.neighbours.label_texts import TextWords
from xmlgp.runtime.executor import LOCAL_EXECUTOR, Executor
from xmlgp.runtime.progress import Progress, silent
from xmlgp.training.minibatches import LabelSampler, PairSampler, sample_negatives

__all__ = ["InducingMethod", "MLGPFMethod", "Parameters", "Problem", "WeightSpaceMethod", "load_method", "log_odds"]

#: The parameters of a model by name.
Parameters: TypeAlias = dict[str, NDArray[Any]]

#: Number of rows that are drawn at a time, in double precision.
ROW_BLOCK = 1 << 14

#: Largest number of points for the Newton step: a hundred for each of a few hundred inducing inputs.
NEWTON_POINTS = 1 << 15

#: Number of points whose coordinates are computed at a time.
CHUNK = 2048

#: Initial variance of q(u); that of the prior is one. On Bibtex, 0.3 and 1 rank the labels of held-out points about
#: equally well; with 0.01 the log loss of these points is larger.
VARIANCE_START = 0.3

#: Initial prior variance a of the weights.
PRIOR_START = 1.0

#: Root mean square length of the row of initial loadings of a label. The row of initial means of a feature has length
#: one.
LOADINGS_LENGTH = 0.1


class Problem(NamedTuple):
    """What the stages of a training need: X as read, N×D, and Y, N×K, with the `Inputs` of the kernel for them.

    `label_texts` may also be of labels that no point has, whose numbers are K and more. `groups` are numbers of the
    groups of points from 0, of which none is divided when points are held out; by default each point is one.
    """

    settings: MLGPFSettings
    features: Features
    labels: csr_array
    preprocessed: Preprocessed
    coordinates: Inputs
    executor: Executor = LOCAL_EXECUTOR
    progress: Progress = silent
    label_texts: TextWords | None = None
    groups: NDArray[np.int64] | None = None


class MLGPFMethod(Protocol):
    """One way to train the latent functions of MLGPF, made from its settings; an entry of `METHODS` names it.

    The stochastic steps change parameters of their own, such as whitened ones; `trained` converts them to those of a
    model.
    """

    settings: MLGPFSettings

    def coordinates(self, features: Features, preprocessed: Preprocessed, executor: Executor) -> Inputs:
        """Return the `Inputs` of training points, given X as read."""

    def pairs(self, labels: csr_array) -> PairSampler:
        """Return the function that chooses the pairs of a minibatch of points with these labels."""

    def bound(self, coordinates: Inputs) -> Bound:
        """Return the bound for minibatches of some points."""

    def initial(
        self, coordinates: Inputs, labels: csr_array, inducing: NDArray[np.floating] | None, random: np.random.Generator
    ) -> Parameters:
        """Return initial parameters by name, given the points to train on and the initial A or Z."""

    def trained(self, parameters: Parameters) -> Parameters:
        """Return the parameters of a trained model, given those that steps change."""

    def predict(self, parameters: Parameters) -> InducingPrediction | WeightSpacePrediction:
        """Return the latent functions of a trained model."""

    @property
    def array_groups(self) -> Mapping[ArrayGroup, bool | None]:
        """The arrays of the latent functions of a model; whether it must have them, see `arrays_fit`."""


def load_method(settings: MLGPFSettings) -> MLGPFMethod:
    """Return the method of the inducing inputs."""
    method: MLGPFMethod = settings.method.load()(settings)
    return method


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

    def coordinates(self, features: Features, preprocessed: Preprocessed, executor: Executor) -> Inputs:
        """Return the `Inputs` of training points, given X as read."""
        return preprocessed.inputs(features, self.settings.dtype)

    def pairs(self, labels: csr_array) -> PairSampler:
        """Return the function that chooses the pairs of a minibatch of points with these labels.

        Of `negatives` that are half of the labels or more, a sample would hardly be cheaper than all.
        """
        count = self.settings.negatives
        if count is None or 2 * count >= labels.shape[1]:
            return lambda positives, random: AllPairs(positives)
        return functools.partial(sample_negatives, count=count)

    def bound(self, coordinates: Inputs) -> Bound:
        """Return the bound, which is the same for all points."""
        return Bound(self.latent, self.quadrature)

    def initial(
        self, coordinates: Inputs, labels: csr_array, inducing: NDArray[np.floating] | None, random: np.random.Generator
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
        self, parameters: Parameters, coordinates: Inputs, labels: csr_array, random: np.random.Generator
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
            cross[chunk], _, _ = kernel.forward_points(coordinates.rows(rows[chunk]), between)
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
        return {ArrayGroup(inducing=Array("M J", ANY_FLOAT, is_not_empty), **kernel, **posterior): True}


class WeightSpaceMethod(MLGPFMethod):
    """Latent functions with a weight for each feature (`xmlgp.gp.weight_space`)."""

    def __init__(self, settings: MLGPFSettings) -> None:
        self.settings = settings
        self.quadrature = Quadrature(settings.nodes)

    def coordinates(self, features: Features, preprocessed: Preprocessed, executor: Executor) -> Inputs:
        """Return the `Inputs` of training points, given X as read: weighted features."""
        return Inputs(preprocessed.weigh(features, executor), None, self.settings.dtype, sparse=True)

    def pairs(self, labels: csr_array) -> PairSampler:
        """Return the function that chooses the pairs of a minibatch of points with these labels."""
        return LabelSampler(labels, self.settings.sampled_labels(labels.shape[1]))

    def bound(self, coordinates: Inputs) -> Bound:
        """Return the bound for minibatches of some points."""
        return Bound(WeightSpace(feature_shares(coordinates.weighted(slice(None)).sparse)), self.quadrature)

    def initial(
        self, coordinates: Inputs, labels: csr_array, inducing: NDArray[np.floating] | None, random: np.random.Generator
    ) -> Parameters:
        """Return initial parameters: means of q(u) ~ N(0, 1/P), small Φ, and b at the log odds of label frequencies."""
        D = coordinates.feature_count
        P = self.settings.factor_count
        dtype = np.dtype(self.settings.dtype)
        mean = random_rows(D, P, random, dtype)
        loadings = random_rows(labels.shape[1], P, random, dtype)
        loadings *= LOADINGS_LENGTH
        log_variance, log_prior = (np.full(D, np.log(start), dtype) for start in (VARIANCE_START, PRIOR_START))
        parameters: Parameters = dict(zip(WHITENED, (mean, log_variance, log_prior), strict=True))
        return parameters | {"loadings": loadings, "bias": initial_bias(labels, dtype)}

    def trained(self, parameters: Parameters) -> Parameters:
        """Return the parameters of a trained model, with q(t) in place of the whitened q(u) that steps change."""
        others = {name: value for name, value in parameters.items() if name not in WHITENED}
        return unwhitened(parameters) | others

    def predict(self, parameters: Parameters) -> WeightSpacePrediction:
        """Return the latent functions of a trained model."""
        return WeightSpacePrediction(parameters)

    @property
    def array_groups(self) -> Mapping[ArrayGroup, bool | None]:
        """The arrays of the latent functions, which a model must have."""
        return {LATENT_WEIGHTS: True}


def random_rows(count: int, width: int, random: np.random.Generator, dtype: DTypeLike) -> NDArray[Any]:
    """Return rows of mean square length one, count×width, ~ N(0, 1/width)."""
    rows = np.empty((count, width), dtype)
    for start in range(0, count, ROW_BLOCK):
        block = rows[start : start + ROW_BLOCK]
        block[:] = random.normal(0, width**-0.5, block.shape)
    return rows


def initial_bias(labels: csr_array, dtype: DTypeLike) -> NDArray[Any]:
    """Return the log odds of each label's frequency, K, given Y, N×K."""
    N, K = labels.shape
    return log_odds(np.bincount(labels.indices, minlength=K), N).astype(dtype)


def log_odds(counts: NDArray[np.integer], N: int) -> NDArray[np.float64]:
    """Return the log odds of frequencies, with half a count on either side, so that 0 and N have finite ones."""
    return np.log((counts + 0.5) / (N + 0.5 - counts))
