"""Divide a data set into training and test points."""

from __future__ import annotations

import os
import shutil
from collections.abc import Hashable, Sequence
from pathlib import Path

from xmlgp.api.points import FilePath
from xmlgp.api.records import copy_records, group_values, read_records
from xmlgp.api.source import Source
from xmlgp.data.division import choose_test_points
from xmlgp.data.streams import check_outputs
from xmlgp.runtime.atomic_files import temporary_folder
from xmlgp.runtime.errors import UsageError, XmlgpError
from xmlgp.runtime.interrupts import uninterruptible
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.progress import QUIET, Reporter
from xmlgp.text.names import FEATURES, LABELS, VECTORIZER

__all__ = ["split"]


def split(
    data: FilePath | Source,
    out: FilePath,
    *,
    test: float = 0.25,
    group_column: str | None = None,
    in_order: bool = False,
    seed: int = 0,
    overwrite: bool = False,
    reporter: Reporter = QUIET,
) -> list[Path]:
    """Divide the points of a file into those for training and those for testing; return the files that have them.

    Parameters
    ----------
    data : path or Source
        A file of lines, as for `train`, or the folder of one.
    out : path
        The folder for the training and the test file, whose records are those of the file `data`, unchanged.
    test : float
        The share of test points, below 1, or their number.
    group_column : str, optional
        A column of the corpus: the documents with the same value are all in one part.
    in_order : bool
        Whether the last points are for testing; otherwise they are chosen at random.
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
    XmlgpError
        If there are no points.
    """
    source = Source.of(data)
    path = source.title
    if not (os.path.isfile(path) or os.path.isdir(path)) and (path == "-" or os.path.exists(path)):
        raise UsageError(f"{path} cannot be divided, as it is read twice; write it to a file first.")
    records = read_records(source, reporter)
    if not records.starts:
        raise XmlgpError(f"{records.path}: there are no {'documents' if records.is_corpus else 'points'}")
    groups: Sequence[Hashable] = [None] * len(records.starts)
    if group_column is not None:
        groups = group_values(source, records, group_column, reporter.note)
    is_test = choose_test_points(groups, test, in_order, seed)
    folder = Path(out)
    with temporary_folder(folder) as staged:
        copies = copy_records(records, is_test, staged, reporter.note)
        if not records.is_corpus:
            beside = os.path.dirname(records.path) or os.curdir
            names = [Path(beside, name) for name in (FEATURES, LABELS, VECTORIZER)]
            copies += [Path(shutil.copy(file, staged)) for file in names if file.is_file()]
        files = [folder / copy.name for copy in copies]
        check_outputs(files, source.inputs)
        for file in files:
            if file.exists() and not (overwrite and file.is_file()):
                advice = "choose another folder, or replace it with `overwrite=True`"
                raise UsageError(f"There is {file} already; {advice}.")
        with uninterruptible:
            # Whatever happens, no part is left beside another part of an earlier division.
            for file in files:
                file.unlink(missing_ok=True)
            for copy, file in zip(copies, files, strict=True):
                os.replace(copy, file)
    N, N_test = len(is_test), int(is_test.sum())
    points = counted(N, "document" if records.is_corpus else "point")
    reporter.note(f"{records.path}: {points}, {N_test} ({100 * N_test / N:.1f} %) for testing")
    return files
