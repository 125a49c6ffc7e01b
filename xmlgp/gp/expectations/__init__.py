"""Gaussian expectations of the logistic likelihood, E log(1 + e^f) with f ~ N(m, v), in three ways (`Expectations`).

Predictive probabilities, `expected_sigmoid`, are by quadrature in every case. `approximate_log_odds` orders labels
nearly as they do, without quadrature.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from xmlgp.gp.expectations.closed_form import JaakkolaJordan, Taylor, approximate_log_odds
from xmlgp.gp.expectations.quadrature import DEFAULT_NODES, BlockPairs, Quadrature, expected_sigmoid

__all__ = [
    "DEFAULT_NODES",
    "BlockPairs",
    "EXPECTATIONS",
    "Expectations",
    "JaakkolaJordan",
    "Quadrature",
    "Taylor",
    "approximate_log_odds",
    "expected_sigmoid",
    "make_expectations",
]


class Expectations(Protocol):
    """E log(1 + e^f) and its derivatives, elementwise.

    The variance is an array of the shape of the means, or a number; values below 0 count as 0.
    """

    def expected_softplus(
        self, mean: NDArray[np.floating], variance: NDArray[np.floating] | float
    ) -> NDArray[np.floating]:
        """Return the expectation."""

    def gradients(
        self,
        mean: NDArray[np.floating],
        variance: NDArray[np.floating] | float,
        fast: bool = False,
        out: Sequence[NDArray[np.floating]] | None = None,
    ) -> Sequence[NDArray[np.floating]]:
        """Return the derivatives of the expectation by the mean and by the variance.

        Only quadrature is faster with `fast`. The arrays `out` are C-contiguous; they may be `mean` and `variance`.
        """


#: The classes, by the name that settings use.
EXPECTATIONS: dict[str, type[Quadrature | JaakkolaJordan | Taylor]] = {
    "quadrature": Quadrature,
    "jj": JaakkolaJordan,
    "taylor": Taylor,
}


def make_expectations(name: str, nodes: int = DEFAULT_NODES) -> Expectations:
    """Return an instance of one of `EXPECTATIONS`; `nodes` is used by quadrature only."""
    return Quadrature(nodes) if name == "quadrature" else EXPECTATIONS[name]()
