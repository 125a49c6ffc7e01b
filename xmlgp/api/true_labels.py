"""The true labels of points, from a file or from memory."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Number
from typing import Any

import numpy as np

from xmlgp.api.corpus import Corpus
from xmlgp.api.memory import as_matrix, columns_of, labels_in_memory
from xmlgp.api.points import LabelledPoints, TrainingData, is_matrix
from xmlgp.api.source import Source, is_path
from xmlgp.data.dataset import Dataset
from xmlgp.runtime.errors import SettingsError
from xmlgp.runtime.progress import Reporter
from xmlgp.text.documents import Columns
from xmlgp.text.labels import label_matrix

__all__ = ["is_table_of_numbers", "true_labels"]


def true_labels(
    source: Source, part: str, reporter: Reporter, columns: Columns | None = None, multilabel: bool | None = None
) -> LabelledPoints:
    """Return the true labels of the points of a source: a file, a data set, a matrix, or lists of names.

    The labels of a corpus and of lists are sorted by name.

    Parameters
    ----------
    source : Source
    part : "train" or "test"
        The part of a data folder whose labels are read.
    reporter : Reporter
    columns : Columns, optional
        The columns of a corpus that a model was trained on, used unless the source says which to read.
    multilabel : bool, optional
        Whether rows in libsvm format have several labels. Default: inferred from the file.

    Raises
    ------
    SettingsError
        If the labels in memory are scores, predictions, or numbers in one dimension.
    """
    data: Any = source.data
    if is_path(data):
        with source.labelled_file(part, reporter) as points:
            if isinstance(points, Corpus):
                return points.labels(columns)
            return points.labels(multilabel)
    names = data.names.labels if isinstance(data, TrainingData) else None
    dataset = data.dataset if isinstance(data, TrainingData) else data
    if isinstance(dataset, Dataset):
        return LabelledPoints(dataset.labels, names, D=dataset.D)
    if is_table_of_numbers(data):
        # Fractions cannot be labels, so the arguments are probably swapped.
        if (as_matrix(data, float).data % 1).any():
            raise _scores_as_labels()
        return LabelledPoints(labels_in_memory(data, np.shape(data)[0]), columns_of(data, "label"))
    # Predictions are dictionaries, or lists of tuples of a name and a score.
    if any(isinstance(row, dict) or (isinstance(row, list) and row and isinstance(row[0], tuple)) for row in data):
        raise _scores_as_labels()
    names, matrix = label_matrix(data)
    return LabelledPoints(matrix, names)


def _scores_as_labels() -> SettingsError:
    """Return the error for scores that were passed as true labels."""
    return SettingsError("the true labels are scores or predictions; the scores come first: evaluate(scores, labels)")


def is_table_of_numbers(rows: Iterable[Any]) -> bool:
    """Return whether rows are a table of numbers, not lists of names; SettingsError if a row is a single number."""
    if is_matrix(rows):
        return True
    if any(isinstance(row, Number) for row in rows):
        raise SettingsError("labels in one dimension are no table; pass one label as a column: np.reshape(y, (-1, 1))")
    return any(isinstance(next(iter(row), None), Number | np.ndarray) for row in rows)
