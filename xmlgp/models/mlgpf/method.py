"""What a training method of MLGPF has to provide, and what its stages train on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.data.dataset import Features
from xmlgp.features.inputs import Inputs, Selected
from xmlgp.features.pipeline import Preprocessed
from xmlgp.gp.bound import Bound
from xmlgp.gp.inducing import InducingPrediction
from xmlgp.gp.weight_space import WeightSpacePrediction
from xmlgp.linear_algebra.array_groups import ArrayGroup
from xmlgp.models.mlgpf.settings import MLGPFSettings
from xmlgp.neighbours.label_texts import TextWords
from xmlgp.runtime.executor import LOCAL_EXECUTOR, Executor
from xmlgp.runtime.progress import Progress, silent
from xmlgp.training.minibatches import ChoosePairs

__all__ = ["MLGPFMethod", "Parameters", "Problem", "load_method"]

#: The parameters of a model by name.
Parameters: TypeAlias = dict[str, NDArray[Any]]


class Problem(NamedTuple):
    """What the stages of a training need: X as read, N×D, and Y, N×K, with the `Inputs` of the kernel for them.

    `label_texts` may also be of labels that no point has, whose numbers are K and more.
    """

    settings: MLGPFSettings
    features: Features
    labels: csr_array
    preprocessed: Preprocessed
    coordinates: Inputs
    work: Executor = LOCAL_EXECUTOR
    progress: Progress = silent
    label_texts: TextWords | None = None


class MLGPFMethod(Protocol):
    """One way to train the latent functions of MLGPF, made from its settings; an entry of `METHODS` names it.

    The stochastic steps change parameters of their own, such as whitened ones; `trained` converts them to those of a
    model.
    """

    settings: MLGPFSettings

    def coordinates(self, features: Features, preprocessed: Preprocessed, work: Executor) -> Inputs:
        """Return the `Inputs` of training points, given X as read."""

    def pairs(self, labels: csr_array) -> ChoosePairs:
        """Return the function that chooses the pairs of a minibatch of points with these labels."""

    def bound(self, coordinates: Inputs | Selected) -> Bound:
        """Return the bound for minibatches of some points."""

    def initial(
        self,
        coordinates: Inputs | Selected,
        labels: csr_array,
        inducing: NDArray[np.floating] | None,
        random: np.random.Generator,
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
