"""Stochastic gradient ascent: Adam and AdaDelta over the flat mapping of parameters, updated in place."""

import numpy as np

from xmlgp.gp.likelihood import IndexedRows
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.runtime.threads import parallel_for

__all__ = ["OPTIMISERS", "AdaDelta", "Adam"]

#: Elements that are worth a thread.
GRAIN = 1 << 16

#: Elements of an array that are updated in a row.
STRETCH = 1 << 12

#: Largest gradient that counts: squares of larger ones overflow in single precision, and the parameter would stay where
#: it is.
GREATEST = 1e18


class _Optimiser:
    """Shared walk over parameters; subclasses name their statistics and update stretches of flat arrays."""

    statistics = ()

    def __init__(self, parameters, rates=()):
        self.step_count = 0
        self.rates = dict(rates)
        self.state = {
            f"{name}/{statistic}": np.zeros_like(value)
            for name, value in parameters.items()
            for statistic in self.statistics
        }

    def step(self, parameters, gradients, learning_rate):
        """Move `parameters` up along `gradients`, in place.

        Where a gradient is that of some rows only, the others stay as they are, with their statistics: the cost is
        that of the rows in use.

        Parameters
        ----------
        parameters : mapping of str to ndarray
            Each contiguous, in C's or Fortran's order; in C's where the gradient is `IndexedRows`.
        gradients : mapping of str to ndarray or IndexedRows
            Of those parameters that move; of the same shapes.
        learning_rate : float
        """
        self.step_count += 1
        for name, gradient in gradients.items():
            arrays = [parameters[name], *(self.state[f"{name}/{statistic}"] for statistic in self.statistics)]
            dtype = arrays[0].dtype
            scalars = self._scalars(learning_rate * self.rates.get(name, 1), dtype)
            if isinstance(gradient, IndexedRows):
                values = np.ascontiguousarray(gradient.values, dtype)
                width = values[:1].size
                starts = gradient.indices * width
            else:
                order = "F" if arrays[0].flags.f_contiguous else "C"
                arrays = [array.ravel(order) for array in arrays]
                values = np.asarray(gradient, dtype, order=order).ravel(order)
                width = STRETCH  # the last one is shorter
                starts = np.arange(0, values.size, width)
            self._stretches([array.reshape(-1) for array in arrays], values.reshape(-1), starts, width, scalars)

    def _stretches(self, arrays, values, starts, width, scalars):
        def part(i, j):
            self._update(starts[i:j], width, *arrays, values[i * width : j * width], *scalars)

        parallel_for(part, len(starts), GRAIN // max(1, width))


class Adam(_Optimiser):
    """Adam (Kingma and Ba 2015), without weight decay: the prior is in the bound.

    Parameters
    ----------
    parameters : mapping of str to ndarray
        Those that will move.
    rates : mapping of str to float
        Multiples of the learning rate by parameter name, where not 1.
    """

    statistics = ("mean", "square")
    usual_rate = 0.02
    decay_mean, decay_square, epsilon = 0.9, 0.999, 1e-8

    def _scalars(self, learning_rate, dtype):
        # The corrections for the zero start of both averages are folded into the rate and epsilon.
        correction = np.sqrt(1 - self.decay_square**self.step_count)
        rate = learning_rate * correction / (1 - self.decay_mean**self.step_count)
        return tuple(map(dtype.type, (rate, self.epsilon * correction, self.decay_mean, self.decay_square)))

    @staticmethod
    @compiled
    def _update(starts, width, values, means, squares, gradients, rate, epsilon, decay_mean, decay_square):
        one, greatest = values.dtype.type(1), values.dtype.type(GREATEST)
        for s in range(starts.size):
            stretch = slice(starts[s], starts[s] + width)
            value, mean, square = values[stretch], means[stretch], squares[stretch]
            gradient = gradients[s * width : (s + 1) * width]
            for k in range(gradient.size):
                # What is no number stays so.
                g = greatest if gradient[k] > greatest else -greatest if gradient[k] < -greatest else gradient[k]
                mean[k] = decay_mean * mean[k] + (one - decay_mean) * g
                square[k] = decay_square * square[k] + (one - decay_square) * g * g
                value[k] += rate * mean[k] / (np.sqrt(square[k]) + epsilon)


class AdaDelta(_Optimiser):
    """AdaDelta (Zeiler 2012), the optimiser of [I]; `learning_rate` multiplies its own step (1 in the paper).

    Parameters
    ----------
    parameters : mapping of str to ndarray
        Those that will move.
    rates : mapping of str to float
        Multiples of the learning rate by parameter name, where not 1.
    """

    statistics = ("square", "change")
    usual_rate = 1.0
    decay, epsilon = 0.95, 1e-6

    def _scalars(self, learning_rate, dtype):
        return tuple(map(dtype.type, (learning_rate, self.decay, self.epsilon)))

    @staticmethod
    @compiled
    def _update(starts, width, values, squares, changes, gradients, rate, decay, epsilon):
        one, greatest = values.dtype.type(1), values.dtype.type(GREATEST)
        for s in range(starts.size):
            stretch = slice(starts[s], starts[s] + width)
            value, square, change = values[stretch], squares[stretch], changes[stretch]
            gradient = gradients[s * width : (s + 1) * width]
            for k in range(gradient.size):
                # What is no number stays so.
                g = greatest if gradient[k] > greatest else -greatest if gradient[k] < -greatest else gradient[k]
                square[k] = decay * square[k] + (one - decay) * g * g
                move = np.sqrt((change[k] + epsilon) / (square[k] + epsilon)) * g
                change[k] = decay * change[k] + (one - decay) * move * move
                value[k] += rate * move


OPTIMISERS = {"adam": Adam, "adadelta": AdaDelta}
