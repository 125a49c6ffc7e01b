"""Read data files of any format, which the first line determines, not the name of the file."""

import os

from xmlgp.data import libsvm_format, repository_format
from xmlgp.data.libsvm_format import is_libsvm
from xmlgp.data.lines import LineReader
from xmlgp.data.repository_format import Header
from xmlgp.data.streams import open_input
from xmlgp.runtime.progress import silent

__all__ = ["LIBSVM", "REPOSITORY", "blocks_of", "points_of", "read_blocks", "read_dataset"]

#: Names of the formats, as in the catalogue.
REPOSITORY, LIBSVM = "repository", "libsvm"


def read_dataset(path, cache=True, progress=silent, work=None):
    """Read a whole data file.

    Parameters
    ----------
    path, cache, progress, work
        As for `repository_format.read_dataset`. Files in libsvm format are not cached.

    Returns
    -------
    dataset : Dataset
    format : str
        `REPOSITORY` or `LIBSVM`.

    Raises
    ------
    DataFormatError
        If the file is malformed; it names the line.
    ClusterError
        As for `repository_format.read_dataset`.
    """
    path = os.fspath(path)
    # A pipe cannot be opened twice.
    if cache and path != "-" and os.path.isfile(path):
        with open_input(path) as stream:
            cacheable = not is_libsvm(LineReader(stream, path).peek_line())
        if cacheable:
            return repository_format.read_dataset(path, cache, progress, work), REPOSITORY
    with open_input(path) as stream:
        return points_of(LineReader(stream, path), progress)


def points_of(reader, progress=silent):
    """Read all points of a file that is already open, as `read_dataset` does, without the cache.

    Parameters
    ----------
    reader : LineReader
        At the first line.
    progress
        As for `read_dataset`.
    """
    if is_libsvm(reader.peek_line()):
        return libsvm_format.read_points(reader, progress), LIBSVM
    return repository_format.read_points(reader, progress), REPOSITORY


def read_blocks(path, D, warn=lambda text: None):
    """Read points for a model, block by block if the file is in the repository's format.

    Parameters
    ----------
    path : str or Path
        A text file, a gzip file named `.gz`, or `-` for standard input.
    D : int
        The number of features of the model. A file in libsvm format does not declare their number: its points get D
        features, and features beyond them, which no training point had, are ignored.
    warn : callable
        Receives a message if features are ignored.

    Returns
    -------
    header : Header
        The first line of a file in the repository's format; the actual sizes otherwise.
    blocks : iterator of (int, Dataset)
        The line where each block starts, and its points.

    Raises
    ------
    DataFormatError
        If the file is malformed; it names the line. The iterator may also raise it.
    """
    items = _open_and_read(os.fspath(path), D, warn)
    return next(items), items


def blocks_of(reader, D, warn=lambda text: None):
    """Return the header and the points of a file that is already open, as `read_blocks` does.

    Parameters
    ----------
    reader : LineReader
        At the first line.
    D, warn
        As for `read_blocks`.
    """
    items = _read(reader, D, warn)
    return next(items), items


def _open_and_read(path, D, warn):
    """Yield the header, then the blocks."""
    with open_input(path) as stream:
        yield from _read(LineReader(stream, path), D, warn)


def _read(reader, D, warn):
    if not is_libsvm(reader.peek_line()):
        yield from repository_format.read_header_and_blocks(reader)
        return
    dataset = libsvm_format.read_points(reader)
    if dataset.D > D:
        warn(
            f"{reader.path} has features up to {dataset.D}; those above {D} are ignored because no training point had "
            "them"
        )
    dataset = libsvm_format.resize_features(dataset, D)
    yield Header(dataset.N, dataset.D, dataset.K)
    yield 1, dataset
