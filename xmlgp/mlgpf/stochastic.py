"""Stochastic gradient ascent on the bound of MLGPF, a stage of its training."""

import numpy as np

from xmlgp.gp.likelihood import IndexedRows
from xmlgp.mlgpf.sweep import PAIR_COST
from xmlgp.training.inference import Inference
from xmlgp.training.minibatches import make_batch
from xmlgp.training.optimisers import OPTIMISERS, falling_rate

__all__ = ["BOUND_EVERY", "Stochastic", "default_rate", "optimiser_of"]

#: Steps from one evaluation of the bound to the next; its gradients alone are cheaper.
BOUND_EVERY = 10

#: One of so many steps measures gradients only, where trained parameters move on.
MEASURING_SHARE = 10


def optimiser_of(settings):
    """Return the class of the optimiser of settings (`MLGPFSettings`)."""
    return OPTIMISERS[settings.optimiser or settings.method.optimiser]


def default_rate(settings):
    """Return the learning rate of settings (`MLGPFSettings`), or by default that of their optimiser."""
    return settings.learning_rate or optimiser_of(settings).default_rate


class Stochastic(Inference):
    """Maximise a `Bound` by Adam, AdaGrad or AdaDelta over minibatches of N points, of almost equal size.

    The learning rate is `rate` for half of the steps, then falls to zero. Parameters that the bound does not fix are
    changed in place; loadings only of the labels that are `free` (ndarray of bool, K), by default of all.

    Parameters that have been trained by `earlier_steps` steps have no statistics of the optimiser. The first steps,
    `MEASURING_SHARE` of all, make these then, and move nothing.
    """

    def __init__(
        self,
        method,
        bound,
        parameters,
        coordinates,
        labels,
        random,
        *,
        batch_size,
        epochs,
        rate,
        free=None,
        earlier_steps=0,
    ):
        self.random = random
        self.epochs = epochs
        self._rate = rate
        self._free = free
        self._earlier_steps = earlier_steps
        self._method = method
        self._bound = bound
        self._parameters = parameters
        self._coordinates = coordinates
        self._labels = labels
        self._samplers = method.samplers(labels)
        self._moving = {name: value for name, value in parameters.items() if name not in bound.fixed}
        self._optimiser = optimiser_of(method.settings)(self._moving)
        N = labels.shape[0]
        self.steps_per_epoch = -(-N // batch_size)
        self._steps = self.epochs * self.steps_per_epoch
        self._measuring = -(-self._steps // MEASURING_SHARE) if earlier_steps else 0
        #: Points in the order in which the current epoch visits them.
        self._order = np.zeros(N, np.int64)

    def cost(self, epoch, done):
        """Return the time of a step in multiplications, in weight space, where sweeps follow."""
        (N, K) = self._labels.shape
        settings = self._method.settings
        points = N / self.steps_per_epoch
        # All points of a minibatch share its labels.
        count = settings.label_sample + points * self._labels.nnz / N
        return points * min(K, count) * (3 * settings.factor_count + PAIR_COST)

    def step(self, epoch, done):
        """Update with one minibatch; at every `BOUND_EVERY`-th step return an estimate of the bound before.

        Nothing but the random generator has changed if the gradients cannot be computed.
        """
        order = self._order if done else self.random.permutation(len(self._order))
        number = epoch * self.steps_per_epoch + done
        wanted = not done or number % BOUND_EVERY == 0
        rows = _part(order, self.steps_per_epoch, done)
        batch = make_batch(self._coordinates, self._labels, rows, random=self.random, **self._samplers)
        value, gradients = self._bound.value_and_gradients(self._parameters, batch, wanted, for_step=True)
        if self._free is not None:
            gradients["loadings"] = _masked(gradients["loadings"], self._free)
        if not done:
            self._order[:] = order
        self._optimiser.step_count = number
        if number and number == self._measuring:
            self._optimiser.continue_from(self._earlier_steps / self._measuring)
        rate = self._rate * falling_rate(number / self._steps) if number >= self._measuring else 0.0
        self._optimiser.step(self._parameters, gradients, rate)
        return value if wanted else None

    def check_restored(self, epoch: int, done: int) -> None:
        """Raise ValueError unless each point has its place in the order of an epoch that has begun."""
        if done and not np.array_equal(np.sort(self._order), np.arange(len(self._order))):
            raise ValueError("the order does not have each point once")

    def end(self):
        """Free the state of the optimiser."""
        self._optimiser.state.clear()

    def arrays(self):
        """Return the arrays that steps change, by name."""
        arrays = {f"parameters.{name}": value for name, value in self._moving.items()}
        arrays |= {f"optimiser.{name}": value for name, value in self._optimiser.state.items()}
        return arrays | {"order": self._order}

    def parameters(self, epochs=None):
        """Return the parameters of the model by name; steps may change these arrays."""
        return self._method.trained(self._bound, self._parameters)


def _part(order, count, number):
    """Return one of `count` almost equal parts of an array, counted from 0: that of `numpy.array_split`."""
    size, longer = divmod(len(order), count)
    start = number * size + min(number, longer)
    return order[start : start + size + (number < longer)]


def _masked(gradient, free):
    """Return a gradient with zeros for the labels that are not free."""
    if isinstance(gradient, IndexedRows):
        kept = free[gradient.indices]
        return IndexedRows(gradient.indices[kept], gradient.values[kept])
    return gradient * free[:, None]
