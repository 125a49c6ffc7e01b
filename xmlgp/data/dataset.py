"""A multi-label data set in memory: sparse features, optional dense features, and sparse labels of the same points."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_array

from xmlgp.runtime.blocks import row_blocks
from xmlgp.runtime.errors import SettingsError
from xmlgp.runtime.plurals import counted

__all__ = [
    "Dataset",
    "Features",
    "Rows",
    "array_blocks",
    "as_csr",
    "check_first_feature",
    "check_sizes",
    "consecutive_rows",
    "empty_dataset",
    "stack",
    "stack_rows",
    "widen",
]

#: Above this many stored elements SciPy needs 64-bit indices.
INT32_MAX = np.iinfo(np.int32).max

#: Approximate number of elements in each of the `array_blocks` of an array.
BLOCK = 1 << 22

#: A selection of rows: a slice, an array of indices, or an array of booleans, one for each row.
Rows: TypeAlias = "slice | NDArray[Any]"


@dataclass(frozen=True, eq=False)
class Features:
    """Features of N points: `sparse`, X, N×D, and `dense`, N×E or None, which may be mapped from a file."""

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
        """Number of dense features, E; 0 if there are none."""
        return 0 if self.dense is None else int(self.dense.shape[1])

    def __getitem__(self, rows: Rows) -> Features:
        """Return the features of the selected points."""
        # Without this shortcut, slicing all rows takes a twentieth of the time of predicting for one text.
        if isinstance(rows, slice) and rows.indices(self.N) == (0, self.N, 1):
            return self
        return Features(self.sparse[rows], None if self.dense is None else self.dense[rows])

    def with_sparse(self, sparse: csr_array) -> Features:
        """Return the features with another X."""
        return replace(self, sparse=sparse)

    def astype(self, dtype: DTypeLike) -> Features:
        """Return the features with X in a dtype; X is not copied if it already has that dtype."""
        return self.with_sparse(self.sparse.astype(dtype, copy=False))

    @staticmethod
    def stack(parts: Sequence[Features]) -> Features:
        """Concatenate the points of one or more parts, which have the same columns."""
        if len(parts) == 1:
            return parts[0]
        dense = [part.dense for part in parts if part.dense is not None]
        return Features(stack_rows([part.sparse for part in parts]), np.concatenate(dense) if dense else None)


@dataclass(frozen=True, eq=False)
class Dataset:
    """N points with D features and K labels.

    Parameters
    ----------
    features : Features
        X, N×D, float32; float64 if read from libsvm format with two classes, because features that are standardised
        later may be far from zero. Column indices are sorted within a row, without duplicates, and no zeros are stored.
        There may also be dense features, N×E.
    labels : scipy.sparse.csr_array, shape (N, K), bool
        Y, whose stored elements are the positive labels; column indices are sorted, without duplicates.
    groups : ndarray of int64, N, optional
        The group of each point, 0 without one: points of a group are not divided among those that training uses and
        those that it holds out.
    first_feature : int, optional
        The number of the first feature in rows of several labels, 0 or 1. None if there is none: of matrices, text and
        files of two classes.

    Notes
    -----
    The arrays may be read-only views of files mapped into memory: do not change them in place.
    """

    features: Features
    labels: csr_array
    first_feature: int | None = None
    groups: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        if self.labels.shape[0] != self.features.N:
            raise ValueError(f"features of {self.features.N} points, but labels of {self.labels.shape[0]}")

    @property
    def N(self) -> int:
        """Number of points."""
        return self.features.N

    @property
    def D(self) -> int:
        """Number of features."""
        return self.features.D

    @property
    def K(self) -> int:
        """Number of labels."""
        return int(self.labels.shape[1])

    @property
    def shape(self) -> tuple[int, int, int]:
        """N, D and K."""
        return self.N, self.D, self.K

    @functools.cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the points, hexadecimal.

        It depends on the precision of the features, but neither on the file format nor on empty last columns.
        """
        digest = hashlib.sha256()

        def add(values: NDArray[Any], dtype: str) -> None:
            digest.update(np.ascontiguousarray(values, dtype).data)

        X, Y = self.features.sparse, self.labels
        for matrix in (X, Y):
            add(matrix.indptr, "<i8")
            add(matrix.indices, "<i4")
        add(X.data, f"<f{max(4, X.data.itemsize)}")
        dense = self.features.dense
        if dense is not None:
            digest.update(repr(dense.shape[1]).encode())
            for rows in array_blocks(dense):
                add(dense[rows], f"<f{max(4, dense.itemsize)}")
        if self.groups is not None:
            add(self.groups, "<i8")
        return digest.hexdigest()

    @property
    def facts(self) -> dict[str, Any]:
        """What a model folder stores of its data: N, D, K, the fingerprint, and the other attributes that they have."""
        facts = {"N": self.N, "D": self.D, "K": self.K, "fingerprint": self.fingerprint}
        others = {"dense": self.features.width or None, "first_feature": self.first_feature}
        return facts | {name: number for name, number in others.items() if number is not None}

    def rows(self, selection: Rows) -> Dataset:
        """Return a data set of the selected points."""
        groups = None if self.groups is None else self.groups[selection]
        return replace(self, features=self.features[selection], labels=self.labels[selection], groups=groups)


