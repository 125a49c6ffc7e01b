"""Read the features X of points, perhaps with dense ones, and count them."""

from __future__ import annotations

from typing import Any, TypeAlias

import scipy.sparse as sp
from numpy.typing import ArrayLike, DTypeLike
from sklearn.utils.validation import check_array

from xmlgp.api.memory import features_in_memory
from xmlgp.api.source import DenseFeatures
from xmlgp.data.dataset import Dataset
from xmlgp.data.dense_files import read_dense
from xmlgp.data.features import Features
from xmlgp.estimators.rows import has_texts, rows_of
from xmlgp.runtime.errors import SettingsError

__all__ = ["MatrixLike", "check_feature_count", "read_features", "unlabelled"]

#: A matrix of features or labels, such as an array or a DataFrame.
MatrixLike: TypeAlias = "ArrayLike | sp.sparray | sp.spmatrix"


def read_features(X: MatrixLike, dense: DenseFeatures | None, dtype: DTypeLike) -> Features:
    """Return the features of points, with X converted to a dtype; an error says what is wrong with them."""
    try:
        features = features_in_memory(check_array(X, accept_sparse="csr", dtype=dtype), dtype)
    except ValueError:
        if not has_texts(rows_of(X)):
            raise
        hint = "give texts to a TextTagger, or turn them into numbers, for example by a TfidfVectorizer"
        raise SettingsError(f"X has text; {hint}") from None
    rows = read_dense(dense, "X")
    if rows is None:
        return features
    rows.check(features.N)
    return Features(features.sparse, rows.array)


def unlabelled(features: Features) -> Dataset:
    """Return points without labels."""
    return Dataset(features, sp.csr_array((features.N, 0), dtype=bool))


def check_feature_count(estimator: Any, count: int, more: bool = False) -> None:
    """Raise SettingsError, as scikit-learn words it, unless X has as many features as in `fit`, or perhaps `more`."""
    expected = estimator.n_features_in_
    if count < expected or (count > expected and not more):
        raise SettingsError(
            f"X has {count} features, but {type(estimator).__name__} is expecting {expected} features as input"
        )
