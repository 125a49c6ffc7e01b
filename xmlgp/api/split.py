"""Divide a data set into training and test points."""

from __future__ import annotations

import io
import os
import re
import shutil
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from xmlgp.api.corpus import NO_LABELS, Corpus, lacking
from xmlgp.api.points import FilePath, LabelledPoints, Signature
from xmlgp.api.source import Source
from xmlgp.data.division import choose_test_points
from xmlgp.data.files import OPTIONS_FILE, check_outputs, format_ending, open_input, open_output
from xmlgp.data.formats import MULTILABEL, lines_of_points
from xmlgp.runtime.atomic_files import temporary_folder
from xmlgp.runtime.errors import SettingsError, UsageError, XmlgpError
from xmlgp.runtime.interrupts import uninterruptible
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.progress import QUIET, Reporter
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.documents import NO_OPTIONS
from xmlgp.text.names import FEATURES, LABELS, VECTORIZER, Names
from xmlgp.text.options_file import followed, options_text

__all__ = ["split"]

#: The number of points in a header of rows.
COUNT = re.compile(r"\A\s*\d+")


def split(
    data: FilePath | Source,
    out: FilePath,
    *,
    test: float = 0.25,
    in_order: bool = False,
    seed: int = 0,
    overwrite: bool = False,
    reporter: Reporter = QUIET,
) -> list[Path]:
    """Divide the points of a file into those for training and those for testing; return the files that have them.

    Parameters
    ----------
    data : path or Source
        A file of lines, as for `train`, or the folder of one. Documents that have the same value in the column `group`
        of a `CorpusOptions` are all in one part.
    out : path
        The folder for the training and the test file, whose records are those of the file `data`, unchanged. Rows of
        several labels in libsvm format get a first line `N D K`, and keep the numbers of labels and features. Options
        of a corpus go into `corpus.json`, which other functions follow.
    test : float
        The share of test points, below 1, or their number.
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
    records = _read_records(source, reporter)
    is_test = choose_test_points(records.groups, test, in_order, seed)
    if is_test.all() or not is_test.any():
        raise SettingsError(f"{records.path}: it is one {records.noun}, or too few groups, to be divided like this")
    folder = Path(out)
    with temporary_folder(folder) as staged:
        copies = _write_parts(records, is_test, staged, reporter)
        if records.noun == "point":
            names = [Path(records.path).with_name(name) for name in (FEATURES, LABELS, VECTORIZER)]
            copies += [Path(shutil.copy(file, staged)) for file in names if file.is_file()]
        files = [folder / copy.name for copy in copies]
        # Options of an earlier division must not stay beside these parts.
        replaced = [*files, folder / OPTIONS_FILE]
        check_outputs(replaced, source.inputs)
        for file in replaced:
            if file.exists() and not (overwrite and file.is_file()):
                advice = "choose another folder, or replace it with `overwrite=True`"
                raise UsageError(f"There is {file} already; {advice}.")
        with uninterruptible:
            # Whatever happens, no part is left beside another part of an earlier division.
            for file in replaced:
                file.unlink(missing_ok=True)
            for copy, file in zip(copies, files, strict=True):
                os.replace(copy, file)
    N, N_test = len(is_test), int(is_test.sum())
    reporter.note(f"{records.path}: {counted(N, records.noun)}, {N_test} ({100 * N_test / N:.1f} %) for testing")
    return files


class Records(NamedTuple):
    """The records of N points in a file of lines, each a text, what is before them, and the group of each point.

    Messages call a point `noun`; `encoding` is that of the lines of the file, `ending` that of the names of both parts.
    `told` is the content of the file of options beside these, if it is not empty.
    """

    path: str
    noun: str
    encoding: str
    ending: str
    head: str
    texts: NDArray[np.object_]
    groups: Sequence[int]
    told: str


def _read_records(source: Source, reporter: Reporter) -> Records:
    """Return the records of the training file of a path; XmlgpError if it is not one of lines, or has none."""
    with source.labelled_file("train", reporter) as points:
        if points.lines is None:
            advice = "write JSON Lines, or divide it by `sklearn.model_selection.train_test_split`"
            raise XmlgpError(f"{points.path}: only files of lines are divided; {advice}")
        encoding = points.lines.encoding or "latin-1"  # which keeps all bytes
        rows = None
        if isinstance(points, Corpus):
            found = points.labels(None, with_texts=True)
            if without := lacking(found.labels, NO_LABELS):
                reporter.note(f"{points.path}: {without}")
        else:
            rows = points.read(Signature(Names()))
            found = LabelledPoints(rows.dataset.labels)
    noun = "point" if rows else "document"
    N = found.labels.shape[0]
    if not N:
        raise XmlgpError(f"{points.path}: there are no {noun}s")
    with open_input(points.path, encoding) as stream, io.TextIOWrapper(stream, encoding, newline="\n") as text:
        lines = text.readlines()
    if not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    starts = found.lines
    is_new = rows and rows.format == MULTILABEL
    ending = ".txt" if is_new else format_ending(points.path) or ".txt"
    if rows:
        lines, starts = lines_of_points(lines, rows.dataset, rows.format)
    if points.path.lower().endswith(".gz"):
        ending += ".gz"
    # Lines without a point follow the point before them.
    bounds = [*(start - 1 for start in starts), len(lines)]
    texts = np.empty(N, object)
    texts[:] = ["".join(lines[start:stop]) for start, stop in pairwise(bounds)]
    groups = found.groups or [0] * N
    options = followed(source.corpus or NO_OPTIONS, points.path)
    if options.group and 0 in groups:
        have = counted(groups.count(0), "document has", "documents have")
        reporter.note(f"{points.path}: {have} no {excerpt(options.group)}, and may each be in either part")
    head = "".join(lines[: bounds[0]])
    return Records(points.path, noun, encoding, ending, head, texts, groups, options_text(options))


def _write_parts(records: Records, is_test: NDArray[np.bool_], folder: Path, reporter: Reporter) -> list[Path]:
    """Write the records to files in a folder, and return these; note how many for testing are copies of others."""
    is_corpus = records.noun == "document"
    parts = {"train": records.texts[~is_test].tolist(), "test": records.texts[is_test].tolist()}
    files = []
    for name, texts in parts.items():
        # The header of rows begins with their number; a comment may precede others.
        head = records.head if is_corpus else COUNT.sub(str(len(texts)), records.head)
        file = folder / f"{name}{records.ending}"
        with open_output(file) as output:
            output.write("".join([head, *texts]).encode(records.encoding))
        files.append(file)
    if records.told:
        files.append(folder / OPTIONS_FILE)
        files[-1].write_text(records.told, encoding="utf-8")
    copies = sum(map(set(parts["train"]).__contains__, parts["test"]))
    if copies and is_corpus:
        have = counted(copies, "document for testing is a copy", "documents for testing are copies")
        reporter.note(
            f"{records.path}: {have} of ones for training; in a table or JSON Lines, --group-column with the column of "
            "texts keeps them together"
        )
    return files
