"""What held-out points choose of the regression on the nearest training points, and what they measure."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["BEST", "CHOICES", "RECALL", "Choices", "Kernel", "Recall", "in_words"]

#: The names of these numbers in a model.
CHOICES = "neighbours.choices"
RECALL = "neighbours.recall"

#: The best labels of a point whose recall is measured.
BEST = 5


class Kernel(NamedTuple):
    """ℓ² of words, γ of dense features, and the variance σ² of the noise; that of the kernel is one."""

    squared_lengthscale: float
    dense_relevance: float
    noise: float


class Choices(NamedTuple):
    """What held-out points choose: the kernel, w and r of the pool."""

    kernel: Kernel
    weight: float
    rarity: float

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> Choices:
        """Return the choices of `values`."""
        *kernel, weight, rarity = values.tolist()
        return cls(Kernel(*kernel), weight, rarity)

    def weights_of(self, counts: NDArray[np.integer]) -> NDArray[np.float32]:
        """Return w_k of labels, given how many training points have each, K."""
        weights = self.weight * counts / np.maximum(counts + self.rarity, 1)
        return np.asarray(weights, np.float32)

    def values(self) -> NDArray[np.float64]:
        """Return the numbers, ℓ², γ, σ², w and r."""
        return np.array([*self.kernel, self.weight, self.rarity])


class Recall(NamedTuple):
    """The share of the nearest points that the search finds, and of the best labels that they or frequent labels are.

    Of the labels, it is that of the `BEST` labels of highest score; 0 if that is not measured.
    """

    points: float
    labels: float


def in_words(choices: NDArray[np.float64], recall: NDArray[np.float64]) -> str:
    """Return the choices and the recall of a model in words."""
    kernel, weight, rarity = Choices.of(choices)
    text = f"weight {weight:g} in the pool with utilities"
    if rarity:
        text += f" (of labels with n points, n/(n + {rarity:g}) of it)"
    text += f"; ℓ² {kernel.squared_lengthscale:g}, σ² {kernel.noise:g}"
    labels = Recall(*recall.tolist()).labels
    return f"{text}; the labels scored have {100 * labels:.1f}% of the {BEST} best ones" if labels else text
