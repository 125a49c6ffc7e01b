"""Points as a Python user gives them: a path, matrices, or texts with the names of their labels."""

import contextlib
import os
from typing import TypeGuard

import numpy as np
import scipy.sparse as sp

from xmlgp.data.dataset import Dataset
from xmlgp.data.formats import REPOSITORY
from xmlgp.data.locate import locate
from xmlgp.errors import SettingsError, UsageError
from xmlgp.text.analysis import Analysis
from xmlgp.text.labels import label_matrix
from xmlgp.text.names import Names, add_label_names
from xmlgp.text.points import Block, TrainingData, open_points, read_known_data, read_more_data, read_training_data
from xmlgp.text.vectorize import as_texts, vectorize_texts
from xmlgp.text.vectorizer import Vectorizer

__all__ = [
    "is_path",
    "known_points",
    "label_of",
    "labels_in_memory",
    "more_labels",
    "more_points",
    "open_given",
    "training_points",
]


class _InMemory:
    """Points in memory, as `Rows` and `Texts` of `xmlgp.text.points`."""

    def __init__(self, dataset, texts=None):
        self.D, self.K, self.is_text, self._dataset, self._texts = dataset.D, dataset.K, False, dataset, texts
        self.without_words = 0

    def count(self):
        return self._dataset.N

    def blocks(self):
        yield Block(range(1, self._dataset.N + 1), self._dataset, self._texts)


def is_path(data: object) -> TypeGuard[str | os.PathLike[str]]:
    """Return whether data are given by a path."""
    return isinstance(data, str | os.PathLike)


def label_of(data, other="the points"):
    """Return what data are called in messages."""
    return os.fspath(data) if is_path(data) else other


def _features(X):
    """Return features in memory as a csr_array of float32."""
    features = sp.csr_array(X, dtype=np.float32)
    if not np.isfinite(features.data).all():
        raise SettingsError("a feature is not finite")
    features.sum_duplicates()
    features.eliminate_zeros()
    return features


def labels_in_memory(Y, N):
    """Return labels in memory as a csr_array of bool."""
    labels = sp.csr_array(Y).astype(bool)
    labels.sum_duplicates()
    labels.eliminate_zeros()
    if labels.shape[0] != N:
        raise SettingsError(f"there are {N} points, but labels of {labels.shape[0]}")
    return labels


def _is_matrix(X):
    return sp.issparse(X) or len(getattr(X, "shape", ())) == 2


def training_points(data, labels, path, corpus, cache, progress, note, work):
    """Return the `TrainingData` of a model to be trained, in the folder at `path` or in memory."""
    if is_path(data):
        return read_training_data(_training_file(data, path), corpus, cache, progress, note, work)
    return TrainingData(*_new_points(data, labels))


def more_points(data, labels, path, names, D, K, corpus, cache, progress, note):
    """Return more training points for a model with these names, D features and K labels, and the names after them."""
    if is_path(data):
        found = read_more_data(_training_file(data, path), names, D, K, corpus, cache, progress, note)
        return found.dataset, found.names
    if not isinstance(data, Dataset) and not _is_matrix(data):
        if not names.vectorizer:
            raise SettingsError("the points are text, but the model was not trained on text")
        dataset, _, names = _texts_as_points(data, labels, names.vectorizer, names.labels)
        return dataset, names
    dataset, _, _ = _new_points(data, labels)
    if dataset.K > K:
        names = names._replace(labels=None)
    if dataset.D > D:
        names = names._replace(features=None, vectorizer=None)
    return dataset, names


def _training_file(data, path):
    """Return the training file of a path; it must not be in the folder of the model."""
    file = locate(os.fspath(data), "train")
    folder = os.path.dirname(file) or os.curdir
    folders = path is not None and file != "-" and os.path.isdir(path) and os.path.isdir(folder)
    if folders and os.path.samefile(folder, path):
        raise UsageError(f"{path} is the folder of the training data; choose another folder for the model.")
    return file


def _new_points(data, labels):
    """Return the `Dataset`, the format and the `Names` of points in memory."""
    if isinstance(data, Dataset):
        return data, REPOSITORY, Names()
    if labels is None:
        raise UsageError("points in memory need labels.")
    if _is_matrix(data):
        features = _features(data)
        if _is_matrix(labels):
            return Dataset(features, labels_in_memory(labels, features.shape[0])), REPOSITORY, Names()
        names, matrix = label_matrix(labels)
        return Dataset(features, labels_in_memory(matrix, features.shape[0])), REPOSITORY, Names(names)
    return _texts_as_points(data, labels, Vectorizer(Analysis(), []), ())


def _texts_as_points(data, labels, vectorizer, known):
    vectorizer, features = vectorize_texts(as_texts(data), vectorizer)
    names, matrix = label_matrix(labels, known)
    dataset = Dataset(features, labels_in_memory(matrix, features.shape[0]))
    return dataset, REPOSITORY, Names(names, vectorizer.words, vectorizer)


def more_labels(names, K, add_labels):
    """Return the names of a model with more labels, of a file or given."""
    if is_path(add_labels):
        return add_label_names(add_labels, names, K)
    if names.labels is None:
        raise SettingsError("the model has no names of labels, so none can be added")
    return names._replace(labels=label_matrix([list(add_labels)], names.labels)[0])


def known_points(data, labels, part, names, corpus, cache, progress):
    """Return points with labels for a trained model; words and labels that it does not know are left out."""
    if is_path(data):
        return read_known_data(data, part, names, corpus, cache, progress)
    return _in_memory(data, labels, names)


def _in_memory(data, labels, names):
    if isinstance(data, Dataset):
        return data
    if _is_matrix(data):
        features = _features(data)
    elif names.vectorizer:
        features = names.vectorizer.features(as_texts(data))
    else:
        raise SettingsError("the points are text, but the model was not trained on text")
    if labels is None:
        return Dataset(features, sp.csr_array((features.shape[0], 0), dtype=bool))
    if not _is_matrix(labels):
        labels = label_matrix(labels, names.labels or (), extend=False)[1]
    return Dataset(features, labels_in_memory(labels, features.shape[0]))


@contextlib.contextmanager
def open_given(data, labels, names, D, corpus, labelled, note):
    """Open points to be scored by a model with these names and D features; see `open_points`."""
    if is_path(data):
        with open_points(data, names, D, corpus, labelled, note) as points:
            yield points
    else:
        texts = None if isinstance(data, Dataset) or _is_matrix(data) else as_texts(data)
        yield _InMemory(_in_memory(data, labels, names), texts)
