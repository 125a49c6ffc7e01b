"""The method of MLGPF in weight space, for a linear kernel: f = Φ Tᵀx + b + W x.

T, Φ and b are trained by stochastic steps, then W by closed-form updates in sweeps over the labels.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.data.dataset import Features
from xmlgp.features.inputs import Inputs, Selected
from xmlgp.features.pipeline import Preprocessed
from xmlgp.gp.bound import Bound
from xmlgp.gp.expectations import Quadrature
from xmlgp.gp.weight_space import (
    LATENT_WEIGHTS,
    WHITENED,
    WeightSpace,
    WeightSpacePrediction,
    feature_shares,
    unwhitened,
)
from xmlgp.linear_algebra.array_groups import ArrayGroup
from xmlgp.models.mlgpf.initial import initial_bias, random_rows
from xmlgp.models.mlgpf.method import MLGPFMethod, Parameters
from xmlgp.models.mlgpf.settings import MLGPFSettings
from xmlgp.runtime.executor import Executor
from xmlgp.training.minibatches import ChoosePairs, LabelSampler

__all__ = ["WeightSpaceMethod"]

#: Initial variance of q(u); that of the prior is one. On Bibtex, 0.3 and 1 rank the labels of held-out points about
#: equally well; with 0.01 the log loss of these points is larger.
VARIANCE_START = 0.3

#: Initial prior variance a of the weights.
PRIOR_START = 1.0

#: Root mean square length of the row of initial loadings of a label. The row of initial means of a feature has length
#: one.
LOADINGS_LENGTH = 0.1


class WeightSpaceMethod(MLGPFMethod):
    """Latent functions with a weight for each feature (`xmlgp.gp.weight_space`)."""

    def __init__(self, settings: MLGPFSettings) -> None:
        self.settings = settings
        self.quadrature = Quadrature(settings.nodes)

    def coordinates(self, features: Features, preprocessed: Preprocessed, work: Executor) -> Inputs:
        """Return the `Inputs` of training points, given X as read: weighted features."""
        return Inputs(preprocessed.weigh(features, work), None, self.settings.dtype, sparse=True)

    def pairs(self, labels: csr_array) -> ChoosePairs:
        """Return the function that chooses the pairs of a minibatch of points with these labels."""
        return LabelSampler(labels, self.settings.sampled_labels(labels.shape[1]))

    def bound(self, coordinates: Inputs | Selected) -> Bound:
        """Return the bound for minibatches of some points."""
        return Bound(WeightSpace(feature_shares(coordinates.weighted(slice(None)).sparse)), self.quadrature)

    def initial(
        self,
        coordinates: Inputs | Selected,
        labels: csr_array,
        inducing: NDArray[np.floating] | None,
        random: np.random.Generator,
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
