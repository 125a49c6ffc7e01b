"""What a kernel sees of points: their coordinates C = X X̃ᵀ in a subspace, or their weighted features."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from xmlgp.data.dataset import Features
from xmlgp.features.weighting import row_chunks
from xmlgp.linear_algebra import sparse

__all__ = ["DENSE_LIMIT", "Inputs", "Points", "are_dense"]

#: Numbers of rows, or a slice of them.
Rows: TypeAlias = "slice | NDArray[np.int64]"

#: Bytes up to which the coordinates of all points are kept in memory; beyond it each minibatch computes its own.
DENSE_LIMIT = 1 << 30

#: Density of the features above which dense products are faster. At 0.04 a sparse product is 4 to 5 times as fast as a
#: dense one (500×1836 by 1836×500, float32).
DENSE_SHARE = 0.1

#: Stored elements of the points whose coordinates are computed at a time.
CHUNK = 1 << 20


def are_dense(features: Features) -> bool:
    """Return whether features, N×D, are so dense that products of dense rows are faster."""
    return bool(features.sparse.nnz > DENSE_SHARE * features.N * features.D)


class Points(NamedTuple):
    """B points in the coordinates of the inducing inputs: C, B×R, in a subspace, or the features X, B×D, themselves.

    The residual, B, is ‖x‖² − ‖c‖², the part of the squared norm outside the subspace; it is 0 where C is X.
    """

    coordinates: NDArray[Any] | Features
    residual: NDArray[Any]

    def rows(self, rows: Rows) -> Points:
        """Return some of the points, in the order of their rows."""
        return Points(self.coordinates[rows], self.residual[rows])


class Inputs:
    """Inputs of a kernel: coordinates of N points in a subspace, or their features, which are coordinates as well.

    X̃, the `basis`, has orthonormal rows; it is None for free inducing inputs. It is not copied if it is the transpose
    of a C-contiguous array of the right type. Coordinates of all points are kept if they take at most `dense_limit`
    bytes. Otherwise the function `weigh`, which returns the weighted features of some points, is called for each
    minibatch, so that X can stay in a file. Without a basis, coordinates are dense if features are (`are_dense`) and
    they need not be `sparse`, as for models that need weighted features only; or if a `center`, D, is subtracted from
    weighted features, in double precision.

    The `dimension` of coordinates is R or D, the `feature_count` D.
    """

    def __init__(
        self,
        features: Features,
        basis: NDArray[Any] | None,
        dtype: DTypeLike,
        dense_limit: int = DENSE_LIMIT,
        weigh: Callable[[Any], Any] | None = None,
        sparse: bool = False,
        center: NDArray[np.float64] | None = None,
    ) -> None:
        self._features = features
        #: The rows of the features that are the points, if they are not all.
        self._selected: NDArray[np.int64] | None = None
        self._weigh = weigh or (lambda rows: rows)
        self._basis_transposed = None if basis is None else np.ascontiguousarray(basis.T, dtype)
        self.feature_count = features.D
        self.dimension = features.D if basis is None else len(basis)
        self.dtype = np.dtype(dtype)
        self._center = center
        self._dense = basis is not None or center is not None or (not sparse and are_dense(features))
        # Sparse coordinates share the indices of the features.
        size = features.N * self.dimension if self._dense else features.sparse.nnz
        self._kept = self._all() if size * self.dtype.itemsize <= dense_limit else None

    def __len__(self) -> int:
        return self._features.N if self._selected is None else len(self._selected)

    def select(self, rows: NDArray[np.int64]) -> Inputs:
        """Return some of the points, which share the coordinates of all."""
        selected = copy.copy(self)
        selected._selected = rows
        return selected

    @property
    def row_bytes(self) -> int:
        """Mean memory of the coordinates of a point, in bytes."""
        stored = self.dimension * self.dtype.itemsize
        if self._dense:
            return stored
        itemsize = int(self.dtype.itemsize + self._features.sparse.indices.itemsize)
        return max(1, int(self._features.sparse.nnz) * itemsize // max(1, self._features.N))

    def rows(self, rows: Rows) -> Points:
        """Return some of the points, in the order of their rows."""
        rows = self._rows_of_all(rows)
        return self._kept.rows(rows) if self._kept else self._compute(self._features[rows])

    def weighted(self, rows: Rows) -> Features:
        """Return the weighted features, B×D, of some rows in their order; of slice(None) of all points, no copy."""
        rows = self._rows_of_all(rows)
        weighted = self._kept.coordinates if self._kept else None
        if isinstance(weighted, Features):
            return weighted[rows]
        typed: Features = self._weigh(self._features[rows]).astype(self.dtype)
        return typed

    def _rows_of_all(self, rows: Rows) -> Rows:
        """Return rows of the points as rows of the features."""
        return rows if self._selected is None else self._selected[rows]

    def _all(self) -> Points:
        if not self._dense:
            return self._compute(self._features)
        values = np.empty((self._features.N, self.dimension), self.dtype)
        residual = np.empty(self._features.N, self.dtype)
        for rows in row_chunks(self._features.sparse, CHUNK):
            _, residual[rows] = self._compute(self._features[rows], out=values[rows])
        return Points(values, residual)

    def _compute(self, features: Features, out: NDArray[Any] | None = None) -> Points:
        features = self._weigh(features).astype(self.dtype if self._center is None else np.float64)
        if self._basis_transposed is None:
            residual = np.zeros(features.N, self.dtype)
            if not self._dense:
                return Points(features, residual)
            dense = features.sparse.toarray()
            if self._center is not None:
                dense -= self._center
            if out is None:
                return Points(dense.astype(self.dtype, copy=False), residual)
            out[:] = dense
            return Points(out, residual)
        X = features.sparse
        values = sparse.product(X, self._basis_transposed, out)
        norms = np.asarray(X.multiply(X).sum(axis=1)).ravel()
        # Rounding can make the residual of a point inside the subspace negative.
        residual = np.maximum(norms - np.einsum("nr,nr->n", values, values), 0)
        return Points(values, residual.astype(self.dtype))
