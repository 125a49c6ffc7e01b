"""Stochastic gradient ascent: Adam, AdaGrad and AdaDelta, which update parameters in place, and their rate."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from xmlgp.gp.parameters import IndexedRows
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.runtime.blocks import row_blocks
from xmlgp.runtime.threads import run_parallel

__all__ = ["OPTIMISERS", "AdaDelta", "AdaGrad", "Adam", "falling_rate"]

#: Number of elements of an array that a thread updates at a time.
BLOCK = 1 << 17

#: Gradients are clipped to this absolute value: squares of larger ones overflow in single precision, so that the
#: parameter would not move.
LARGEST_GRADIENT = 1e18

#: Least root mean square of a parameter with relative steps: one that is zero moves, too.
LEAST_UNIT = 1e-3


@compiled
def _clip(gradient: float, limit: float) -> float:
    """Return a number clipped to ±limit, and NaN as it is, because the training loop has to see it."""
    return limit if gradient > limit else -limit if gradient < -limit else gradient


class _Optimiser:
    """Base class, made of the parameters that move: a subclass names its statistics and updates elements.

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
        statistics do not change, and cost nothing. Parameters are contiguous.
        """
        self.step_count += 1
        for name, gradient in gradients.items():
            arrays = [parameters[name], *(self.state[f"{name}/{statistic}"] for statistic in self.statistics)]
            rate = learning_rate
            if name in self._relative:
                rate *= max(LEAST_UNIT, float(np.linalg.norm(arrays[0])) / math.sqrt(max(1, arrays[0].size)))
            if isinstance(gradient, IndexedRows):
                self._update_rows(rate, gradient.values, arrays, gradient.indices)
            else:
                order: Literal["F", "C"] = "F" if arrays[0].flags.f_contiguous else "C"
                self._update_rows(rate, gradient.ravel(order), [array.ravel(order) for array in arrays])

    def _update_rows(
        self, rate: float, gradients: NDArray[Any], arrays: list[NDArray[Any]], indices: NDArray[Any] | None = None
    ) -> None:
        """Update the parameter and its statistics, or their rows of some indices, given the gradients of these."""

        def update(rows: slice) -> None:
            chosen = rows if indices is None else indices[rows]
            # Views of slices, copies of indexed rows.
            values = [array[chosen] for array in arrays]
            dtype = arrays[0].dtype
            chosen_gradients = gradients[rows].astype(dtype, copy=False)
            scalars = tuple(map(dtype.type, self._scalars(rate)))
            self._update(chosen_gradients.ravel(), *(value.reshape(-1) for value in values), *scalars)
            if indices is not None:
                for array, updated in zip(arrays, values, strict=True):
                    array[chosen] = updated

        row_count = max(1, BLOCK // max(1, gradients[:1].size))
        run_parallel(partial(update, rows) for rows in row_blocks(len(gradients), row_count))

    def _scalars(self, rate: float) -> tuple[float, ...]:
        """Return the numbers that an update needs, given the learning rate."""
        raise NotImplementedError

    #: Updates values and their statistics in place, given the gradients g, all one-dimensional, and the scalars.
    #: Compiled, because NumPy makes ten passes where this makes one: a step takes a third of the time.
    _update: ClassVar[Callable[..., None]]


class Adam(_Optimiser):
    """Adam (Kingma and Ba 2015), without weight decay, because the bound contains the prior."""

    statistics = ("mean", "square")
    default_rate = 0.02
    decay_mean = 0.9
    decay_square = 0.999
    epsilon = 1e-8

    def _scalars(self, rate: float) -> tuple[float, ...]:
        # The corrections of both averages for their zero start are folded into the rate and epsilon.
        correction = math.sqrt(1 - self.decay_square**self.step_count)
        rate *= correction / (1 - self.decay_mean**self.step_count)
        return rate, self.epsilon * correction, self.decay_mean, self.decay_square

    @staticmethod
    @compiled
    def _update(  # noqa: PLR0913, which are arrays and numbers of one loop
        gradient: NDArray[Any],
        value: NDArray[Any],
        mean: NDArray[Any],
        square: NDArray[Any],
        rate: float,
        epsilon: float,
        decay_mean: float,
        decay_square: float,
    ) -> None:
        one = value.dtype.type(1)
        limit = value.dtype.type(LARGEST_GRADIENT)
        for k in range(len(gradient)):
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

    def _scalars(self, rate: float) -> tuple[float, ...]:
        return rate, self.epsilon

    @staticmethod
    @compiled
    def _update(gradient: NDArray[Any], value: NDArray[Any], square: NDArray[Any], rate: float, epsilon: float) -> None:
        limit = value.dtype.type(LARGEST_GRADIENT)
        for k in range(len(gradient)):
            g = _clip(gradient[k], limit)
            square[k] += g * g
            value[k] += rate * g / (np.sqrt(square[k]) + epsilon)


class AdaDelta(_Optimiser):
    """AdaDelta (Zeiler 2012), the optimiser of [I]; the learning rate multiplies its own step, 1 in the paper."""

    statistics = ("square", "change")
    default_rate = 1.0
    decay = 0.95
    epsilon = 1e-6

    def __init__(self, parameters: Mapping[str, NDArray[Any]], relative: Collection[str] = ()) -> None:
        # Its steps have the units of the parameter already.
        super().__init__(parameters)

    def _scalars(self, rate: float) -> tuple[float, ...]:
        return rate, self.decay, self.epsilon

    @staticmethod
    @compiled
    def _update(
        gradient: NDArray[Any],
        value: NDArray[Any],
        square: NDArray[Any],
        change: NDArray[Any],
        rate: float,
        decay: float,
        epsilon: float,
    ) -> None:
        one = value.dtype.type(1)
        limit = value.dtype.type(LARGEST_GRADIENT)
        for k in range(len(gradient)):
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
