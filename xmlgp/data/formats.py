"""Read data files in the format of the Extreme Classification Repository or of libsvm.

The first line of a file determines its format; the file name does not.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from xmlgp.data import libsvm_format, repository_format
from xmlgp.data.dataset import Dataset, Features, widen
from xmlgp.data.files import open_input
from xmlgp.data.lines import LineReader
from xmlgp.data.repository_format import HEADER, Header
from xmlgp.runtime.errors import DataFormatError
from xmlgp.runtime.progress import ignore

__all__ = [
    "LIBSVM",
    "MULTILABEL",
    "REPOSITORY",
    "fit_to_model",
    "is_libsvm",
    "is_rows",
    "lines_of_points",
    "read_blocks",
    "read_dataset",
    "read_rows",
]

#: The number of features, or of labels, that a file of any size may have. A larger number needs as many stored values;
#: otherwise a single index in a small file could exhaust memory, because some arrays have an element for each column.
COLUMNS_ALWAYS_ALLOWED = 1 << 24

#: The first line of a file of features alone or labels alone, `N D` or `N K`.
TWO_NUMBERS = re.compile(rb"\s*\d+\s+\d+\s*")

#: A first line in libsvm format: a comment, a label of two classes alone, or one or several labels and pairs.
LIBSVM_LINE = re.compile(
    rb"[ \t]*(#|([+-]?[01](\.0*)?|[+-]?\d[\d.]*([ \t]+\w+:\S+)+|\d+(,\d+)+([ \t]+\d+:[^:\s]+)+)[ \t\r]*(#|\n|\Z))"
)

#: A first line in libsvm format of a point without labels: pairs alone. To train, a text must not start like this.
LIBSVM_PAIRS = re.compile(rb"([ \t]*\d+:[^:\s]+)([ \t]+\d+:[^:\s]+)*[ \t\r]*(#|\n|\Z)")

#: A line of a file in libsvm format that is neither blank nor a comment.
POINT = re.compile(r"\s*[^\s#]")

#: The comment in such a line.
COMMENT = re.compile("#.*")

#: UTF-8's byte order mark, decoded as Latin-1.
BYTE_ORDER_MARK = "\xef\xbb\xbf"

#: Names of the formats, as in the catalogue of data sets (`xmlgp.data.catalogue`). Files in libsvm format with two
#: classes and those with several labels per point are different formats.
REPOSITORY = "repository"
LIBSVM = "libsvm"
MULTILABEL = "multi-label libsvm"


def is_rows(line: bytes) -> bool:
    """Return whether the first line of a file starts rows of numbers, not text."""
    # Features alone and labels alone count as rows, because the error of the readers of rows says what is missing.
    return bool(HEADER.fullmatch(line) or TWO_NUMBERS.fullmatch(line)) or is_libsvm(line)


def is_libsvm(line: bytes) -> bool:
    """Return whether a file is in libsvm format, by its first line."""
    return bool(LIBSVM_LINE.match(line) or LIBSVM_PAIRS.match(line))


def read_dataset(path: str | os.PathLike[str]) -> Dataset:
    """Read a whole data file in either format.

    Parameters
    ----------
    path : str or Path
        A text file, a gzip file named `.gz`, or `-` for standard input.

    Returns
    -------
    Dataset

    Raises
    ------
    DataFormatError
        If the file is malformed. The message has the line number.
    """
    path = os.fspath(path)
    with open_input(path) as stream:
        return read_rows(LineReader(stream, path))[0]


def read_rows(
    reader: LineReader, multilabel: bool | None = None, note: Callable[[str], object] = ignore, first: int | None = None
) -> tuple[Dataset, str]:
    """Return the points of an open file (`LineReader` at the first line), and `REPOSITORY`, `LIBSVM` or `MULTILABEL`.

    `multilabel` says whether a file in libsvm format has several labels per point, and `first` the number of its first
    feature then; None infers it from the file. `note` gets the assumptions about that format, one sentence each.
    DataFormatError is raised if the file is malformed.
    """
    if is_libsvm(reader.peek_line()):
        dataset, multilabel = libsvm_format.read_points(reader, multilabel, note, first=first)
        data_format = MULTILABEL if multilabel else LIBSVM
    else:
        dataset = repository_format.read_points(reader)
        data_format = REPOSITORY
    for noun, matrix in ("features", dataset.features.sparse), ("labels", dataset.labels):
        columns = matrix.shape[1]
        if columns > max(COLUMNS_ALWAYS_ALLOWED, matrix.nnz):
            reason = f"there are {columns} {noun} for {matrix.nnz} values; number the {noun} that occur, without gaps"
            raise DataFormatError(reader.path, 1, reason)
    return dataset, data_format


def read_blocks(
    reader: LineReader,
    D: int,
    K: int = 1,
    labelled: bool = True,
    note: Callable[[str], object] = ignore,
    first: int | None = None,
) -> tuple[Header, Iterator[Dataset]]:
    """Return the `Header` of an open file and its points in blocks, for a model with D features and K labels.

    A file in libsvm format is one block. It does not declare D and K, so its points get those of the model
    (`fit_to_model`), whose first feature has the number `first` if K is above one. Labels of such a file are then not
    read if `labelled` is false. DataFormatError has the line number; iterating over the blocks may also raise it.
    """
    if not is_libsvm(reader.peek_line()):
        return repository_format.read_blocks(reader)
    dataset, _ = libsvm_format.read_points(reader, K > 1, note, labelled, first, D)
    dataset = fit_to_model(dataset, D, K if labelled else 0, reader.path, note)
    return Header(*dataset.shape), iter([dataset])


def fit_to_model(dataset: Dataset, D: int, K: int, path: str, note: Callable[[str], object] = ignore) -> Dataset:
    """Return points of a file in libsvm format with exactly the D features of a model and at least its K labels.

    Features beyond D, which only files of two classes have, are dropped with a note: no training point had them.
    """
    if dataset.D > D:
        note(f"{path} has features up to {dataset.D}; those above {D} are ignored because no training point had them")
    features = widen(dataset.features.sparse[:, :D], D)
    return replace(dataset, features=Features(features), labels=widen(dataset.labels, max(K, dataset.K)))


def lines_of_points(lines: list[str], dataset: Dataset, data_format: str) -> tuple[list[str], Sequence[int]]:
    """Return the lines of a file, and the number of the one where each point starts; rows of several labels are new.

    The lines are decoded as Latin-1. They lose their byte order mark, and rows of several labels in libsvm format get a
    first line `N D K`: without it, a part of them might count features from another number, or lack the last ones.
    """
    lines[0] = lines[0].removeprefix(BYTE_ORDER_MARK)
    starts = [number for number, line in enumerate(lines, 1) if POINT.match(line)]
    if data_format == LIBSVM:
        return lines, starts
    if data_format == MULTILABEL:
        head = f"{dataset.N} {dataset.D + (dataset.first_feature or 0)} {dataset.K}\n"
        lines = [head, *(_declared_row(lines[start - 1]) for start in starts)]
    return lines, range(2, dataset.N + 2)


def _declared_row(line: str) -> str:
    """Return a point in libsvm format as it is after a line `N D K`."""
    words = COMMENT.sub("", line).split()
    # A point without labels starts with a blank.
    return f"{' ' if ':' in words[0] else ''}{' '.join(words)}\n"
