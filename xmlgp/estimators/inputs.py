"""Read the features X and the labels y of points as scikit-learn's tools give them, and say what is wrong with them."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, DTypeLike
from scipy.sparse import csr_array
from sklearn.utils.validation import check_array

from xmlgp.api.memory import check_not_masked, features_in_memory, labels_in_memory
from xmlgp.api.source import DenseFeatures
from xmlgp.data.dataset import Features
from xmlgp.data.dense_files import read_dense
from xmlgp.runtime.errors import SettingsError

__all__ = ["MatrixLike", "check_feature_count", "check_given", "read_features", "read_labels"]

#: A matrix of features or labels, such as an array or a DataFrame.
MatrixLike: TypeAlias = "ArrayLike | sp.sparray | sp.spmatrix"

#: What y must be. Tools of scikit-learn look for some of the words.
COLUMNS = (
    "Unknown label type: y must have a column of 0 and 1 for each label, such as np.reshape(y, (-1, 1)) for one or "
    "pd.get_dummies(y) for classes; a TextTagger takes lists of names, a GPCClassifier one value for each point, of "
    "which it says: Only binary classification is supported"
)


def read_features(X: MatrixLike, dense: DenseFeatures | None, dtype: DTypeLike) -> Features:
    """Return the features of points, with X converted to a dtype; an error says what is wrong with them."""
    try:
        features = features_in_memory(check_array(X, accept_sparse="csr", dtype=dtype), dtype)
    except ValueError:
        if not any(isinstance(value, str) for value in np.ravel(np.asarray(X, object))):
            raise
        hint = "give texts to a TextTagger, or turn them into numbers, for example by a TfidfVectorizer"
        raise SettingsError(f"X has text; {hint}") from None
    if dense is None:
        return features
    rows = read_dense(dense, "X")
    rows.check(features.N)
    return Features(features.sparse, rows.array)


def read_labels(estimator: object, y: object, N: int) -> csr_array:
    """Return the labels of N points for an estimator as a matrix of bool; an error says what is wrong with y."""
    check_given(estimator, y)
    check_not_masked(y)
    try:
        labels = check_array(y, accept_sparse="csr", dtype=None)
    except ValueError as error:
        reason = str(error).partition("\n")[0].rstrip(":")
        raise SettingsError(f"{COLUMNS} ({reason})") from None
    return labels_in_memory(labels, N)


def check_given(estimator: object, y: object) -> None:
    """Raise ValueError, as scikit-learn words it, if there are no labels."""
    if y is None:
        raise ValueError(f"{type(estimator).__name__} requires y to be passed, but the target y is None")


def check_feature_count(estimator: Any, count: int) -> None:
    """Raise SettingsError, as scikit-learn words it, unless X has as many features as in `fit`."""
    expected = estimator.n_features_in_
    if count != expected:
        raise SettingsError(
            f"X has {count} features, but {type(estimator).__name__} is expecting {expected} features as input"
        )
