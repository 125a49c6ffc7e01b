"""Points in memory: features from matrices, tables or texts, and labels from matrices, tables or names."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from numbers import Number
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_array

from xmlgp.api.points import Block, Identifier, PointStream, Signature, TrainingData, is_matrix
from xmlgp.data.dataset import Dataset, Features, check_first_feature
from xmlgp.data.formats import REPOSITORY
from xmlgp.data.names import check_names
from xmlgp.runtime.errors import SettingsError
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.document_folder import WholeFiles
from xmlgp.text.documents import Columns
from xmlgp.text.labels import label_matrix
from xmlgp.text.names import Names

__all__ = [
    "InMemory",
    "as_array",
    "as_matrix",
    "check_columns",
    "check_not_masked",
    "columns_of",
    "features_in_memory",
    "labels_in_memory",
]

#: What the numbers in a matrix of labels stand for.
MEANING = "1 says that a point has the label, 0 that it has not; leave out points whose labels are not known"

#: Other numbers that a message shows.
SHOWN = 3


class InMemory:
    """Points in memory: `data` is a matrix, texts, a `Dataset` or `TrainingData`.

    `labels` are those of a matrix or of texts, or None; the other two have labels of their own.
    """

    def __init__(self, data: Any, labels: Any) -> None:
        is_rows = isinstance(data, Dataset | TrainingData) or is_matrix(data)
        self.columns = None if is_rows else Columns()
        self._data = data if is_rows else as_texts(data)
        self._ids = _index_of(data)
        self._labels = labels

    def read(self, model: Signature) -> TrainingData:
        """Return the points to train on; their new words and labels follow those of the model.

        SettingsError if a trained model has names of labels or features, but new ones have none.
        """
        points = self.numbered(model, extend=True)
        for kind, count in ("labels", points.dataset.K), ("features", points.dataset.D):
            names = getattr(points.names, kind)
            if model.K and names is not None and len(names) < count:
                raise SettingsError(f"{model.title} has names of {kind}, but the points have {kind} without a name")
        return points

    def stream(self, model: Signature, labelled: bool) -> PointStream:
        """Return the points to be scored, with their texts and the index of a DataFrame.

        The labels are in memory anyway, so the result has them even if they are not asked for (`labelled`).
        """
        points, _, names = self.numbered(model, extend=False)
        labels = names.labels if self._labels is not None else model.names.labels
        # Without the labels that the model does not have, which follow its own.
        added = len(labels) - len(model.names.labels) if labels and model.names.labels else 0
        block = Block(points, self._ids or range(1, points.N + 1), self._data if self.columns else None)
        shape = points.N, points.D, points.K - added
        return PointStream(shape, [block], labels=labels, E=points.features.width, is_text=bool(self.columns))

    def numbered(self, model: Signature, extend: bool) -> TrainingData:
        """Return the points with words and labels numbered as those of a model; new names of labels follow these.

        With `extend`, new words follow too, otherwise they are left out.
        """
        names = model.names
        if isinstance(self._data, TrainingData):
            check_first_feature(self._data.dataset, model.first_feature)
            given = self._data.names
            given.check()
            check_columns("label", given.labels, names.labels)
            check_columns("feature", given.features, names.features)
            return self._data._replace(names=names) if model.K else self._data
        if isinstance(self._data, Dataset):
            check_first_feature(self._data, model.first_feature)
            # A new model of numbers has no names of labels.
            return TrainingData(self._data, REPOSITORY, names if model.K else Names())
        features, names = self._numbered_features(names, extend)
        labels, names = self._numbered_labels(model, names, extend and bool(self.columns), features.N)
        return TrainingData(Dataset(features, labels), REPOSITORY, names)

    def _numbered_features(self, names: Names, extend: bool) -> tuple[Features, Names]:
        """Return the features, and the names with those of features, to which `extend` appends new words."""
        if self.columns is None:
            columns = columns_of(self._data, "feature")
            check_columns("feature", columns, names.features)
            return features_in_memory(self._data), names._replace(features=columns or names.features)
        if names.vectorizer is None:
            raise SettingsError("the points are text, but the model was not trained on text")
        if not extend:
            return names.vectorizer.features(self._data), names
        vectorizer, features = names.vectorizer.extended(self._data)
        if not vectorizer.words:
            raise SettingsError("no document has a word")
        check_names(vectorizer.words, "word")
        return features, names._replace(features=vectorizer.words, vectorizer=vectorizer)

    def _numbered_labels(self, model: Signature, names: Names, needs_names: bool, N: int) -> tuple[csr_array, Names]:
        """Return the labels of N points, and the names with those of labels, which a matrix has only as a DataFrame.

        With `needs_names`, a matrix whose columns have no names is refused.
        """
        labels = self._labels
        if labels is None:
            return csr_array((N, 0), dtype=bool), names
        columns = columns_of(labels, "label")
        if not _are_names(labels) and (columns or not needs_names):
            check_columns("label", columns, names.labels)
            return labels_in_memory(labels, N), names._replace(labels=columns or names.labels or None)
        if names.labels is None:
            raise SettingsError("the model has no names of labels, so the labels of points must be a matrix")
        all_names, matrix = label_matrix(labels, model.label_numbers)
        check_label_count(matrix, N)
        return matrix, names._replace(labels=all_names)


def as_texts(X: Any) -> list[str]:
    """Return documents in memory as a list of texts; raise SettingsError if one is not a str."""
    is_list = isinstance(X, Iterable) and getattr(X, "shape", None) != ()
    # The keys of a mapping are no texts, and a set has no order.
    if not is_list or isinstance(X, str | bytes | Mapping | set | frozenset):
        raise SettingsError(f"X must be a list of texts, not {excerpt(X)}")
    texts = list(X)
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            advice = ". Reshape your data: X.reshape(1, -1) is one point" if isinstance(text, Number) else ""
            raise SettingsError(f"X must be a list of texts, but X[{i}] is {excerpt(text)}{advice}")
    return texts


def _index_of(data: Any) -> list[Identifier] | None:
    """Return the index of a DataFrame or Series, or the names of files, as identifiers; None for other data."""
    if not hasattr(data, "iloc"):
        return data.ids if isinstance(data, WholeFiles) else None
    return [entry if type(entry) in (int, str) else str(entry) for entry in data.index.tolist()]


def _are_names(labels: Any) -> bool:
    """Return whether labels are names, as lists or in an array, and not a matrix or a DataFrame."""
    if hasattr(labels, "columns") or sp.issparse(labels):
        return False
    if not is_matrix(labels):
        return True
    array = np.asarray(labels)
    return array.dtype.kind not in "biufc" and not all(isinstance(value, Number) for value in array.flat)


def columns_of(table: Any, kind: str) -> list[str] | None:
    """Return the names of the columns of a DataFrame, which are labels or features (`kind`); None without names."""
    columns = list(getattr(table, "columns", ()))
    if not columns or not all(isinstance(name, str) for name in columns):
        return None
    check_names(columns, kind)
    if kind == "feature":
        return columns
    names = [name.strip() for name in columns]
    if len(set(names)) < len(names):
        raise SettingsError(f"several columns are the label {excerpt(max(names, key=names.count))}; give each one name")
    return names


def check_columns(kind: str, names: Iterable[str] | None, expected: Sequence[str] | None, what: str = "column") -> None:
    """Raise SettingsError if names of columns differ from the expected ones of a model in the same place.

    `kind` is "feature" or "label", and `what` is numbered. Columns beyond the shorter list are not compared.
    """
    for number, (name, other) in enumerate(zip(names or (), expected or (), strict=False)):
        if name != other:
            raise SettingsError(
                f"{what} {number} is the {kind} {excerpt(name)}, but the model was trained with {excerpt(other)} "
                f"there; give it the same {kind}s in the same order"
            )


def as_matrix(table: Any, dtype: DTypeLike | None = None) -> csr_array:
    """Return a table of real numbers as a csr_array; SettingsError if it has texts, lists or complex numbers."""
    if getattr(getattr(table, "dtype", None), "kind", None) == "c":
        raise SettingsError("Complex data not supported; give real numbers, such as `data.real`")
    if sp.issparse(table):
        return csr_array(table, dtype=dtype)
    return csr_array(as_array(table), dtype=dtype)


def as_array(table: Any) -> NDArray[Any]:
    """Return a dense table of real numbers as an array; SettingsError if it has texts, lists or masked numbers."""
    check_not_masked(table)
    with contextlib.suppress(TypeError, ValueError):
        array = np.asarray(table)
        if array.dtype.kind == "O":
            array = array.astype(float)
        if array.dtype.kind in "biuf":
            # Sparse matrices have neither half precision nor another byte order than the machine's.
            dtype = array.dtype.newbyteorder("=")
            return array.astype(np.float32 if dtype == np.float16 else dtype, copy=False)
    raise SettingsError(
        "a table must have numbers, equally many in each row; texts and lists of names are one column of it, such as "
        "df['text'], and the labels in lists are texts, such as '2'"
    )


def labels_in_memory(Y: Any, N: int) -> csr_array:
    """Return a matrix of labels, of N points, as a csr_array of bool; SettingsError if it is not one."""
    labels = as_matrix(Y)
    marks = np.unique(labels.data[labels.data != 0])
    is_full = labels.nnz == np.prod(labels.shape)
    # As for scikit-learn, two numbers are marks of labels, whatever they are, and more are classes.
    if len(marks) > 1 + is_full or ((marks < 0) | (marks % 1 != 0)).any():
        found = ", ".join(f"{mark:g}" for mark in marks[:SHOWN])
        raise SettingsError(f"Unknown label type: labels are {found}; {MEANING}; give `labels > 0` if that is meant")
    # Numbers that are never 0 and not all equal are probably classes, such as 1 and 2, and not marks of labels.
    if len(marks) > 1:
        warnings.warn(
            "no label is 0, so all points have all labels; 0 says that one has not", UserWarning, stacklevel=2
        )
    labels = labels.astype(bool)
    labels.sum_duplicates()
    labels.eliminate_zeros()
    check_label_count(labels, N)
    return labels


def check_label_count(labels: csr_array, N: int) -> None:
    """Raise SettingsError unless there are labels of N points."""
    if labels.shape[0] != N:
        raise SettingsError(f"there are {N} points, but the labels of {labels.shape[0]} points")


def check_not_masked(table: object) -> None:
    """Raise SettingsError for an array with masked numbers, which NumPy would read as if they were not masked."""
    if isinstance(table, np.ma.MaskedArray) and np.ma.is_masked(table):
        raise SettingsError("some numbers are masked; leave out the points that have them, or give `array.filled(0)`")


def features_in_memory(X: Any, dtype: DTypeLike = np.float32) -> Features:
    """Return a matrix as features, without duplicate entries and stored zeros; X is not changed."""
    matrix = as_matrix(X, dtype)
    if not np.isfinite(matrix.data).all():
        raise SettingsError("a feature is NaN or inf, not a finite number")
    if not matrix.has_canonical_format or not matrix.data.all():
        matrix = matrix.copy()
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
    return Features(matrix)
