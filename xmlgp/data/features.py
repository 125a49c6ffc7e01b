"""Features of points: sparse ones, and dense ones beside them, such as embeddings of the same points."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_array

__all__ = ["Dense", "Features", "Rows", "stack_rows"]

#: About how many numbers each of the `chunks` of dense features has.
CHUNK = 1 << 22

#: Some rows of a matrix: a slice, their indices, or a boolean for each.
Rows: TypeAlias = "slice | NDArray[Any]"


@dataclass(frozen=True, eq=False)
class Dense:
    """Dense features of N points, N×E, in blocks side by side: arrays N×E_1, N×E_2, …, perhaps mapped from files.

    `values` reads all of them, so select points first. With `center` and `scale`, E, the values are
    (e − center) · scale; both are None for features as read.
    """

    arrays: tuple[NDArray[Any], ...]
    center: NDArray[np.float64] | None = None
    scale: NDArray[np.float64] | None = None

    @property
    def widths(self) -> list[int]:
        """The widths of the blocks, E_1, E_2, …."""
        return [array.shape[1] for array in self.arrays]

    @property
    def shape(self) -> tuple[int, int]:
        """N and E."""
        return len(self.arrays[0]), sum(self.widths)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type that holds the numbers of all blocks as read."""
        return np.result_type(*self.arrays)

    def __getitem__(self, rows: Rows) -> Dense:
        return replace(self, arrays=tuple(array[rows] for array in self.arrays))

    def values(self, dtype: DTypeLike = np.float32) -> NDArray[Any]:
        """Return the features of all points, N×E."""
        result = np.empty(self.shape, dtype)
        for array, (start, stop) in zip(self.arrays, self.bounds(), strict=True):
            if self.center is None or self.scale is None:
                result[:, start:stop] = array
                continue
            # Differences lose too many digits in half precision, and those of large numbers from double precision also
            # in single precision. So half precision is widened, and double precision is kept.
            values = array.astype(np.result_type(array, np.float32))
            values -= self.center[start:stop].astype(values.dtype)
            values *= self.scale[start:stop].astype(values.dtype)
            result[:, start:stop] = values
        return result

    def bounds(self) -> list[tuple[int, int]]:
        """Return the first column of each block, and the column after its last."""
        return list(itertools.pairwise(itertools.accumulate(self.widths, initial=0)))

    def chunks(self) -> Iterator[slice]:
        """Yield slices of consecutive rows that have about `CHUNK` numbers each."""
        N, E = self.shape
        step = max(1, CHUNK // max(1, E))
        for start in range(0, N, step):
            yield slice(start, min(start + step, N))

    def joined(self) -> Dense:
        """Return the features as read, without center and scale, in one block in memory."""
        return Dense((np.hstack(self.arrays) if len(self.arrays) > 1 else np.asarray(self.arrays[0]),))


@dataclass(frozen=True, eq=False)
class Features:
    """Features of N points: sparse ones, X, N×D, and perhaps `Dense` ones beside them, N×E."""

    sparse: csr_array
    dense: Dense | None = None

    @property
    def N(self) -> int:
        """Number of points."""
        return int(self.sparse.shape[0])

    @property
    def D(self) -> int:
        """Number of sparse features."""
        return int(self.sparse.shape[1])

    @property
    def widths(self) -> list[int]:
        """The widths of the dense blocks, E_1, E_2, …, which may be none."""
        return self.dense.widths if self.dense else []

    def __getitem__(self, rows: Rows) -> Features:
        # One text takes a twentieth of its time for slices of all rows.
        if isinstance(rows, slice) and rows.indices(self.N) == (0, self.N, 1):
            return self
        return Features(self.sparse[rows], self.dense and self.dense[rows])

    def beside(self, dense: Dense) -> Features:
        """Return the features with further `Dense` ones of the same points, after those so far; both as read."""
        arrays = self.dense.arrays if self.dense else ()
        return replace(self, dense=Dense((*arrays, *dense.arrays)))

    def with_sparse(self, sparse: csr_array) -> Features:
        """Return the features with another X."""
        return replace(self, sparse=sparse)

    def astype(self, dtype: DTypeLike) -> Features:
        """Return the features with X in a type; X is not copied if it has that type."""
        return self.with_sparse(self.sparse.astype(dtype, copy=False))

    def empty_rows(self, count: int) -> Features:
        """Return `count` points whose features are zero, with the same columns and types."""
        sparse = csr_array((count, self.D), dtype=self.sparse.dtype)
        if self.dense is None:
            return Features(sparse)
        arrays = tuple(np.zeros((count, array.shape[1]), array.dtype) for array in self.dense.arrays)
        return Features(sparse, replace(self.dense, arrays=arrays))

    @staticmethod
    def stack(parts: Sequence[Features]) -> Features:
        """Return the points of one or more parts, which have the same columns, center and scale."""
        sparse = stack_rows([part.sparse for part in parts])
        dense = [part.dense for part in parts if part.dense]
        if not dense:
            return Features(sparse)
        # The blocks of each part are joined to one if the parts are divided into different blocks.
        if any(part.widths != dense[0].widths for part in dense):
            dense = [replace(part, arrays=part.joined().arrays) for part in dense]
        arrays = tuple(np.concatenate(block) for block in zip(*(part.arrays for part in dense), strict=True))
        return Features(sparse, replace(dense[0], arrays=arrays))


def stack_rows(matrices: Sequence[csr_array]) -> csr_array:
    """Return the rows of one or more matrices, which have the same number of columns."""
    # In some versions of SciPy, vstack returns a csr_matrix.
    return csr_array(sp.vstack(matrices, "csr"))
