"""The coordinates in which training sees points: C = X X̃ᵀ in a subspace, X itself for free inducing inputs."""

import numpy as np
import scipy.sparse as sp

__all__ = ["DENSE_LIMIT", "Coordinates"]

#: Bytes that the coordinates of all points may take in memory; beyond it each minibatch computes its own.
DENSE_LIMIT = 1 << 30


class Coordinates:
    """Coordinates of points and the squared norm that they leave out.

    Parameters
    ----------
    features : csr_array, N×D
        X, weighted.
    basis : ndarray, R×D, or None
        X̃ with orthonormal rows; None for free inducing inputs.
    dtype : dtype
        Of the coordinates.
    dense_limit : int
        Bytes up to which all coordinates are kept in memory as one dense array.

    Attributes
    ----------
    dimension : int
        R or D.
    """

    def __init__(self, features, basis, dtype, dense_limit=DENSE_LIMIT):
        self._features = features
        self._basis_transposed = None if basis is None else np.ascontiguousarray(basis.T, dtype)
        self.dimension = features.shape[1] if basis is None else len(basis)
        self.dtype = np.dtype(dtype)
        self._all = None
        if features.shape[0] * self.dimension * self.dtype.itemsize <= dense_limit:
            values, residual = self._compute(features)
            self._all = values.toarray() if sp.issparse(values) else values, residual

    def all(self):
        """Return the coordinates of all points, N×R or N×D, dense where they are kept so."""
        return self._all[0] if self._all else self._compute(self._features)[0]

    def rows(self, rows):
        """Return coordinates, B×R or B×D, and residual squared norms, B, of some rows in their order."""
        if self._all:
            values, residual = self._all
            return values[rows], residual[rows]
        return self._compute(self._features[rows])

    def _compute(self, features):
        features = features.astype(self.dtype)
        if self._basis_transposed is None:
            return features, np.zeros(features.shape[0], self.dtype)
        values = features @ self._basis_transposed
        norms = np.asarray(features.multiply(features).sum(axis=1)).ravel()
        # Rounding can leave a point inside the subspace slightly less than nothing.
        return values, np.maximum(norms - np.einsum("nr,nr->n", values, values), 0).astype(self.dtype)
