"""Features of points: sparse ones, and perhaps dense ones beside them, such as embeddings of the same points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_array

from xmlgp.runtime.blocks import row_blocks

__all__ = ["Features", "Rows", "array_blocks", "stack_rows"]

#: About how many numbers each of the `array_blocks` of an array has.
BLOCK = 1 << 22

#: Some rows of a matrix: a slice, their indices, or a boolean for each.
Rows: TypeAlias = "slice | NDArray[Any]"


@dataclass(frozen=True, eq=False)
class Features:
    """Features of N points: sparse ones, X, N×D, and perhaps dense ones, N×E, as read, perhaps mapped from a file."""

    sparse: csr_array
    dense: NDArray[Any] | None = None

    @property
    def N(self) -> int:
        """Number of points."""
        return int(self.sparse.shape[0])

    @property
    def D(self) -> int:
        """Number of sparse features."""
        return int(self.sparse.shape[1])

    @property
    def width(self) -> int:
        """Number of dense features, E, which may be 0."""
        return 0 if self.dense is None else int(self.dense.shape[1])

    def __getitem__(self, rows: Rows) -> Features:
        # One text takes a twentieth of its time for slices of all rows.
        if isinstance(rows, slice) and rows.indices(self.N) == (0, self.N, 1):
            return self
        return Features(self.sparse[rows], None if self.dense is None else self.dense[rows])

    def with_sparse(self, sparse: csr_array) -> Features:
        """Return the features with another X."""
        return replace(self, sparse=sparse)

    def astype(self, dtype: DTypeLike) -> Features:
        """Return the features with X in a type; X is not copied if it has that type."""
        return self.with_sparse(self.sparse.astype(dtype, copy=False))

    def empty_rows(self, count: int) -> Features:
        """Return `count` points whose features are zero, with the same columns and types."""
        dense = None if self.dense is None else np.zeros((count, self.width), self.dense.dtype)
        return Features(csr_array((count, self.D), dtype=self.sparse.dtype), dense)

    @staticmethod
    def stack(parts: Sequence[Features]) -> Features:
        """Return the points of one or more parts, which have the same columns."""
        if len(parts) == 1:
            return parts[0]
        dense = [part.dense for part in parts if part.dense is not None]
        return Features(stack_rows([part.sparse for part in parts]), np.concatenate(dense) if dense else None)


def array_blocks(array: NDArray[Any]) -> list[slice]:
    """Return slices of consecutive rows of an array, N×E, that have about `BLOCK` numbers each."""
    N, E = array.shape
    return row_blocks(N, max(1, BLOCK // max(1, E)))


def stack_rows(matrices: Sequence[csr_array]) -> csr_array:
    """Return the rows of one or more matrices, which have the same number of columns."""
    # In some versions of SciPy, vstack returns a csr_matrix.
    return csr_array(sp.vstack(matrices, "csr"))
