"""What a kernel sees of points: their coordinates C = X X̃ᵀ in a subspace, or their weighted features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from xmlgp.data.dataset import Features
from xmlgp.features.weighting import row_chunks
from xmlgp.linear_algebra import sparse

__all__ = ["DENSE_LIMIT", "Inputs", "Points", "Selected", "are_dense"]

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
        self._weigh = weigh or (lambda rows: rows)
        self._basis_transposed = None if basis is None else np.ascontiguousarray(basis.T, dtype)
        self.feature_count = features.D
        self.dimension = features.D if basis is None else len(basis)
        self.dtype = np.dtype(dtype)
        N = len(self)
        self._center = center
        self._dense = basis is not None or center is not None or (not sparse and are_dense(features))
        # Sparse coordinates share the indices of the features.
        size = N * self.dimension if self._dense else features.sparse.nnz
        self._kept = self._all() if size * self.dtype.itemsize <= dense_limit else None

    def __len__(self) -> int:
        return self._features.N

    def select(self, rows: NDArray[np.int64]) -> Selected:
        """Return some of the points (`Selected`), without a copy."""
        return Selected(self, rows)

    @property
    def row_bytes(self) -> int:
        """Mean memory of the coordinates of a point, in bytes."""
        stored = self.dimension * self.dtype.itemsize
        if self._dense:
            return stored
        itemsize = int(self.dtype.itemsize + self._features.sparse.indices.itemsize)
        return max(1, int(self._features.sparse.nnz) * itemsize // max(1, len(self)))

    def rows(self, rows: Rows) -> Points:
        """Return some of the points, in the order of their rows."""
        return self._kept.rows(rows) if self._kept else self._compute(self._features[rows])

    def weighted(self, rows: Rows) -> Features:
        """Return the weighted features, B×D, of some rows in their order; of slice(None), no copy."""
        weighted = self._kept.coordinates if self._kept else None
        features = weighted if isinstance(weighted, Features) else self._features
        if not (isinstance(rows, slice) and rows == slice(None)):
            features = features[rows]
        if isinstance(weighted, Features):
            return features
        typed: Features = self._weigh(features).astype(self.dtype)
        return typed

    def _all(self) -> Points:
        if not self._dense:
            return self._compute(self._features)
        values = np.empty((len(self), self.dimension), self.dtype)
        residual = np.empty(len(self), self.dtype)
        for rows in row_chunks(self._features.sparse, CHUNK):
            _, residual[rows] = self._compute(self._features[rows], out=values[rows])
        return Points(values, residual)

    def _compute(self, features: Features, out: NDArray[Any] | None = None) -> Points:
        if self._center is not None:
            return self._centered(features, out)
        features = self._weigh(features).astype(self.dtype)
        if self._basis_transposed is None:
            values = features.sparse.toarray(out=out) if self._dense else features
            return Points(values, np.zeros(features.N, self.dtype))
        X = features.sparse
        values = sparse.product(X, self._basis_transposed, out)
        norms = np.asarray(X.multiply(X).sum(axis=1)).ravel()
        # Rounding can make the residual of a point inside the subspace negative.
        residual = np.maximum(norms - np.einsum("nr,nr->n", values, values), 0)
        return Points(values, residual.astype(self.dtype))

    def _centered(self, features: Features, out: NDArray[Any] | None) -> Points:
        values = np.empty((features.N, features.D), self.dtype) if out is None else out
        for rows in row_chunks(features.sparse, CHUNK):
            values[rows] = self._weigh(features[rows]).astype(np.float64).sparse.toarray() - self._center
        return Points(values, np.zeros(features.N, self.dtype))


class Selected:
    """Some points of `Inputs`, by their rows (ndarray of int), with the same methods."""

    def __init__(self, inputs: Inputs, chosen: NDArray[np.int64]) -> None:
        self._inputs = inputs
        self._chosen = chosen
        self.dtype = inputs.dtype
        self.feature_count = inputs.feature_count

    def __len__(self) -> int:
        return len(self._chosen)

    def rows(self, rows: Rows) -> Points:
        """Return some of the points, in the order of their rows."""
        return self._inputs.rows(self._chosen[rows])

    def weighted(self, rows: Rows) -> Features:
        """Return the weighted features of some rows in their order."""
        return self._inputs.weighted(self._chosen[rows])
