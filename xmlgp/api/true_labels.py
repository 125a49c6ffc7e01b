"""The true labels of points, from a file or from memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from numbers import Number
from typing import Any, NamedTuple

import numpy as np

from xmlgp.api.corpus import Corpus
from xmlgp.api.memory import as_matrix, columns_of, labels_in_memory
from xmlgp.api.points import LabelledPoints, TrainingData, is_matrix, is_path
from xmlgp.api.source import Source
from xmlgp.data.dataset import Dataset
from xmlgp.runtime.errors import SettingsError
from xmlgp.runtime.progress import Reporter
from xmlgp.text.documents import Columns
from xmlgp.text.labels import label_matrix

__all__ = ["Purpose", "are_numbers", "scores_first", "true_labels"]


class Purpose(NamedTuple):
    """What the labels of a file are read for.

    `part` is the part of a folder that has them, and `columns` returns the usual columns of a corpus.
    `several` says whether rows in libsvm format have several labels, None if only the file knows.
    """

    part: str
    columns: Callable[[], Columns | None]
    several: bool | None


def true_labels(source: Source, purpose: Purpose, reporter: Reporter) -> LabelledPoints:
    """Return the labels of a file, a data set, a matrix or lists of names; labels of a corpus are sorted by name."""
    data: Any = source.data
    if is_path(data):
        with source.labelled_file(purpose.part, reporter) as points:
            if isinstance(points, Corpus):
                return points.labels(purpose.columns())
            return points.labels(purpose.several)
    names = data.names.labels if isinstance(data, TrainingData) else None
    dataset = data.dataset if isinstance(data, TrainingData) else data
    if isinstance(dataset, Dataset):
        return LabelledPoints(dataset.labels, names, None, dataset.D)
    if are_numbers(data):
        # Fractions are scores.
        if (as_matrix(data, float).data % 1).any():
            raise scores_first()
        return LabelledPoints(labels_in_memory(data, np.shape(data)[0]), columns_of(data, "label"))
    # Dictionaries, and lists of tuples of a name and a number, are predictions.
    if any(isinstance(row, dict) or (isinstance(row, list) and row and isinstance(row[0], tuple)) for row in data):
        raise scores_first()
    names, matrix = label_matrix(data)
    return LabelledPoints(matrix, names)


def scores_first() -> SettingsError:
    """Return the error for scores given in the place of true labels."""
    return SettingsError("the true labels are scores or predictions; the scores come first: evaluate(scores, labels)")


def are_numbers(rows: Iterable[Any]) -> bool:
    """Return whether rows are a table of numbers, not of names; SettingsError if a row is itself a number."""
    if is_matrix(rows):
        return True
    if any(isinstance(row, Number) for row in rows):
        raise SettingsError("numbers in one dimension are no labels; one label is a column, np.reshape(y, (-1, 1))")
    return any(isinstance(next(iter(row), None), Number) for row in rows)
