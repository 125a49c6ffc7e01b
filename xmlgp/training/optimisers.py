"""Stochastic gradient ascent: Adam and AdaDelta over the flat mapping of parameters, updated in place."""

import numpy as np

__all__ = ["OPTIMISERS", "AdaDelta", "Adam"]

#: Elements a chunk: the handful of arrays of an update stay in a core's own cache.
CHUNK = 32768


class _Optimiser:
    """Shared walk over parameters; subclasses name their statistics and update one chunk."""

    statistics = ()

    def __init__(self, parameters):
        self.step_count = 0
        self.state = {
            f"{name}/{statistic}": np.zeros_like(value)
            for name, value in parameters.items()
            for statistic in self.statistics
        }

    def step(self, parameters, gradients, learning_rate):
        """Move `parameters` up along `gradients`, in place.

        Parameters
        ----------
        parameters : mapping of str to ndarray
            C-contiguous arrays.
        gradients : mapping of str to ndarray
            Of those parameters that move; of the same shapes.
        learning_rate : float
        """
        self.step_count += 1
        for name, gradient in gradients.items():
            arrays = [parameters[name], gradient, *(self.state[f"{name}/{s}"] for s in self.statistics)]
            flat = [array.reshape(-1) for array in arrays]
            for start in range(0, gradient.size, CHUNK):
                self._update(learning_rate, *(array[start : start + CHUNK] for array in flat))


class Adam(_Optimiser):
    """Adam (Kingma and Ba 2015), without weight decay: the prior is in the bound.

    Parameters
    ----------
    parameters : mapping of str to ndarray
        Those that will move.
    """

    statistics = ("mean", "square")
    usual_rate = 0.02
    decay_mean, decay_square, epsilon = 0.9, 0.999, 1e-8

    def _update(self, learning_rate, value, gradient, mean, square):
        mean *= self.decay_mean
        mean += (1 - self.decay_mean) * gradient
        square *= self.decay_square
        change = gradient * gradient
        change *= 1 - self.decay_square
        square += change
        # The corrections for the zero start of both averages are folded into the rate and epsilon.
        correction = np.sqrt(1 - self.decay_square**self.step_count)
        rate = learning_rate * correction / (1 - self.decay_mean**self.step_count)
        np.sqrt(square, out=change)
        change += self.epsilon * correction
        np.divide(mean, change, out=change)
        change *= rate
        value += change


class AdaDelta(_Optimiser):
    """AdaDelta (Zeiler 2012), the optimiser of [I]; `learning_rate` multiplies its own step (1 in the paper).

    Parameters
    ----------
    parameters : mapping of str to ndarray
        Those that will move.
    """

    statistics = ("square", "change")
    usual_rate = 1.0
    decay, epsilon = 0.95, 1e-6

    def _update(self, learning_rate, value, gradient, square, change):
        square *= self.decay
        square += (1 - self.decay) * gradient * gradient
        move = np.sqrt((change + self.epsilon) / (square + self.epsilon)) * gradient
        change *= self.decay
        change += (1 - self.decay) * move * move
        value += learning_rate * move


OPTIMISERS = {"adam": Adam, "adadelta": AdaDelta}
