"""Read data files of any format, which the first line determines, not the name of the file."""

import os
import re
from collections.abc import Callable, Iterator

from scipy.sparse import csr_array

from xmlgp.data import libsvm_format, repository_format
from xmlgp.data.dataset import Dataset, Features, widened
from xmlgp.data.files import open_input
from xmlgp.data.libsvm_format import is_libsvm
from xmlgp.data.lines import LineReader
from xmlgp.data.repository_format import HEADER, Header
from xmlgp.runtime.errors import DataFormatError
from xmlgp.runtime.progress import Progress, ignore, silent

__all__ = ["LIBSVM", "MULTILABEL", "REPOSITORY", "fitted", "is_rows", "read_blocks", "read_dataset", "read_rows"]

#: Features or labels that rows may have however few values there are. Beyond it, as many values are needed: arrays with
#: an element for each column would otherwise be as large as one number in a small file says.
FREE_COLUMNS = 1 << 24

#: The first line of features or labels alone.
TWO = re.compile(rb"\s*\d+\s+\d+\s*")

#: Names of the formats, as in the catalogue; libsvm's with several labels a point is a third.
REPOSITORY = "repository"
LIBSVM = "libsvm"
MULTILABEL = "multi-label libsvm"


def is_rows(line: bytes, strict: bool = False) -> bool:
    """Return whether a file has rows of numbers, not text, by its first line.

    A line that may be text as well, such as `10:30`, is text if `strict`.
    """
    # Two numbers are the first line of features or labels alone, which gets an error.
    return bool(HEADER.fullmatch(line) or (not strict and TWO.fullmatch(line))) or is_libsvm(line, strict)


def read_dataset(path: str | os.PathLike[str], progress: Progress = silent) -> tuple[Dataset, str]:
    """Read a whole data file.

    Parameters
    ----------
    path, progress
        As for `repository_format.read_dataset`.

    Returns
    -------
    dataset : Dataset
    format : str
        `REPOSITORY`, `LIBSVM` or `MULTILABEL`.

    Raises
    ------
    DataFormatError
        If the file is malformed; it names the line.
    """
    path = os.fspath(path)
    with open_input(path) as stream:
        return read_rows(LineReader(stream, path), progress)


def read_rows(
    reader: LineReader, progress: Progress = silent, several: bool | None = None, note: Callable[[str], object] = ignore
) -> tuple[Dataset, str]:
    """Read all points of a file that is open (`LineReader` at the first line), as `read_dataset` does.

    `several` says whether the points have several labels, None if only the file knows; what is assumed is noted.
    """
    if is_libsvm(reader.peek_line(), strict=False):
        dataset, several = libsvm_format.read_points(reader, progress, several, note)
        data_format = MULTILABEL if several else LIBSVM
    else:
        dataset = repository_format.read_points(reader, progress)
        data_format = REPOSITORY
    _check_columns(dataset.features.sparse, "features", reader.path)
    _check_columns(dataset.labels, "labels", reader.path)
    return dataset, data_format


def _check_columns(matrix: csr_array, noun: str, path: str) -> None:
    """Raise DataFormatError if there are far more columns than values."""
    columns = matrix.shape[1]
    if columns > max(FREE_COLUMNS, matrix.nnz):
        reason = f"there are {columns} {noun} for {matrix.nnz} values; number the {noun} that occur, without gaps"
        raise DataFormatError(path, 1, reason)


def read_blocks(
    reader: LineReader, D: int, K: int = 1, labelled: bool = True, note: Callable[[str], object] = ignore
) -> tuple[Header, Iterator[Dataset]]:
    """Return the `Header` of an open file for a model of D features and K labels, and its points in blocks.

    A file in libsvm format, one block, does not declare its sizes, so its points are `fitted`; unless they are
    `labelled`, they have no labels for a model of several. DataFormatError, which iteration may also raise, names the
    line of an error.
    """
    if not is_libsvm(reader.peek_line(), strict=False):
        return repository_format.read_blocks(reader)
    labelled = labelled or K == 1
    dataset, _ = libsvm_format.read_points(reader, silent, K > 1, note, labelled)
    dataset = fitted(dataset, D, K if labelled else 0, reader.path, note)
    return Header(*dataset.shape), iter([dataset])


def fitted(dataset: Dataset, D: int, K: int, path: str, note: Callable[[str], object] = ignore) -> Dataset:
    """Return points of a file in libsvm format with the D features of a model, and at least its K labels.

    Features beyond those, which no training point had, are ignored with a note.
    """
    if dataset.D > D:
        note(f"{path} has features up to {dataset.D}; those above {D} are ignored because no training point had them")
    features = widened(dataset.features.sparse[:, :D], D)
    return Dataset(Features(features), widened(dataset.labels, max(K, dataset.K)))
