"""Divide a data set into training and test points."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.data.dataset import Dataset
from xmlgp.data.dense_files import DATA_FILE, DenseRows
from xmlgp.data.division import METHODS, choose_test_points
from xmlgp.data.streams import check_outputs
from xmlgp.errors import UsageError, memory_errors_reported
from xmlgp.inputs.kinds import FilePath, is_path
from xmlgp.inputs.records import Records, copy_records, group_values, read_records
from xmlgp.inputs.source import Labels, Source
from xmlgp.inputs.training_data import TrainingData
from xmlgp.inputs.true_labels import Purpose, true_labels
from xmlgp.runtime.atomic_files import create_file, make_folders, remove_empty, report_errors_as, temporary_folder
from xmlgp.runtime.interrupts import uninterruptible
from xmlgp.runtime.npy import write_array
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.progress import QUIET, Reporter
from xmlgp.text.names import FEATURES, LABELS, VECTORIZER, names_file

__all__ = ["Split", "split"]

#: What to do where a file is in the way.
ADVICE = ", or replace it with `overwrite=True`"


class Split(NamedTuple):
    """The numbers of the training and of the test points, from 0 and in order, and the files that have them."""

    train: NDArray[np.int64]
    test: NDArray[np.int64]
    files: list[Path]


@memory_errors_reported()
def split(
    data: FilePath | Labels | Dataset | TrainingData | Source,
    out: FilePath | None = None,
    *,
    test: float = 0.25,
    method: str = "random",
    groups: str | Sequence[Hashable] | None = None,
    seed: int = 0,
    overwrite: bool = False,
    reporter: Reporter = QUIET,
) -> Split:
    """Divide points into those for training and those for testing.

    Parameters
    ----------
    data : path, matrix N×K, list of lists of names, Dataset or Source
        The points by their labels: a file of lines or a folder as for `train`, or the labels of points in memory.
    out : path, optional
        The folder for the training and the test file, whose records are those of the file `data`, unchanged. Default:
        write nothing.
    test : float
        The share of test points, below 1, or their number.
    method : str
        "random"; "stratified", so that each label has the same share of its points in both parts, also a rare one; or
        "in-order", the last points.
    groups : str or sequence of N values, optional
        A column of the corpus, or the values themselves: the points of a value are all in one part.
    seed : int
        Of the random choice.
    overwrite : bool
        Whether to replace files in `out`.
    reporter : xmlgp.runtime.progress.Reporter
        Its `progress` and `note` are as for `train`.

    Raises
    ------
    UsageError
        If a file is in the way, or there are no such test points.
    """
    source = Source.of(data)
    source.check(labels_needed=False)
    if method not in METHODS:
        raise UsageError(f"The method must be one of {', '.join(METHODS)}, not {method}.")
    choose = partial(choose_test_points, test=test, method=method, seed=seed)
    if is_path(source.data):
        return _split_file(source, groups, choose, None if out is None else Path(out), overwrite, method, reporter)
    if out is not None or isinstance(groups, str):
        raise UsageError("Points in memory have neither a file nor columns; leave out `out`, and give the groups.")
    labels = true_labels(source, Purpose("train", lambda: None, None), reporter).labels
    return _parts(choose(labels, [] if groups is None else [groups]))


def _split_file(
    source: Source,
    groups: str | Sequence[Hashable] | None,
    choose: Callable[[csr_array, Sequence[Sequence[Hashable]]], NDArray[np.bool_]],
    out: Path | None,
    overwrite: bool,
    method: str,
    reporter: Reporter,
) -> Split:
    """Divide the points of a file or folder as `choose` does, and write both parts if there is a folder `out`."""
    if source.title == "-" or (os.path.exists(source.title) and not _is_stored(source.title)):
        raise UsageError(f"{source.title} cannot be divided, as it is read twice; write it to a file first.")
    inputs = source.inputs
    source, rows = source.without_dense("train", None)
    records = read_records(source, reporter)
    if rows:
        rows.check(len(records.starts))
    grouping: list[Sequence[Hashable]] = []
    if groups is not None:
        grouping.append(group_values(source, records, groups, reporter.note) if isinstance(groups, str) else groups)
    is_test = choose(records.labels, grouping)
    files = _write(records, rows, is_test, out, inputs, overwrite) if out else []
    reporter.note(_summary(records, is_test, method))
    return _parts(is_test)._replace(files=files)


def _is_stored(path: str) -> bool:
    """Return whether a path is a file or a folder, which can be read twice, and not a pipe."""
    return os.path.isfile(path) or os.path.isdir(path)


def _parts(is_test: NDArray[np.bool_]) -> Split:
    return Split(np.flatnonzero(~is_test), np.flatnonzero(is_test), [])


def _write(
    records: Records,
    rows: DenseRows | None,
    is_test: NDArray[np.bool_],
    folder: Path,
    inputs: Sequence[object],
    overwrite: bool,
) -> list[Path]:
    """Write and return the files of both parts, none of which is an input; if anything fails, earlier ones stay."""
    missing = make_folders(folder)
    try:
        with temporary_folder(folder) as staged, report_errors_as(folder, staged):
            names = copy_records(records, is_test, staged)
            if records.ids is None:
                names += _copy_names(os.path.dirname(records.path) or os.curdir, staged)
            if rows:
                names += _write_dense(rows, is_test, staged)
            files = [folder / name for name in names]
            # That of an earlier division names dense features of other points.
            description = folder / DATA_FILE
            check_outputs(files, inputs)
            for file in [*files, description]:
                if file.exists() and not (overwrite and file.is_file()):
                    advice = ADVICE if file.is_file() else ""
                    raise UsageError(f"There is {file} already; choose another folder{advice}.")
            with uninterruptible:
                # Whatever happens, no part is left beside another part of an earlier division.
                for file in filter(Path.is_file, [*files, description]):
                    file.unlink()
                for file in files:
                    os.replace(staged / file.name, file)
    except BaseException:
        remove_empty(missing)
        raise
    return files


def _copy_names(beside: str, folder: Path) -> list[str]:
    """Copy the names that rows of numbers have beside them to a folder; return the names of the files."""
    files = [names_file(beside, FEATURES), names_file(beside, LABELS), Path(beside, VECTORIZER)]
    return [Path(shutil.copy(file, folder)).name for file in files if file.is_file()]


def _write_dense(rows: DenseRows, is_test: NDArray[np.bool_], folder: Path) -> list[str]:
    """Write the dense features of both parts, and what tells readers of the folder their files; return all names."""
    names = [DATA_FILE]
    lines = ["dense:"]
    for part, kept in (("train", ~is_test), ("test", is_test)):
        blocks = [f"{part}{number or ''}.npy" for number in range(len(rows.dense.arrays))]
        for name, array in zip(blocks, rows.dense.arrays, strict=True):
            with create_file(folder / name) as stream:
                write_array(stream, array[kept])
        lines.append(f"  {part}: [{', '.join(blocks)}]")
        names += blocks
    with create_file(folder / DATA_FILE) as stream:
        stream.write("\n".join([*lines, ""]).encode())
    return names


def _summary(records: Records, is_test: NDArray[np.bool_], method: str) -> str:
    """Return how many points are for testing, and how many labels are not in both parts."""
    counts = records.labels.sum(axis=0)
    test_counts = records.labels[is_test].sum(axis=0)
    present = np.count_nonzero(counts)
    in_one = present - np.count_nonzero((test_counts > 0) & (test_counts < counts))
    points = counted(len(is_test), "point" if records.ids is None else "document")
    size = f"{np.count_nonzero(is_test)} ({100 * is_test.mean():.1f} %) for testing"
    text = f"{records.path}: {points}, {size}; {in_one} of {present} labels are in one part only"
    alone = np.count_nonzero(counts == 1)
    if alone:
        text = f"{text} ({alone} have a single point)"
    return f"{text}; `method=stratified` leaves fewer" if in_one > alone and method == "random" else text