def as_csr(
    data: NDArray[Any] | None, indices: NDArray[np.integer], indptr: NDArray[np.integer], columns: int
) -> csr_array:
    """Return the csr_array, N×`columns`, of existing arrays, without copying or checking them.

    If `data` is None, all stored elements are True. The indices are int32 unless their number needs 64 bits.
    """
    if len(indices) <= INT32_MAX:
        indices, indptr = (array.astype(np.int32, copy=False) for array in (indices, indptr))
    if data is None:
        data = np.ones(len(indices), dtype=bool)
    return csr_array((data, indices, indptr), shape=(len(indptr) - 1, columns), copy=False)


def widen(matrix: csr_array, columns: int) -> csr_array:
    """Return a csr_array with more columns, N×`columns`, and the same elements, which are not copied."""
    return as_csr(matrix.data, matrix.indices, matrix.indptr, columns)


def consecutive_rows(matrix: csr_array, rows: slice) -> csr_array:
    """Return consecutive rows of a csr_array, a slice with `start` and `stop`, without copying their elements."""
    indptr = matrix.indptr[rows.start : rows.stop + 1]
    elements = slice(int(indptr[0]), int(indptr[-1]))
    return as_csr(matrix.data[elements], matrix.indices[elements], indptr - indptr[0], matrix.shape[1])


def check_sizes(dataset: Dataset, D: int, K: int, title: str) -> None:
    """Raise SettingsError if points to learn from have fewer features or labels than the model, which has D and K.

    The message calls their data by a `title`.
    """
    for count, least, noun in (dataset.D, D, "feature"), (dataset.K, K, "label"):
        if count < least:
            reason = f"{counted(count, noun)}, but the model was trained on {least}"
            raise SettingsError(f"{title}: {reason}; points to learn from need at least as many")


def check_first_feature(dataset: Dataset, first: int | None) -> None:
    """Raise SettingsError if the features of points are known to count from another number than those of a model."""
    if {dataset.first_feature, first} == {0, 1}:
        reason = f"the features count from {dataset.first_feature}, but those of the training data from {first}"
        raise SettingsError(f"{reason}; give the path of the file, which is then read as these are")


def empty_dataset(D: int, K: int, width: int = 0) -> Dataset:
    """Return a `Dataset` without points, with D features, `width` dense features and K labels."""
    # In the smallest dtype, so that dense features stacked on it keep theirs.
    dense = np.empty((0, width), np.float16) if width else None
    return Dataset(Features(csr_array((0, D), dtype=np.float32), dense), csr_array((0, K), dtype=bool))


def stack(datasets: Sequence[Dataset]) -> Dataset:
    """Concatenate the points of data sets, at least one, with the same D and K."""
    features = Features.stack([dataset.features for dataset in datasets])
    labels = stack_rows([dataset.labels for dataset in datasets])
    groups = np.concatenate([np.zeros(one.N, np.int64) if one.groups is None else one.groups for one in datasets])
    return replace(datasets[0], features=features, labels=labels, groups=groups if groups.any() else None)


def array_blocks(array: NDArray[Any]) -> list[slice]:
    """Return slices of consecutive rows of an array, N×E, that have about `BLOCK` elements each."""
    N, E = array.shape
    return row_blocks(N, max(1, BLOCK // max(1, E)))


def stack_rows(matrices: Sequence[csr_array]) -> csr_array:
    """Concatenate the rows of one or more matrices, which have the same number of columns."""
    # In some versions of SciPy, vstack returns a csr_matrix.
    return csr_array(sp.vstack(matrices, "csr"))
