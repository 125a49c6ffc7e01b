"""Read the features X of points, which may have dense blocks, and count them."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, DTypeLike
from sklearn.utils.validation import check_array

from xmlgp.data.dataset import Dataset
from xmlgp.data.dense_files import as_list, read_dense
from xmlgp.data.features import Features
from xmlgp.errors import SettingsError
from xmlgp.estimators.rows import has_texts, rows_of
from xmlgp.inputs.kinds import is_matrix
from xmlgp.inputs.memory import features_in_memory
from xmlgp.inputs.source import DenseFeatures

__all__ = ["FeaturesLike", "MatrixLike", "SplitFeatures", "check_feature_count", "count_features", "is_dense"]
__all__ += ["read_features", "split_features", "unlabelled"]

#: A matrix of features or labels, such as an array or a DataFrame.
MatrixLike: TypeAlias = "ArrayLike | sp.sparray | sp.spmatrix"

#: X of an estimator: a matrix, a list of a matrix and dense blocks, or None if all features are dense.
FeaturesLike: TypeAlias = "MatrixLike | list[MatrixLike] | None"

#: Rows in which columns of arrays are recognised.
ROWS = 100


class SplitFeatures(NamedTuple):
    """Features without dense blocks, or None if there are no others, and the dense blocks."""

    X: Any
    dense: list[Any]


def split_features(X: FeaturesLike, dense: DenseFeatures | None) -> SplitFeatures:
    """Return X and its dense blocks.

    Blocks follow X in a list of matrices, are columns of arrays in a DataFrame, or are given as `dense`.
    """
    table: Any = X
    blocks = as_list(dense)
    if isinstance(X, list | tuple) and X and all(map(is_matrix, X)):
        table = X[0]
        blocks = [*X[1:], *blocks]
    if hasattr(table, "iloc") and hasattr(table, "columns"):
        are_arrays = np.array([_has_arrays(column) for _, column in table.items()], bool)
        if are_arrays.any():
            blocks = [column for _, column in table.loc[:, are_arrays].items()] + blocks
            table = None if are_arrays.all() else table.loc[:, ~are_arrays]
    return SplitFeatures(table, blocks)


def _has_arrays(column: Any) -> bool:
    """Return whether a column of a DataFrame has an array or a list of numbers in a row."""
    return column.dtype.kind == "O" and any(
        isinstance(value, list | tuple | np.ndarray) and len(value) and np.asarray(value).dtype.kind in "iuf"
        for value in column.iloc[:ROWS]
    )


def is_dense(X: object) -> bool:
    """Return whether most numbers of a matrix are not zero, and some are negative."""
    if sp.issparse(X) or hasattr(X, "sparse"):
        return False
    array = np.asarray(X)
    return array.dtype.kind in "if" and 2 * np.count_nonzero(array) > array.size and bool(array.min() < 0)


def read_features(split: SplitFeatures, dtype: DTypeLike) -> Features:
    """Return the features of points, with X converted to a dtype; an error says what is wrong with them."""
    rows = read_dense(split.dense, "X")
    if split.X is not None:
        features = _read_matrix(split.X, dtype)
    elif rows is not None:
        features = Features(sp.csr_array((rows.dense.shape[0], 0), dtype=dtype))
    else:
        raise SettingsError("there are no points: give X, dense features, or both")
    if rows is None:
        return features
    rows.check(features.N)
    return features.beside(rows.dense)


def _read_matrix(X: object, dtype: DTypeLike) -> Features:
    try:
        return features_in_memory(check_array(X, accept_sparse="csr", dtype=dtype), dtype)
    except ValueError:
        if not has_texts(rows_of(X)):
            raise
        hint = "give texts to a TextTagger, or turn them into numbers, for example by a TfidfVectorizer"
        raise SettingsError(f"X has text; {hint}") from None


def unlabelled(features: Features) -> Dataset:
    """Return points without labels."""
    return Dataset(features, sp.csr_array((features.N, 0), dtype=bool))


def count_features(features: Features) -> int:
    """Return the number of features, D; if there are dense ones alone, their number, E."""
    return features.D or sum(features.widths)


def check_feature_count(estimator: Any, count: int, more: bool = False) -> None:
    """Raise SettingsError, as scikit-learn words it, unless X has as many features as in `fit`, or perhaps `more`."""
    expected = estimator.n_features_in_
    if count < expected or (count > expected and not more):
        raise SettingsError(
            f"X has {count} features, but {type(estimator).__name__} is expecting {expected} features as input"
        )
