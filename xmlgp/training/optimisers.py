"""Stochastic gradient ascent: Adam, AdaGrad and AdaDelta, which update parameters in place, and their rate."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from xmlgp.gp.parameters import IndexedRows
from xmlgp.linear_algebra.compiled import compiled, compiled_part
from xmlgp.runtime.threads import parallel_for

__all__ = ["OPTIMISERS", "AdaDelta", "AdaGrad", "Adam", "falling_rate"]

#: Least number of elements per thread.
GRAIN = 1 << 16

#: Number of elements of an array that are updated at a time.
BLOCK = 1 << 12

#: Gradients are clipped to this absolute value: squares of larger ones overflow in single precision, so that the
#: parameter would not move.
LARGEST_GRADIENT = 1e18

#: Least root mean square of a parameter with relative steps: one that is zero moves, too.
LEAST_UNIT = 1e-3


@compiled_part
def _clip(gradient: float, limit: float) -> float:
    """Return a number clipped to ±limit, and NaN as it is, because the training loop has to see it."""
    return limit if gradient > limit else -limit if gradient < -limit else gradient


class _Optimiser:
    """Base class, made of the parameters that move: a subclass names its statistics and updates flat blocks.

    Parameters named `relative` have their root mean square as the unit of steps (Shazeer and Stern 2018, section 8).
    """

    statistics: tuple[str, ...] = ()

    def __init__(self, parameters: Mapping[str, NDArray[Any]], relative: Collection[str] = ()) -> None:
        self.step_count = 0
        self._relative = frozenset(relative)
        self.state = {
            f"{name}/{statistic}": np.zeros_like(value)
            for name, value in parameters.items()
            for statistic in self.statistics
        }

    def step(
        self,
        parameters: Mapping[str, NDArray[Any]],
        gradients: Mapping[str, NDArray[Any] | IndexedRows],
        learning_rate: float,
    ) -> None:
        """Make one step upwards; parameters and statistics change in place.

        The gradients are those of the parameters that move. If one is `IndexedRows`, the other rows and their
        statistics do not change, and cost nothing. Parameters are contiguous; in C order if the gradient is
        `IndexedRows`.
        """
        self.step_count += 1
        for name, gradient in gradients.items():
            arrays = [parameters[name], *(self.state[f"{name}/{statistic}"] for statistic in self.statistics)]
            dtype = arrays[0].dtype
            unit = self._unit(arrays[0]) if name in self._relative else 1.0
            scalars = self._scalars(learning_rate * unit, dtype)
            if isinstance(gradient, IndexedRows):
                values = np.ascontiguousarray(gradient.values, dtype)
                width = values[:1].size
                # One type for all parameters, of which the update is compiled once.
                starts = gradient.indices.astype(np.int64) * width
            else:
                order: Literal["F", "C"] = "F" if arrays[0].flags.f_contiguous else "C"
                arrays = [array.ravel(order) for array in arrays]
                values = np.asarray(gradient, dtype, order=order).ravel(order)
                width = BLOCK  # the last block is shorter
                starts = np.arange(0, values.size, width)
            self._update_blocks([array.reshape(-1) for array in arrays], values.reshape(-1), starts, width, scalars)

    def _unit(self, value: NDArray[Any]) -> float:
        """Return the unit of relative steps of a parameter."""
        elements = value.ravel("K")
        return max(LEAST_UNIT, math.sqrt(np.vdot(elements, elements) / max(1, elements.size)))

    def _scalars(self, learning_rate: float, dtype: np.dtype[np.floating]) -> tuple[np.floating, ...]:
        """Return the numbers that an update needs, in the type of the parameters."""
        raise NotImplementedError

    #: Update blocks of `width` elements that begin at `starts`, given the scalars.
    _update: ClassVar[Callable[..., None]]

    def _update_blocks(
        self,
        arrays: list[NDArray[Any]],
        values: NDArray[Any],
        starts: NDArray[Any],
        width: int,
        scalars: tuple[np.floating, ...],
    ) -> None:
        def part(i: int, j: int) -> None:
            self._update(starts[i:j], width, arrays[0], tuple(arrays[1:]), values[i * width : j * width], scalars)

        parallel_for(part, len(starts), GRAIN // max(1, width))


class Adam(_Optimiser):
    """Adam (Kingma and Ba 2015), without weight decay, because the bound contains the prior."""

    statistics = ("mean", "square")
    default_rate = 0.02
    decay_mean = 0.9
    decay_square = 0.999
    epsilon = 1e-8

    def _scalars(self, learning_rate: float, dtype: np.dtype[np.floating]) -> tuple[np.floating, ...]:
        # The corrections of both averages for their zero start are folded into the rate and epsilon.
        correction = np.sqrt(1 - self.decay_square**self.step_count)
        rate = learning_rate * correction / (1 - self.decay_mean**self.step_count)
        return tuple(map(dtype.type, (rate, self.epsilon * correction, self.decay_mean, self.decay_square)))

    @staticmethod
    @compiled
    def _update(
        starts: NDArray[Any],
        width: int,
        values: NDArray[Any],
        statistics: tuple[NDArray[Any], ...],
        gradients: NDArray[Any],
        scalars: tuple[np.floating, ...],
    ) -> None:
        means, squares = statistics
        rate, epsilon, decay_mean, decay_square = scalars
        one = values.dtype.type(1)
        limit = values.dtype.type(LARGEST_GRADIENT)
        for s in range(starts.size):
            block = slice(starts[s], starts[s] + width)
            value = values[block]
            mean = means[block]
            square = squares[block]
            gradient = gradients[s * width : (s + 1) * width]
            for k in range(gradient.size):
                g = _clip(gradient[k], limit)
                mean[k] = decay_mean * mean[k] + (one - decay_mean) * g
                square[k] = decay_square * square[k] + (one - decay_square) * g * g
                value[k] += rate * mean[k] / (np.sqrt(square[k]) + epsilon)


class AdaGrad(_Optimiser):
    """AdaGrad (Duchi, Hazan, Singer 2011): steps shrink with the sum of the squared gradients of each element.

    A row that rarely has a gradient keeps its large steps, and nothing has to be updated where there is none.
    """

    statistics = ("square",)
    default_rate = 0.1
    epsilon = 1e-8

    def _scalars(self, learning_rate: float, dtype: np.dtype[np.floating]) -> tuple[np.floating, ...]:
        return tuple(map(dtype.type, (learning_rate, self.epsilon)))

    @staticmethod
    @compiled
    def _update(
        starts: NDArray[Any],
        width: int,
        values: NDArray[Any],
        statistics: tuple[NDArray[Any], ...],
        gradients: NDArray[Any],
        scalars: tuple[np.floating, ...],
    ) -> None:
        (squares,) = statistics
        rate, epsilon = scalars
        limit = values.dtype.type(LARGEST_GRADIENT)
        for s in range(starts.size):
            block = slice(starts[s], starts[s] + width)
            value = values[block]
            square = squares[block]
            gradient = gradients[s * width : (s + 1) * width]
            for k in range(gradient.size):
                g = _clip(gradient[k], limit)
                square[k] += g * g
                value[k] += rate * g / (np.sqrt(square[k]) + epsilon)


class AdaDelta(_Optimiser):
    """AdaDelta (Zeiler 2012), the optimiser of [I]; the learning rate multiplies its own step, 1 in the paper."""

    statistics = ("square", "change")
    default_rate = 1.0
    decay = 0.95
    epsilon = 1e-6

    def _unit(self, value: NDArray[Any]) -> float:
        """Return one: AdaDelta's steps have the units of the parameter already."""
        return 1.0

    def _scalars(self, learning_rate: float, dtype: np.dtype[np.floating]) -> tuple[np.floating, ...]:
        return tuple(map(dtype.type, (learning_rate, self.decay, self.epsilon)))

    @staticmethod
    @compiled
    def _update(
        starts: NDArray[Any],
        width: int,
        values: NDArray[Any],
        statistics: tuple[NDArray[Any], ...],
        gradients: NDArray[Any],
        scalars: tuple[np.floating, ...],
    ) -> None:
        squares, changes = statistics
        rate, decay, epsilon = scalars
        one = values.dtype.type(1)
        limit = values.dtype.type(LARGEST_GRADIENT)
        for s in range(starts.size):
            block = slice(starts[s], starts[s] + width)
            value = values[block]
            square = squares[block]
            change = changes[block]
            gradient = gradients[s * width : (s + 1) * width]
            for k in range(gradient.size):
                g = _clip(gradient[k], limit)
                square[k] = decay * square[k] + (one - decay) * g * g
                move = np.sqrt((change[k] + epsilon) / (square[k] + epsilon)) * g
                change[k] = decay * change[k] + (one - decay) * move * move
                value[k] += rate * move


OPTIMISERS: dict[str, type[Adam | AdaGrad | AdaDelta]] = {"adam": Adam, "adagrad": AdaGrad, "adadelta": AdaDelta}


def falling_rate(progress: float) -> float:
    """Return the factor of a learning rate, 1 for the first half of the steps, then falling to 0.

    The progress is the share of all steps made.
    """
    return min(1.0, 2.0 * (1.0 - progress))
