"""Write a table with a row for each label: its training and test points, precision, recall and F1."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from xmlgp.data.streams import open_output
from xmlgp.errors import UsageError
from xmlgp.inputs.kinds import FilePath
from xmlgp.metrics.macro import first_of_labelled
from xmlgp.prediction.label_formats import check_format, format_of
from xmlgp.prediction.label_writer import table_row
from xmlgp.prediction.table_output import TABLES, write_table
from xmlgp.reporting.label_tables import LabelCounts, Tally
from xmlgp.runs.matching import Matched, known_model

__all__ = ["table_format", "write_by_label"]

#: The formats of the table.
FORMATS = ("csv", "tsv", *TABLES)


def table_format(path: FilePath) -> str:
    """Return the format of a table by the ending of its name; UsageError if it has none, or cannot be written."""
    path = os.fspath(path)
    name = format_of(path)
    if name not in FORMATS:
        raise UsageError(f"{path}: end the name of the table in {', '.join(f'.{ending}' for ending in FORMATS)}.")
    check_format(path, name)
    return name


def write_by_label(path: FilePath, matching: Matched, k: int | None, train: Any, name: str) -> None:
    """Write a row for each label that is predicted for a point or true; those with most true points are first.

    The first k labels of a ranking are predicted, of the points that have a label; with k = None all that are listed,
    which are assigned. `train` is for the training points of labels and their names, which are else their numbers;
    `name` is that of the scores, for messages.
    """
    labels = matching.labels
    matrix = matching.scores.matrix
    predicted = matrix if k is None else first_of_labelled(matrix, labels, k)
    counts = None if train is None else np.asarray(matching.with_counts(train, name).counts)
    names = matching.names
    model = None if names or train is None else known_model(train)
    if model is not None:
        names = model.names.labels
    present = np.unique(np.concatenate([labels.indices, predicted.indices]))
    pair = (
        csr_array(
            (entries.data, np.searchsorted(present, entries.indices), entries.indptr), (entries.shape[0], len(present))
        )
        for entries in (predicted, labels)
    )
    tallies = LabelCounts.of(*pair)
    order = np.lexsort((present, -tallies.true))
    columns = [column[order].tolist() for column in tallies]
    numbers = present[order].tolist()
    sizes = [None] * len(numbers) if counts is None else counts[present[order]].tolist()
    titles = [names[number] if names and number < len(names) else str(number) for number in numbers]
    _write_table(os.fspath(path), list(map(Tally, titles, sizes, *columns)))


def _write_table(path: str, rows: Sequence[Tally]) -> None:
    """Write a table in the format that the ending of its name says; a cell is empty where the measure is undefined."""
    name = table_format(path)
    header = ["label", "training_points", "test_points", "predicted", "right", "precision", "recall", "F1"]
    table: list[list[object]] = [[*header]]
    for row in rows:
        shares = (row.precision, row.recall, row.F1)
        table.append([*row, *(share if share is None else round(share, 5) for share in shares)])
    if all(row.size is None for row in rows):
        table = [[row[0], *row[2:]] for row in table]
    with open_output(path) as stream:
        if name in TABLES:
            write_table(stream, name, path, list(map(str, table[0])), table[1:])
        else:
            stream.writelines(table_row(name, row).encode() for row in table)
