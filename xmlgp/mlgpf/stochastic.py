"""Stochastic gradient ascent on the bound of MLGPF."""

import numpy as np

from xmlgp.mlgpf.initial import initial_parameters
from xmlgp.training.inference import Inference
from xmlgp.training.minibatches import SAMPLERS, LabelSampler, make_batch
from xmlgp.training.optimisers import OPTIMISERS
from xmlgp.training.schedules import SCHEDULES, batch_size_of_epoch

__all__ = ["BOUND_EVERY", "StochasticAscent", "default_rate", "optimiser_of"]

#: Steps from one evaluation of the bound to the next; its gradients alone are cheaper.
BOUND_EVERY = 10


def default_rate(settings):
    """Return the learning rate of settings (`MLGPFSettings`), or by default that of their optimiser."""
    return settings.learning_rate or optimiser_of(settings).default_rate


def optimiser_of(settings):
    """Return the class of the optimiser of settings (`MLGPFSettings`), by default that of their inducing inputs."""
    return OPTIMISERS[settings.optimiser or ("adagrad" if settings.in_weight_space else "adam")]


class StochasticAscent(Inference):
    """Maximise the bound of MLGPF by Adam, AdaGrad or AdaDelta over minibatches.

    Parameters
    ----------
    model : MLGPF
    coordinates : Inputs
        Of the N training points.
    labels : csr_array, N×K
        Y.
    inducing : ndarray, M×R or M×D
        Initial A or Z.
    learning_rate : float, optional
        Learning rate, if not that of the settings; the history has it then.
    """

    advice = "try a lower learning_rate or another weighting"
    advice_at_start = "try another weighting, lengthscale or diagonal"

    def __init__(self, model, coordinates, labels, inducing, learning_rate=None):
        settings, N = model.settings, labels.shape[0]
        self.random = np.random.default_rng(settings.seed)
        self._model, self._coordinates, self._labels = model, coordinates, labels
        self._parameters = initial_parameters(model, coordinates, labels, inducing, self.random)
        self._bound = model.make_bound(coordinates)
        self._moving = {name: value for name, value in self._parameters.items() if name not in self._bound.fixed}
        self._optimiser = optimiser_of(settings)(self._moving)
        self._default_rate = default_rate(settings)
        self._rate = learning_rate or self._default_rate
        self._schedule, self._sampler = SCHEDULES[settings.schedule], SAMPLERS[settings.sampling](labels)
        #: Negatives of each point, or those that the points of a minibatch share.
        self._negatives = None if settings.in_weight_space else settings.negatives
        self._label_sampler = LabelSampler(labels, settings.label_sample) if settings.in_weight_space else None
        self.epochs = settings.epoch_count(N)
        last = settings.points_in_batch(N)
        first = settings.batch_size_first or last
        sizes = [batch_size_of_epoch(epoch, self.epochs, first, last) for epoch in range(self.epochs)]
        #: Minibatches of each epoch, and those of all epochs before it.
        self._counts = [-(-N // size) for size in sizes]
        self._before = np.cumsum([0, *self._counts]).tolist()
        #: Points in the order in which the current epoch visits them.
        self._order = np.zeros(N, np.int64)

    def steps_in(self, epoch):
        """Return the number of minibatches of an epoch, counted from 0."""
        return self._counts[epoch]

    def step(self, epoch, done):
        """Update with one minibatch; at every `BOUND_EVERY`-th step return an estimate of the bound before.

        Nothing but the random generator has changed if the gradients cannot be computed.
        """
        order = self._order if done else self.random.permutation(len(self._order))
        number = self._before[epoch] + done
        wanted = not done or number % BOUND_EVERY == 0
        value, gradients = self._value_and_gradients(_minibatch(order, self._counts[epoch], done), wanted)
        if not done:
            self._order[:] = order
        self._optimiser.step_count = number
        self._optimiser.step(self._parameters, gradients, self._rate * self._schedule(number / self._before[-1]))
        return value if wanted else None

    def _value_and_gradients(self, rows, value_needed):
        """Return what `Bound.value_and_gradients` does for a step with the minibatch of some rows."""
        batch = make_batch(self._coordinates, self._labels, rows, self._negatives, self.random, self._sampler)
        if self._label_sampler is not None:
            batch = batch._replace(
                sample=self._label_sampler.sample(batch.labels, self.random, self._coordinates.dtype)
            )
        return self._bound.value_and_gradients(self._parameters, batch, value_needed, for_step=True)

    def free(self):
        """Free the state of the optimiser, after the last step."""
        self._optimiser.state.clear()

    def arrays(self):
        """Return the arrays that steps change, by name."""
        arrays = {f"parameters.{name}": value for name, value in self._moving.items()}
        arrays |= {f"optimiser.{name}": value for name, value in self._optimiser.state.items()}
        return arrays | {"order": self._order}

    def parameters(self, epochs):
        """Return the parameters of the model by name; steps may change these arrays."""
        return self._model.trained(self._parameters)

    def notes(self):
        """Return the learning rate if it is not that of the settings."""
        return {} if self._rate == self._default_rate else {"learning_rate": self._rate}


def _minibatch(order, count, number):
    """Return one of `count` almost equal parts of an array, counted from 0: that of `numpy.array_split`."""
    size, longer = divmod(len(order), count)
    start = number * size + min(number, longer)
    return order[start : start + size + (number < longer)]
