"""Stochastic variational inference for GPC by AdaDelta: the baseline of [I]."""

from scipy.sparse import csr_array

from xmlgp.gpc.model import GPC
from xmlgp.training.inference import Inference
from xmlgp.training.minibatches import SeededMinibatches, make_batch
from xmlgp.training.optimisers import AdaDelta

__all__ = ["SVIAdaDelta"]


class SVIAdaDelta(Inference):
    """Maximise the bound [I] (11) over q(u) and the hyperparameters by AdaDelta over minibatches."""

    advice = "try a lower learning_rate"
    advice_at_start = "check the scale of the features"

    def __init__(self, coordinates, positive, inducing, settings):
        model = GPC()
        self._bound, self._all = model.uncollapsed(inducing, settings.nodes)
        self._names = model.parameter_names()
        self._moving = {name: value for name, value in self._all.items() if name not in self._bound.fixed}
        self._adadelta = AdaDelta(self._moving)
        self._rate = settings.learning_rate or AdaDelta.default_rate
        self._settings, self._coordinates = settings, coordinates
        self._labels = csr_array(positive[:, None])
        self._minibatches = SeededMinibatches(len(positive), settings.batch_size, settings.seed)
        self.epochs, self.steps_per_epoch = settings.passes, len(self._minibatches)

    def arrays(self):
        """Return the arrays that steps change, by name."""
        arrays = {f"parameters.{name}": value for name, value in self._moving.items()}
        return arrays | {f"optimiser.{name}": value for name, value in self._adadelta.state.items()}

    def parameters(self, epochs):
        """Return the parameters of the model, by the names in `GPC.parameter_names`."""
        return {name: self._all[name].copy() for name in self._names}

    def step(self, epoch, done):
        """Update with one minibatch; return an estimate of the bound before the update."""
        batch = make_batch(self._coordinates, self._labels, self._minibatches.rows(epoch, done))
        value, gradients = self._bound.value_and_gradients(self._all, batch)
        self._adadelta.step(self._all, gradients, self._rate)
        return value
