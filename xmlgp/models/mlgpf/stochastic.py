"""Stochastic gradient ascent on the bound of MLGPF, a stage of its training."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.features.inputs import Inputs, Selected
from xmlgp.models.mlgpf.method import MLGPFMethod, Parameters
from xmlgp.models.mlgpf.settings import WEIGHT_SPACE, MLGPFSettings
from xmlgp.training.inference import Inference
from xmlgp.training.minibatches import make_batch
from xmlgp.training.optimisers import OPTIMISERS, falling_rate

__all__ = ["BOUND_EVERY", "Stochastic", "training_rate"]

#: From so many points on, and so many for each label, the default learning rate of weight space is `LONG_RATE`: 0.1
#: moves parameters too slowly for the few epochs there. Loadings have no prior, so those of rare labels grow too large
#: with a higher rate: with one point a label, 0.15 loses 4 of P@1 on held-out points.
LONG_POINTS = 100_000
LONG_POINTS_PER_LABEL = 4
LONG_RATE = 0.15

#: Steps from one evaluation of the bound to the next; its gradients alone are cheaper.
BOUND_EVERY = 10


def training_rate(settings: MLGPFSettings, N: int, K: int) -> float:
    """Return the learning rate of training on N points with K labels: by default `LONG_RATE` where both are many."""
    has_many = N >= LONG_POINTS and N >= LONG_POINTS_PER_LABEL * K
    if has_many and settings.learning_rate is None and settings.method is WEIGHT_SPACE and not settings.optimiser:
        return LONG_RATE
    return settings.learning_rate or OPTIMISERS[settings.optimiser or settings.method.optimiser].default_rate


class Stochastic(Inference):
    """Maximise a `Bound` by Adam, AdaGrad or AdaDelta over minibatches of N points, of almost equal size.

    Parameters that the bound does not fix are changed in place. The learning rate is `rate` for half of the steps, then
    falls to zero.
    """

    random: np.random.Generator

    def __init__(
        self,
        method: MLGPFMethod,
        coordinates: Inputs | Selected,
        labels: csr_array,
        inducing: NDArray[np.floating] | None,
        rate: float,
    ) -> None:
        settings = method.settings
        N = labels.shape[0]
        self.random = np.random.default_rng(settings.seed)
        self.epochs = settings.epoch_count(N)
        self._method = method
        self._coordinates = coordinates
        self._labels = labels
        self._rate = rate
        self._choose_pairs = method.pairs(labels)
        self._bound = method.bound(coordinates)
        self._parameters = method.initial(coordinates, labels, inducing, self.random)
        fixed = self._bound.fixed
        self._moving = {name: value for name, value in self._parameters.items() if name not in fixed}
        optimiser = OPTIMISERS[settings.optimiser or settings.method.optimiser]
        self._optimiser = optimiser(self._moving, self._bound.latent.relative)
        self.steps_per_epoch = -(-N // settings.points_in_batch(N))
        #: Points in the order in which the current epoch visits them.
        self._order = np.zeros(N, np.int64)

    def step(self, epoch: int, done: int) -> float | None:
        """Update with one minibatch; at every `BOUND_EVERY`-th step return an estimate of the bound before.

        Nothing but the random generator has changed if the gradients cannot be computed.
        """
        order = self._order if done else self.random.permutation(len(self._order))
        number = epoch * self.steps_per_epoch + done
        bound_needed = not done or number % BOUND_EVERY == 0
        rows = np.array_split(order, self.steps_per_epoch)[done]
        batch = make_batch(self._coordinates, self._labels, rows, lambda y: self._choose_pairs(y, self.random))
        value, gradients = self._bound.value_and_gradients(self._parameters, batch, bound_needed, for_step=True)
        if not done:
            self._order[:] = order
        self._optimiser.step_count = number
        rate = self._rate * falling_rate(number / (self.epochs * self.steps_per_epoch))
        self._optimiser.step(self._parameters, gradients, rate)
        return value if bound_needed else None

    def check_restored(self, epoch: int, done: int) -> None:
        """Raise ValueError unless the order of an epoch that has begun has each point once."""
        if done and not np.array_equal(np.sort(self._order), np.arange(len(self._order))):
            raise ValueError("the order does not have each point once")

    def end(self) -> None:
        """Free the state of the optimiser."""
        self._optimiser.state.clear()

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that steps change, by name."""
        arrays = {f"parameters.{name}": value for name, value in self._moving.items()}
        arrays |= {f"optimiser.{name}": value for name, value in self._optimiser.state.items()}
        return arrays | {"order": self._order}

    def parameters(self, epochs: int = 0) -> Parameters:
        """Return the parameters of the model by name; steps may change these arrays."""
        return self._method.trained(self._parameters)
