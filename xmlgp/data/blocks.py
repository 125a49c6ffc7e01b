"""Features in blocks: a sparse one, and dense ones beside it, such as embeddings of the same points."""

import itertools
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

__all__ = ["Blocks", "Dense", "beside", "dense_of", "empty_rows", "sparse_of", "stacked", "widths_of", "with_sparse"]

#: Numbers that are looked at in a step.
CHUNK = 1 << 22


@dataclass(frozen=True, eq=False)
class Dense:
    """Dense features of N points, N×E: arrays N×E_1, N×E_2, … side by side, which may be mapped from files.

    They are read where `values` are needed, for some of the points. With `center` and `scale`, E, the values are
    (e − center) · scale; both are None for features as read.
    """

    arrays: tuple
    center: np.ndarray | None = None
    scale: np.ndarray | None = None

    @property
    def widths(self):
        """E_1, E_2, … (list)."""
        return [array.shape[1] for array in self.arrays]

    @property
    def shape(self):
        """N and E."""
        return len(self.arrays[0]), sum(self.widths)

    @property
    def dtype(self):
        """The type that holds the features of all blocks as read."""
        return np.result_type(*self.arrays)

    def __getitem__(self, rows):
        return replace(self, arrays=tuple(array[rows] for array in self.arrays))

    def values(self, dtype=np.float32):
        """Return the features of all points, N×E."""
        found = np.empty(self.shape, dtype)
        for array, (start, stop) in zip(self.arrays, self.bounds(), strict=True):
            if self.center is None:
                found[:, start:stop] = array
                continue
            # Half precision is too short for a difference, single precision for one of large double-precision numbers.
            values = array.astype(np.result_type(array, np.float32))
            values -= self.center[start:stop].astype(values.dtype)
            values *= self.scale[start:stop].astype(values.dtype)
            found[:, start:stop] = values
        return found

    def bounds(self):
        """Return the first column of each block, and that after its last."""
        return list(itertools.pairwise(itertools.accumulate(self.widths, initial=0)))

    def chunks(self):
        """Yield slices of consecutive rows that have about `CHUNK` numbers each."""
        N, E = self.shape
        step = max(1, CHUNK // max(1, E))
        for start in range(0, N, step):
            yield slice(start, min(start + step, N))

    def joined(self):
        """Return the same features as read, in memory and in one block."""
        return Dense((np.hstack(self.arrays) if len(self.arrays) > 1 else np.asarray(self.arrays[0]),))


@dataclass(frozen=True, eq=False)
class Blocks:
    """Points with features in blocks: X, N×D, sparse, and dense ones, N×E.

    `shape` and the arrays are those of X, so that what looks at X alone need not know more.
    """

    sparse: sp.csr_array
    dense: Dense

    @property
    def shape(self):
        """N and D."""
        return self.sparse.shape

    @property
    def dtype(self):
        """The type of X."""
        return self.sparse.dtype

    @property
    def nnz(self):
        """The number of stored elements of X."""
        return self.sparse.nnz

    @property
    def indptr(self):
        """Of X."""
        return self.sparse.indptr

    @property
    def indices(self):
        """Of X."""
        return self.sparse.indices

    @property
    def data(self):
        """Of X."""
        return self.sparse.data

    def __getitem__(self, rows):
        return Blocks(self.sparse[rows], self.dense[rows])

    def astype(self, dtype, copy=True):
        """Return the same with X in another type."""
        return replace(self, sparse=self.sparse.astype(dtype, copy=copy))


def sparse_of(features):
    """Return the sparse block of features, which have dense ones beside it (`Blocks`) or not (csr_array)."""
    return features.sparse if isinstance(features, Blocks) else features


def dense_of(features):
    """Return the `Dense` features of points, or None."""
    return features.dense if isinstance(features, Blocks) else None


def widths_of(features):
    """Return the widths E_1, E_2, … of the dense blocks of features (list), which may be none."""
    dense = dense_of(features)
    return dense.widths if dense else []


def beside(features, dense):
    """Return features with `Dense` ones of the same points after those that they have."""
    own = dense_of(features)
    return Blocks(sparse_of(features), Dense((own.arrays if own else ()) + dense.arrays))


def empty_rows(features, count):
    """Return `count` points whose features are zero, in the blocks and types of others."""
    sparse = sp.csr_array((count, features.shape[1]), dtype=features.dtype)
    dense = dense_of(features)
    if dense is None:
        return sparse
    return Blocks(sparse, replace(dense, arrays=tuple(np.zeros((count, a.shape[1]), a.dtype) for a in dense.arrays)))


def with_sparse(features, sparse):
    """Return features with another sparse block."""
    return replace(features, sparse=sparse) if isinstance(features, Blocks) else sparse


def stacked(parts):
    """Return the points of all parts, at least one, with the same columns and weighting (csr_array or `Blocks`)."""
    # Some versions of SciPy return a matrix.
    sparse = sp.csr_array(sp.vstack([sparse_of(part) for part in parts], "csr"))
    dense = [dense_of(part) for part in parts]
    if dense[0] is None:
        return sparse
    if any(part.widths != dense[0].widths for part in dense):
        dense = [replace(part, arrays=part.joined().arrays) for part in dense]
    arrays = tuple(np.concatenate(block) for block in zip(*(part.arrays for part in dense), strict=True))
    return Blocks(sparse, replace(dense[0], arrays=arrays))
