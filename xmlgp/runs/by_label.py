"""Write a table with a row for each label: its training and test points, precision, recall and F1."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from xmlgp.data.streams import open_output
from xmlgp.errors import UsageError
from xmlgp.inputs.kinds import FilePath
from xmlgp.metrics.assignment import without_unused_labels
from xmlgp.metrics.macro import first_of_labelled
from xmlgp.prediction.label_formats import check_format, format_of
from xmlgp.prediction.label_writer import table_row
from xmlgp.prediction.table_output import TABLES, write_table
from xmlgp.reporting.label_tables import LabelCounts, Tally
from xmlgp.runs.matching import Matched, TrainingFacts

__all__ = ["table_format", "write_by_label"]

#: The formats of the table.
FORMATS = ("csv", "tsv", *TABLES)

#: The names of the columns.
HEADER = ("label", "training_points", "test_points", "predicted", "right", "precision", "recall", "F1")


def table_format(path: FilePath) -> str:
    """Return the format of a table by the ending of its name; UsageError if it has none, or cannot be written."""
    path = os.fspath(path)
    name = format_of(path)
    if name not in FORMATS:
        raise UsageError(f"{path}: end the name of the table in {', '.join(f'.{ending}' for ending in FORMATS)}.")
    check_format(path, name)
    return name


def write_by_label(path: FilePath, matching: Matched, k: int | None, train: Any) -> None:
    """Write a row for each label that is predicted for a point or true; those with most true points are first.

    The first k labels of a ranking are predicted, of the points that have a label; with k = None all that are listed,
    which are assigned. `train` is for the training points of labels and their names, which are else their numbers. A
    cell is empty where a number is not known or a share is undefined.
    """
    path = os.fspath(path)
    predicted = matching.scores.matrix
    if k is not None:
        predicted = first_of_labelled(predicted, matching.labels, k)
    used, *pair = without_unused_labels(predicted, matching.labels)
    facts = TrainingFacts() if train is None else matching.with_counts(train, matching.name)
    names = dict(enumerate(matching.names or facts.names or ()))
    counts = LabelCounts.of(*pair)
    rows: list[list[object]] = []
    for position in np.lexsort((used, -counts.true)).tolist():
        label = int(used[position])
        size = None if facts.counts is None else int(facts.counts[label])
        row = Tally(names.get(label, str(label)), size, *(int(column[position]) for column in counts))
        rows.append([*row, *(share and round(share, 5) for share in (row.precision, row.recall, row.F1))])
    name = table_format(path)
    with open_output(path) as stream:
        if name in TABLES:
            write_table(stream, name, path, HEADER, rows)
        else:
            stream.writelines(table_row(name, row).encode() for row in [HEADER, *rows])
