"""Parameters and their gradients, by name."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Gradients", "IndexedRows", "Parameters"]

#: The parameters of a model in an unconstrained space, by name.
Parameters = Mapping[str, NDArray[np.floating]]


class IndexedRows(NamedTuple):
    """A gradient that is zero except in U rows: the indices of these rows, ascending, and their values, U×... ."""

    indices: NDArray[np.integer]
    values: NDArray[np.floating]

    def toarray(self, count: int) -> NDArray[np.floating]:
        """Return the dense gradient, of `count` rows."""
        dense = np.zeros((count, *self.values.shape[1:]), self.values.dtype)
        dense[self.indices] = self.values
        return dense


#: The gradients of a function by its parameters, by parameter name.
Gradients = Mapping[str, NDArray[np.floating] | IndexedRows]
