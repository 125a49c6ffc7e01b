"""Read data files of any format, which the first line determines, not the name of the file."""

import os
from collections.abc import Callable, Iterator

from scipy.sparse import csr_array

from xmlgp.data import libsvm_format, repository_format, two_files
from xmlgp.data.dataset import Dataset, widened
from xmlgp.data.libsvm_format import is_libsvm
from xmlgp.data.lines import LineReader
from xmlgp.data.repository_format import HEADER, Header
from xmlgp.data.streams import open_input
from xmlgp.runtime.errors import DataFormatError
from xmlgp.runtime.progress import Progress, ignore, silent

__all__ = ["LIBSVM", "MULTILABEL", "REPOSITORY", "fitted", "is_rows", "read_blocks", "read_dataset", "read_labels"]
__all__ += ["read_rows"]

#: Features or labels that rows may have however few values there are. Beyond it, as many values are needed: arrays with
#: an element for each column would otherwise be as large as one number in a small file says.
FREE_COLUMNS = 1 << 24

#: Names of the formats, as in the catalogue; libsvm's with several labels a point is a third.
REPOSITORY = "repository"
LIBSVM = "libsvm"
MULTILABEL = "multi-label libsvm"


def is_rows(path: str, line: bytes, strict: bool = False) -> bool:
    """Return whether a file has rows of numbers, not text, by its first line, and perhaps its name.

    A line that may be text as well, such as two numbers, is text if `strict`.
    """
    return bool(HEADER.fullmatch(line)) or is_libsvm(line, strict) or two_files.is_part(path, line, strict)


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
    dataset, data_format = _read_rows(reader, progress, several, note)
    _check_columns(dataset.features.sparse, "features", reader.path)
    _check_columns(dataset.labels, "labels", reader.path)
    return dataset, data_format


def _read_rows(
    reader: LineReader, progress: Progress, several: bool | None, note: Callable[[str], object]
) -> tuple[Dataset, str]:
    first = reader.peek_line()
    if two_files.is_part(reader.path, first):
        header, blocks = two_files.read_blocks(reader, True, note)
        return repository_format.stack_blocks(header, blocks, reader.path, progress), REPOSITORY
    if is_libsvm(first, strict=False):
        dataset, several = libsvm_format.read_points(reader, progress, several, note)
        return dataset, MULTILABEL if several else LIBSVM
    return repository_format.read_points(reader, progress), REPOSITORY


def _check_columns(matrix: csr_array, noun: str, path: str) -> None:
    """Raise DataFormatError if there are far more columns than values."""
    columns = matrix.shape[1]
    if columns > max(FREE_COLUMNS, matrix.nnz):
        reason = f"there are {columns} {noun} for {matrix.nnz} values; number the {noun} that occur, without gaps"
        raise DataFormatError(path, 1, reason)


def read_blocks(
    reader: LineReader, D: int, K: int = 1, labelled: bool = True, note: Callable[[str], object] = ignore
) -> tuple[Header, Iterator[tuple[int, Dataset]]]:
    """Return the `Header` of an open file for a model of D features and K labels, and each block's line and points.

    A file in libsvm format, one block, does not declare its sizes, so its points are `fitted`; unless they are
    `labelled`, they have no labels for a model of several. DataFormatError, which iteration may also raise, names the
    line of an error.
    """
    first = reader.peek_line()
    if two_files.is_part(reader.path, first):
        return two_files.read_blocks(reader, labelled, note)
    if not is_libsvm(first, strict=False):
        return repository_format.read_blocks(reader)
    labelled = labelled or K == 1
    dataset, _ = libsvm_format.read_points(reader, silent, K > 1, note, labelled)
    dataset = fitted(dataset, D, K if labelled else 0, reader.path, note)
    return Header(*dataset.shape), iter([(1, dataset)])


def read_labels(
    reader: LineReader, progress: Progress = silent, several: bool | None = None, note: Callable[[str], object] = ignore
) -> tuple[csr_array, int, bool]:
    """Read the labels of points as `read_rows` does; they may be in a file of their own.

    Return a csr_array of bool, N×K, and D, which is 0 if only the labels are known, and whether no line declares K.
    """
    if two_files.is_part(reader.path, reader.peek_line()):
        labels, D = two_files.read_labels(reader, note)
        _check_columns(labels, "labels", reader.path)
        return labels, D, False
    dataset, data_format = read_rows(reader, progress, several, note)
    return dataset.labels, dataset.D, data_format == MULTILABEL


def fitted(dataset: Dataset, D: int, K: int, path: str, note: Callable[[str], object] = ignore) -> Dataset:
    """Return points of a file in libsvm format with the D features of a model, and at least its K labels.

    Features beyond those, which no training point had, are ignored with a note.
    """
    if dataset.D > D:
        note(f"{path} has features up to {dataset.D}; those above {D} are ignored because no training point had them")
    resized = libsvm_format.resize_features(dataset, D)
    return Dataset(resized.features, widened(resized.labels, max(K, dataset.K)))
